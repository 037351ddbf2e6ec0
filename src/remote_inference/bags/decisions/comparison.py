# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares what a replay yields with the robot's other topics, as both come along."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from remote_inference.bags.timeline.messages import from_message
from remote_inference.base.exchange import Chunk, Request, no_rows
from remote_inference.robot.command import Float64Array

EQUAL, DIFFERS, UNJUDGED = range(3)  # exit codes


@dataclass(frozen=True)
class Difference:
    """One thing that was recorded and not replayed so."""

    what: str  # tick, command, request, chunk or call, with its number
    time_s: float  # since the bag's begin
    field: str
    recorded: Any
    replayed: Any

    def __str__(self) -> str:
        where = f"{self.what} at {self.time_s:.3f} s"
        return f"{where}: {self.field}: recorded {self.recorded}, replayed {self.replayed}"


@dataclass
class Change:
    """What other parameters would have changed. Ticks are control ticks of the replay."""

    parameters: dict[str, Any]
    first_tick: int | None = None
    first_time_s: float = 0.0
    ticks: int = 0  # that command something else
    largest: dict[str, float] = field(default_factory=dict)  # difference by joint, where both command
    borrowed_chunks: int = 0

    def add(self, tick: int, time_s: float) -> None:
        if self.first_tick is None:
            self.first_tick, self.first_time_s = tick, time_s
        self.ticks += 1

    def compare(self, names: tuple[str, ...], recorded: Float64Array, replayed: Float64Array) -> None:
        """Compare both commands `[action_dim]` of a tick."""
        for name, difference in zip(names, np.abs(recorded - replayed), strict=True):
            self.largest[name] = max(self.largest.get(name, 0.0), float(difference))


@dataclass
class Report:
    """The outcome of a replay. Counts are by kind: ticks, commands, requests, chunks."""

    bag: str
    namespace: str
    runs: int = 0  # of the node
    entries: int = 0
    versions: list[str] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    unrecorded: Counter[str] = field(default_factory=Counter)  # replayed, but not in the bag
    unreplayed: Counter[str] = field(default_factory=Counter)  # in the bag, but after the journal's end
    watchdog_stops: int = 0  # commands that the command watchdog sent
    differences: int = 0
    first: Difference | None = None
    states: list[str] = field(default_factory=list)  # entered, in order
    problems: list[str] = field(default_factory=list)  # why something cannot be judged
    notes: list[str] = field(default_factory=list)
    change: Change | None = None  # with other parameters

    def add(self, difference: Difference) -> None:
        self.differences += 1
        if self.first is None or difference.time_s < self.first.time_s:
            self.first = difference

    def compare(
        self, kind: str, what: str, time_s: float, recorded: Any, replayed: Any, *, names: list[str]
    ) -> None:
        """Count two items of a kind, and add what differs, if anything. names: as of `first_difference`."""
        self.compared[kind] += 1
        if exact(recorded) != exact(replayed):
            self.add(Difference(what, time_s, *first_difference(names, recorded, replayed)))

    @property
    def exit_code(self) -> int:
        if self.change is None and self.differences:
            return DIFFERS
        return UNJUDGED if self.problems else EQUAL

    def to_json(self) -> dict[str, Any]:
        counts = {name: dict(getattr(self, name)) for name in ("compared", "unrecorded", "unreplayed")}
        parts = {
            name: part and asdict(part) for name, part in (("first", self.first), ("change", self.change))
        }
        return {**vars(self), **counts, **parts, "exit_code": self.exit_code}


MOST_SHOWN = 120  # characters of a message
UNCOMPARED = {"header", "__msgtype__"}  # stamps are of the node's clock, which is in no journal


def exact(value: Any) -> Any:
    """Return what stands for a message, a dataclass or a value of theirs in a comparison."""
    if isinstance(value, (np.ndarray, array)):
        return np.asarray(value).tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    return {name: exact(getattr(value, name)) for name in names_of(value)} or value


def names_of(value: Any) -> list[str]:
    """Return the compared fields of a message or a dataclass; none of other values."""
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        typed = getattr(value, "get_fields_and_field_types", None)
        names = list(typed()) if typed else []
    return [name for name in names if name not in UNCOMPARED]


def first_difference(names: list[str], recorded: Any, replayed: Any) -> tuple[str, Any, Any]:
    """Return the first field that differs, with both values; of an array, the first element that does.

    names: of the elements of arrays as long, such as joints. Values are equal: a field of no name.
    """
    for name in names_of(recorded):
        before, after = getattr(recorded, name), getattr(replayed, name, None)
        if exact(before) != exact(after):
            return _narrow(names, name, before, after)
    return "", recorded, replayed


def _narrow(names: list[str], field: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    if isinstance(before, (str, bytes)) or not hasattr(before, "__len__") or not hasattr(after, "__len__"):
        return field, before, after
    if len(before) != len(after):
        return f"{field}: length", len(before), len(after)
    for place, (one, other) in enumerate(zip(before, after, strict=True)):
        if names_of(one) and exact(one) != exact(other):
            inner, of_one, of_other = first_difference(names, one, other)
            return f"{field}[{place}].{inner}", of_one, of_other
    flat = zip(np.ravel(np.asarray(before)), np.ravel(np.asarray(after)), strict=False)
    for place, (one, other) in enumerate(flat):
        if np.asarray(one).tobytes() != np.asarray(other).tobytes():
            where = names[place % len(names)] if names and len(before) % len(names) == 0 else str(place)
            return f"{field}[{where}]", one.item(), other.item()
    return field, before, after


def show(message: Any) -> str:
    """Return the compared fields of a message that are not empty, on one line, shortened."""
    text = _show(message)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _show(value: Any) -> str:
    if names := names_of(value):
        parts = ((name, _show(getattr(value, name))) for name in names)
        return ", ".join(f"{name}: {text}" for name, text in parts if text not in {"", "[]", "0"})
    if isinstance(value, (np.ndarray, array)):
        return str(value.tolist())
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_show, value))}]"
    return str(value)


KEPT = 20_000  # recorded or replayed items that may wait for the other side


@dataclass(frozen=True)
class TickRecord:
    """What the ExecutedActions of a recorded and of a replayed tick share, in the order of comparison."""

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
    earlier_seq_ids: str

    @classmethod
    def of(cls, message: Any) -> TickRecord:
        age_s = float(np.float32(message.action_age_s))  # as a message has it on its way
        action = np.asarray(message.action, np.float64)
        earlier = " ".join(map(str, message.earlier_seq_ids))
        return from_message(cls, message, action=action, action_age_s=age_s, earlier_seq_ids=earlier)


class Pairs:
    """Pairs recorded with replayed items of one kind by their numbers, whichever of both comes first."""

    def __init__(self, kind: str, names: tuple[str, ...], report: Report) -> None:
        """kind: as in the report. names: of the elements of arrays."""
        self._kind = kind
        self._names = list(names)
        self._report = report
        self._recorded: dict[Any, tuple[float, Any]] = {}
        self._replayed: dict[Any, Any] = {}

    def record(self, key: Any, time_s: float, item: Any) -> None:
        """Add a recorded item; compare it if its counterpart is there."""
        if key in self._replayed:
            other = self._replayed.pop(key)
            self._report.compare(self._kind, self._name(key), time_s, item, other, names=self._names)
        elif key in self._recorded:  # two of one number: one of them is another sender's
            self._add_other_sender(key, time_s)
        else:
            self._recorded[key] = time_s, item
            if len(self._recorded) > KEPT:
                oldest = next(iter(self._recorded))
                self._add_other_sender(oldest, self._recorded.pop(oldest)[0])

    def replay(self, key: Any, item: Any) -> None:
        if key in self._recorded:
            time_s, other = self._recorded.pop(key)
            self._report.compare(self._kind, self._name(key), time_s, other, item, names=self._names)
        else:
            self._replayed[key] = item
            if len(self._replayed) > KEPT:
                del self._replayed[next(iter(self._replayed))]
                self._report.unrecorded[self._kind] += 1

    def finish(self, covered_s: tuple[float, float]) -> None:
        """Count what was not recorded, and the recorded items that may be of after the journal's end.

        covered_s: times that the journal covers: what was recorded then and not replayed differs.
        """
        self._report.unrecorded[self._kind] += len(self._replayed)
        for key, (time_s, _) in self._recorded.items():
            if covered_s[0] <= time_s <= covered_s[1]:
                self._add_other_sender(key, time_s)
            else:
                self._report.unreplayed[self._kind] += 1

    def _add_other_sender(self, key: Any, time_s: float) -> None:
        self._report.add(Difference(self._name(key), time_s, "a message of another sender", "one", "none"))

    def _name(self, key: Any) -> str:
        return f"{self._kind[:-1]} {key if isinstance(key, int) else key[-1]}"


def request_of(item: Any) -> Request:
    """Return what an Observation and a replayed request have in common; prefixes are flat, none is empty."""
    prefixes = {space: getattr(item, space) for space in ("prefix_model", "prefix_robot")}
    for space, rows in prefixes.items():
        prefixes[space] = np.asarray(no_rows() if rows is None else rows, np.float32).reshape(-1)
    return from_message(Request, item, capture_skew_s=0.0, queue_s=0.0, **prefixes)


def request_key(item: Any) -> tuple[int, int]:
    """Return the numbers of a request, of an Observation or of a chunk."""
    return item.session_epoch, item.seq_id


class Chunks:
    """Compares each chunk of the journal with those of its numbers on the topic.

    A fault may have repeated and changed a message on its way: one that is equal suffices.
    """

    def __init__(self, names: tuple[str, ...], report: Report) -> None:
        self._names = list(names)
        self._report = report
        self._recorded: dict[tuple[int, int], list[Chunk]] = {}
        self._waiting: deque[tuple[float, Chunk]] = deque()

    def record(self, chunk: Chunk) -> None:
        self._recorded.setdefault(request_key(chunk), []).append(chunk)
        if len(self._recorded) > KEPT // 100:
            del self._recorded[next(iter(self._recorded))]

    def replay(self, time_s: float, chunk: Chunk) -> None:
        """Add a chunk of the journal; the topic's copy was recorded before the journal, or soon after."""
        self._waiting.append((time_s, chunk))
        while len(self._waiting) > KEPT // 1000:
            self._compare(*self._waiting.popleft())

    def finish(self) -> None:
        while self._waiting:
            self._compare(*self._waiting.popleft())

    def _compare(self, time_s: float, chunk: Chunk) -> None:
        candidates = self._recorded.get(request_key(chunk), [])
        if not candidates:
            self._report.unrecorded["chunks"] += 1
            return
        equal = (candidate for candidate in candidates if exact(candidate) == exact(chunk))
        best = next(equal, candidates[0])
        self._report.compare("chunks", f"chunk {chunk.seq_id}", time_s, best, chunk, names=self._names)
