# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares what a replay yields with the robot's other topics, as both come along."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from remote_inference.core.exchange import Chunk, no_rows
from remote_inference.core.robot.tick import Tick
from remote_inference.recording.decisions.exact import exact, first_difference
from remote_inference.recording.decisions.report import Difference

KEPT = 20_000  # recorded or replayed items that may wait for the other side
Add = Callable[[Difference], None]


@dataclass(frozen=True)
class TickRecord:
    """What ExecutedAction and a replayed tick have in common, in the order in which it is compared."""

    source: int
    action: np.ndarray
    joint_names: list[str]
    interventions: list[str]
    session_id: str
    seq_id: int
    step_index: int
    row_fraction: float
    policy_version: str
    action_age_s: float
    shadow: bool

    @classmethod
    def of_message(cls, message: Any) -> TickRecord:
        return cls(
            message.source,
            np.asarray(message.action, np.float64).reshape(len(message.action)),
            list(message.joint_names),
            list(message.interventions),
            message.session_id,
            message.seq_id,
            message.step_index,
            float(getattr(message, "row_fraction", 0.0)),  # bags of older releases lack it
            message.policy_version,
            float(message.action_age_s),
            bool(getattr(message, "shadow", False)),  # as above
        )

    @classmethod
    def of_replay(cls, tick: Tick, joint_names: Sequence[str]) -> TickRecord:
        queued, source = tick.queued, tick.queued and tick.queued.source
        return cls(
            int(tick.source),
            np.empty(0) if tick.command is None else tick.command,
            list(joint_names),
            list(tick.interventions),
            source.session_id if source else "",
            source.seq_id if source else 0,
            queued.step_index if queued else 0,
            tick.row_fraction,
            source.policy_version if source else "",
            float(np.float32(tick.age_s)) if not math.isnan(tick.age_s) else math.nan,
            tick.shadow,
        )


class Pairs:
    """Pairs recorded with replayed items of one kind by their numbers, whichever of both comes first."""

    def __init__(self, kind: str, names: tuple[str, ...], add: Add) -> None:
        """names: of the elements of arrays."""
        self._kind = kind
        self._names = list(names)
        self._add = add
        self._recorded: dict[Any, tuple[float, Any]] = {}
        self._replayed: dict[Any, Any] = {}
        self.compared = 0
        self.unrecorded = 0

    def record(self, key: Any, time_s: float, item: Any) -> None:
        """Take a recorded item."""
        if key in self._replayed:
            self._compare(key, time_s, item, self._replayed.pop(key))
        elif key in self._recorded:  # two of one number: one of them is another sender's
            self._tell_alien(key, time_s)
        else:
            self._recorded[key] = time_s, item
            if len(self._recorded) > KEPT:
                oldest = next(iter(self._recorded))
                self._tell_alien(oldest, self._recorded.pop(oldest)[0])

    def replay(self, key: Any, item: Any) -> None:
        """Take a replayed item."""
        if key in self._recorded:
            self._compare(key, *self._recorded.pop(key), item)
        else:
            self._replayed[key] = item
            if len(self._replayed) > KEPT:
                del self._replayed[next(iter(self._replayed))]
                self.unrecorded += 1

    def finish(self, covered_s: tuple[float, float]) -> int:
        """Count what was not recorded; return how many recorded items may be of after the journal's end.

        covered_s: times that the journal covers: what was recorded then and not replayed differs.
        """
        self.unrecorded += len(self._replayed)
        left = 0
        for key, (time_s, _) in self._recorded.items():
            if covered_s[0] <= time_s <= covered_s[1]:
                self._tell_alien(key, time_s)
            else:
                left += 1
        self._replayed.clear()
        self._recorded.clear()
        return left

    def _tell_alien(self, key: Any, time_s: float) -> None:
        self._add(Difference(self._name(key), time_s, "a message of another sender", "one", "none"))

    def _name(self, key: Any) -> str:
        return f"{self._kind} {key if isinstance(key, int) else key[-1]}"

    def _compare(self, key: Any, time_s: float, recorded: Any, replayed: Any) -> None:
        self.compared += 1
        if exact(recorded) != exact(replayed):
            field, before, after = first_difference(self._names, recorded, replayed)
            self._add(Difference(self._name(key), time_s, field, before, after))


@dataclass(frozen=True)
class RequestRecord:
    """What Observation and a replayed request have in common."""

    session_id: str
    session_epoch: int
    seq_id: int
    episode_id: int
    episode_start: bool
    client_mono_ns: int
    task: str
    inference_delay_steps: int
    prefix_model: np.ndarray
    prefix_robot: np.ndarray

    @classmethod
    def of(cls, item: Any) -> RequestRecord:
        """Take an Observation, or a request."""
        named = {field.name: getattr(item, field.name) for field in fields(cls)}
        for space in ("prefix_model", "prefix_robot"):
            rows = no_rows() if named[space] is None else named[space]
            named[space] = np.asarray(rows, np.float32).reshape(-1)
        return cls(**named)


def request_key(item: Any) -> tuple[int, int]:
    """Return the numbers of a request, of an Observation or of a chunk."""
    return item.session_epoch, item.seq_id


class Chunks:
    """Compares each chunk that the engine was told with those of its numbers on the topic.

    A fault may have repeated and changed a message on its way: one that is equal suffices.
    """

    def __init__(self, names: tuple[str, ...], add: Add) -> None:
        self._names = list(names)
        self._add = add
        self._recorded: dict[tuple[int, int], list[Chunk]] = {}
        self._waiting: deque[tuple[float, Chunk]] = deque()
        self.compared = 0
        self.unrecorded = 0

    def record(self, chunk: Chunk) -> None:
        """Take a recorded chunk."""
        self._recorded.setdefault(request_key(chunk), []).append(chunk)
        if len(self._recorded) > KEPT // 100:
            del self._recorded[next(iter(self._recorded))]

    def replay(self, time_s: float, chunk: Chunk) -> None:
        """Take a chunk of the journal; the topic's copy was recorded before the journal, or soon after."""
        self._waiting.append((time_s, chunk))
        while len(self._waiting) > KEPT // 1000:
            self._compare(*self._waiting.popleft())

    def finish(self) -> None:
        """Compare the rest."""
        while self._waiting:
            self._compare(*self._waiting.popleft())
        self._recorded.clear()

    def _compare(self, time_s: float, chunk: Chunk) -> None:
        candidates = self._recorded.get(request_key(chunk), [])
        if not candidates:
            self.unrecorded += 1
            return
        self.compared += 1
        if all(exact(candidate) != exact(chunk) for candidate in candidates):
            field, before, after = first_difference(self._names, candidates[0], chunk)
            self._add(Difference(f"chunk {chunk.seq_id}", time_s, field, before, after))
