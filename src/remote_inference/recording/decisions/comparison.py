# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares what a replay yields with the robot's other topics, as both come along."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np

from remote_inference.core.exchange import Chunk, no_rows
from remote_inference.core.robot.tick import Tick
from remote_inference.recording.decisions.exact import exact, first_difference, show
from remote_inference.recording.decisions.report import Difference

KEPT = 20_000  # recorded or replayed items that may wait for the other side
LOOK_AHEAD = 50  # recorded messages among which the one expected next is looked for
Add = Callable[[Difference], None]


@dataclass(frozen=True)
class TickRecord:
    """What ExecutedAction and a replayed tick have in common, in the order in which it is compared."""

    source: int
    action: np.ndarray
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
    def of_replay(cls, tick: Tick) -> TickRecord:
        queued, source = tick.queued, tick.queued and tick.queued.source
        return cls(
            int(tick.source),
            np.empty(0) if tick.command is None else tick.command,
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
        else:
            self._recorded[key] = time_s, item
            if len(self._recorded) > KEPT:
                del self._recorded[next(iter(self._recorded))]

    def replay(self, key: Any, item: Any) -> None:
        """Take a replayed item."""
        if key in self._recorded:
            self._compare(key, *self._recorded.pop(key), item)
        else:
            self._replayed[key] = item
            if len(self._replayed) > KEPT:
                del self._replayed[next(iter(self._replayed))]
                self.unrecorded += 1

    def finish(self) -> int:
        """Count what was not recorded; return how many recorded items were not replayed."""
        self.unrecorded += len(self._replayed)
        left = len(self._recorded)
        self._replayed.clear()
        self._recorded.clear()
        return left

    def _compare(self, key: Any, time_s: float, recorded: Any, replayed: Any) -> None:
        self.compared += 1
        if exact(recorded) != exact(replayed):
            field, before, after = first_difference(self._names, recorded, replayed)
            number = key if isinstance(key, int) else key[-1]
            self._add(Difference(f"{self._kind} {number}", time_s, field, before, after))


class Commands:
    """Finds each recorded message of a topic among the replayed ones, in order; some may be unrecorded.

    A recorded message that was not replayed is another sender's where the journal covers its time: before the
    node began, and in the last moment of the journal, it may be the node's own.
    """

    def __init__(self, topic: str, names: tuple[str, ...], add: Add) -> None:
        self._topic = topic
        self._names = list(names)
        self._add = add
        self._recorded: deque[tuple[float, Any]] = deque()
        self._replayed: deque[tuple[int, Any]] = deque()  # with the tick
        self.compared = 0
        self.unrecorded = 0
        self._unreplayed = 0

    def record(self, time_s: float, message: Any) -> None:
        """Take a recorded message."""
        self._recorded.append((time_s, message))

    def replay(self, tick: int, message: Any) -> None:
        """Take a replayed message."""
        self._replayed.append((tick, message))

    def compare(self, covered_s: tuple[float, float], *, is_last: bool = False) -> None:
        """Compare what can be. covered_s: times that the journal covers. is_last: nothing more follows.

        A recorded message that is none of the replayed ones differs, once enough later ones were replayed.
        """
        while self._recorded and (self._replayed or is_last):
            time_s, message = self._recorded[0]
            wanted = exact(message)
            ahead = next((n for n, (_, other) in enumerate(self._replayed) if exact(other) == wanted), None)
            if ahead is None and len(self._replayed) < KEPT // 100 and not is_last:
                break
            self._recorded.popleft()
            if ahead is not None:
                self.compared += 1
                for _ in range(ahead + 1):
                    self._replayed.popleft()
                self.unrecorded += ahead
            elif self._replayed and not self._is_expected_next():
                self.compared += 1
                tick, other = self._replayed.popleft()
                field, before, after = first_difference(self._names, message, other)
                self._add(Difference(f"{self._topic} of tick {tick}", time_s, field, before, after))
            elif covered_s[0] <= time_s <= covered_s[1]:
                self._add(
                    Difference(self._topic, time_s, "a message of another sender", show(message), "none")
                )
            else:
                self._unreplayed += 1
        while len(self._replayed) > KEPT and not self._recorded:
            self._replayed.popleft()
            self.unrecorded += 1

    def finish(self, covered_s: tuple[float, float]) -> int:
        """Compare the rest; return how many recorded messages may be the node's, and were not replayed."""
        self.compare(covered_s, is_last=True)
        self.unrecorded += len(self._replayed)
        self._replayed.clear()
        return self._unreplayed

    def _is_expected_next(self) -> bool:
        """Return whether what must come next comes soon: the message before it is then one too many."""
        wanted = exact(self._replayed[0][1])
        return any(exact(message) == wanted for _, message in islice(self._recorded, LOOK_AHEAD))


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
