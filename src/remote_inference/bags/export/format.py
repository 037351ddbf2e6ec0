# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every format of an export does with control ticks, and those that are one flat table."""

from __future__ import annotations

import csv
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

from remote_inference.bags.timeline.messages import name_of
from remote_inference.bags.timeline.robot_bag import FloatArray
from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import CommandSource

FILES_IN_FOLDER = 1000
MAX_DATA_FILE_MB, MAX_VIDEO_FILE_MB = 100, 200
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES_PATH = "meta/episodes/chunk-000/file-000.parquet"


def file_place(number: int) -> dict[str, int]:
    """Return the folder of the file with a number, and its number there, as the paths name them."""
    return dict(zip(("chunk_index", "file_index"), divmod(number, FILES_IN_FOLDER), strict=True))


def place_columns(kind: str, number: int) -> dict[str, int]:
    """Return in which file of a kind something is, as `meta/episodes` says it."""
    return {f"{kind}/{part}": index for part, index in file_place(number).items()}


class Phase(IntEnum):
    """Who commanded in a tick: separates a person's corrections from the policy's actions."""

    POLICY = 0
    PERSON = 1
    HOLD = 2  # nobody: a fallback, a pause, the way home, or a person who was silent


_LED: Mapping[int, Phase] = {CommandSource.CHUNK: Phase.POLICY, CommandSource.HUMAN: Phase.PERSON}


@dataclass(frozen=True)
class ControlTick:
    """One row of an export.

    t_ns: of the tick, by the recorder's clock. state: `[state_dim]` newest at the tick, None before every
    source was received. action: `[action_dim]` as published, None where nothing was. images: the newest
    message of each camera, by the robot's name for it. queue_wait_ms, inference_ms: of the chunk behind the
    action, NaN without one, as is age_s.
    """

    t_ns: int
    tick: int
    episode_id: int
    task: str
    client_state: str  # name of State, empty before the first message
    paused: bool | None  # None: the node's state is not known
    source: int  # value of CommandSource, or one that a later release added
    action: FloatArray | None
    state: FloatArray | None
    images: Mapping[str, Any]
    interventions: tuple[str, ...]
    session_id: str
    seq_id: int
    step_index: int
    row_fraction: float  # of the row's time that has passed; 0.0 when it begins
    age_s: float
    queue_wait_ms: float
    inference_ms: float
    policy_version: str
    shadow: bool

    @property
    def phase(self) -> Phase:
        return _LED.get(self.source, Phase.HOLD)


@dataclass
class Written:
    """What an export consists of."""

    episodes: int = 0
    ticks: int = 0
    left_out: dict[str, int] = field(default_factory=dict)  # ticks by reason
    notes: list[str] = field(default_factory=list)  # what else is to be known of the ticks, in words

    def leave_out(self, reason: str, ticks: int = 1) -> None:
        self.left_out[reason] = self.left_out.get(reason, 0) + ticks

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Format(AbstractContextManager["Format"]):
    """Writes episodes of control ticks; leaving the context completes the files, but not after an error."""

    needs_images: ClassVar[bool] = False  # the ticks carry the cameras' messages
    takes_rows: ClassVar[bool] = False  # one tick for each row of the policy, not each control tick

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        """Write to `out`, a file or folder that does not exist yet. images: write those, too."""
        self.out = out
        self.contract = contract
        self.images = images
        self.written = Written()

    @abstractmethod
    def add(self, tick: ControlTick) -> None:
        """Write the next tick of the episode."""

    def end_episode(self) -> None:
        """End the episode. The next tick begins another."""
        self.written.episodes += 1

    @abstractmethod
    def close(self) -> None:
        """Complete the files."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()


@dataclass(frozen=True)
class Selection:
    """What is left out on request.

    resample: one tick in each period of the contract's rate. drop_paused: no ticks of a paused robot.
    drop_failed: no episodes that failed, as `export` judges.
    """

    resample: bool = False
    drop_paused: bool = False
    drop_failed: bool = False

    def apply(self, ticks: Iterable[ControlTick], period_ns: int, written: Written) -> Iterator[ControlTick]:
        """Yield the ticks of one episode that are exported; count the others."""
        # Before pauses are left out: they would be filled with the tick before each.
        kept = _resample(ticks, period_ns, written) if self.resample else ticks
        for tick in kept:
            if self.drop_paused and tick.paused is not False:
                written.leave_out("paused")
            else:
                yield tick


def one_per_row(ticks: Iterable[ControlTick], ticks_per_row: int) -> Iterator[ControlTick]:
    """Yield the ticks in which a row of the policy begins; where it commands nothing, one in a row's time."""
    since: ControlTick | None = None
    for tick in ticks:
        if tick.source == CommandSource.CHUNK:
            begins = tick.row_fraction == 0.0
        else:
            begins = since is None or tick.tick - since.tick >= ticks_per_row
        if begins:
            since = tick
            yield tick


def _resample(ticks: Iterable[ControlTick], period_ns: int, written: Written) -> Iterator[ControlTick]:
    """Yield one tick per period, counted from the episode's first: the newest one that began in it.

    In a period without a tick the robot held what it was commanded before: the tick before is repeated.
    """
    before: ControlTick | None = None
    begin_ns = slot = 0
    for tick in ticks:
        if before is None:
            begin_ns = tick.t_ns
        next_slot = max(slot, round((tick.t_ns - begin_ns) / period_ns))
        if before is not None and next_slot == slot:
            written.leave_out("second tick of a period")
        for missed in range(slot, next_slot):
            assert before is not None, "the first tick is in the first slot"
            yield replace(before, t_ns=begin_ns + missed * period_ns)
        before, slot = tick, next_slot
    if before is not None:
        yield replace(before, t_ns=begin_ns + slot * period_ns)


# -- `--csv` and `--parquet`: a row per control tick, its command and where it came from -----------------

ROWS_IN_MEMORY = 10_000
# Type and value of the columns before those of the joints, by name; the types are pyarrow's.
COLUMNS: Mapping[str, tuple[str, Callable[[ControlTick], Any]]] = {
    "t_ns": ("int64", lambda tick: tick.t_ns),  # by the recorder's clock
    "episode_index": ("int64", lambda _: None),  # in the table, from 0
    "episode_id": ("int64", lambda tick: tick.episode_id),  # of the robot
    "tick": ("int64", lambda tick: tick.tick),
    "task": ("string", lambda tick: tick.task),
    "client_state": ("string", lambda tick: tick.client_state),
    "paused": ("bool", lambda tick: tick.paused),
    "source": ("string", lambda tick: name_of(CommandSource, tick.source)),
    "phase": ("string", lambda tick: tick.phase.name.lower()),  # policy, person or hold
    "interventions": ("string", lambda tick: " ".join(tick.interventions)),  # rules of the guard
    "session_id": ("string", lambda tick: tick.session_id),
    "seq_id": ("int64", lambda tick: tick.seq_id if tick.session_id else None),
    "step_index": ("int64", lambda tick: tick.step_index if tick.session_id else None),
    "row_fraction": ("float64", lambda tick: tick.row_fraction if tick.session_id else None),
    "action_age_s": ("float64", lambda tick: _known(tick.age_s)),
    "queue_wait_ms": ("float64", lambda tick: _known(tick.queue_wait_ms)),
    "inference_ms": ("float64", lambda tick: _known(tick.inference_ms)),
    "policy_version": ("string", lambda tick: tick.policy_version),
    "shadow": ("bool", lambda tick: tick.shadow),
}


def columns_of(contract: Contract) -> dict[str, str]:
    """Return name and type of all columns; those of joints are `state.` and `action.` and the name."""
    joints = [f"state.{name}" for name in contract.state_names]
    joints += [f"action.{name}" for name in contract.actions.names]
    return {name: kind for name, (kind, _) in COLUMNS.items()} | dict.fromkeys(joints, "float64")


def row_of(tick: ControlTick, episode_index: int, contract: Contract) -> dict[str, Any]:
    """Return a tick's values by column; None where there is none."""
    row = {name: value(tick) for name, (_, value) in COLUMNS.items()} | {"episode_index": episode_index}
    row |= _by_name("state", contract.state_names, tick.state)
    return row | _by_name("action", contract.actions.names, tick.action)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _by_name(kind: str, names: tuple[str, ...], values: FloatArray | None) -> dict[str, float | None]:
    listed: list[float] | list[None] = [None] * len(names) if values is None else values.tolist()
    return {f"{kind}.{name}": value for name, value in zip(names, listed, strict=True)}


class CsvTable(Format):
    """Writes RFC 4180 with a header line; an unknown value is an empty field."""

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        super().__init__(out, contract, images=images)
        self._file = out.open("x", encoding="utf-8", newline="")
        self._writer = csv.DictWriter(self._file, list(columns_of(contract)))
        self._writer.writeheader()

    def add(self, tick: ControlTick) -> None:
        self._writer.writerow(row_of(tick, self.written.episodes, self.contract))
        self.written.ticks += 1

    def close(self) -> None:
        self._file.close()


class ParquetTable(Format):
    """Writes a Parquet file, compressed by zstd: a row group per piece of an episode."""

    def __init__(self, out: Path, contract: Contract, *, images: bool) -> None:
        import pyarrow as pa  # noqa: PLC0415  a table as text does without
        import pyarrow.parquet as pq  # noqa: PLC0415

        super().__init__(out, contract, images=images)
        types = {name: pa.type_for_alias(alias) for name, alias in columns_of(contract).items()}
        self._writer = pq.ParquetWriter(str(out), pa.schema(types), compression="zstd")
        self._make_table = pa.Table.from_pylist
        self._rows: list[dict[str, Any]] = []

    def add(self, tick: ControlTick) -> None:
        self._rows.append(row_of(tick, self.written.episodes, self.contract))
        self.written.ticks += 1
        if len(self._rows) >= ROWS_IN_MEMORY:
            self._flush()

    def end_episode(self) -> None:
        super().end_episode()
        self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._make_table(self._rows, schema=self._writer.schema))
            self._rows = []

    def close(self) -> None:
        self._flush()
        self._writer.close()
