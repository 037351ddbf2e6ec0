# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's messages as they are read, kept as columns of numbers: a day of them is no more than they take.

Texts that repeat, such as the session behind each action, are kept once.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.timeline.answers import RequestKey, request_key
from remote_inference.recording.timeline.joint_records import FloatArray
from remote_inference.recording.timeline.recorded_names import state_name
from remote_inference.recording.timeline.timeline import (
    Chunks,
    Cycles,
    Executed,
    IntArray,
    Requests,
    States,
    WatchdogStop,
)

INT64_MAX = 2**63 - 1
COUNTERS = (
    *("requests", "chunks_merged", "chunks_dropped", "chunks_rejected"),
    *("request_timeouts", "reconnects"),
)

Value = TypeVar("Value", bound=Hashable)


def _int64(value: Any) -> int:
    return min(int(value), INT64_MAX)  # higher only if damaged


def _floats(values: array[float]) -> FloatArray:
    return np.frombuffer(values, np.float64) if values else np.empty(0)


def _ints(values: array[int]) -> IntArray:
    return np.frombuffer(values, np.int64) if values else np.empty(0, np.int64)


class Kept:
    """Gives one and the same object for equal values."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def same(self, value: Value) -> Value:
        """Return the first value that was equal to this one."""
        known: Value = self._known.setdefault(value, value)
        return known


class ExecutedColumns:
    """Takes ExecutedActions."""

    def __init__(self, keys: Kept, path: Path, expected: tuple[str, ...]) -> None:
        """path: of the bag. expected: names of the actions by the contract, empty without one."""
        self.names = expected  # of the actions; those of the first message that names them
        self._expected, self._path = expected, path
        self._are_names_seen = False
        self._keys, self._rules = keys, Kept()
        self._t_s, self._age_s, self._action = array("d"), array("d"), array("d")
        self._tick, self._source, self._step_index, self._episode_id = (array("q") for _ in range(4))
        self._request: list[RequestKey] = []
        self._interventions: list[tuple[str, ...]] = []
        self._shadow = array("b")

    def take(self, t_s: float, message: Any) -> None:
        """Take the next message. Raises BagError for other actions than those of the contract, or before."""
        self._see_names(message)
        self._t_s.append(t_s)
        self._tick.append(_int64(message.tick))
        self._source.append(int(message.source))
        self._request.append(self._keys.same(request_key(message)))
        self._step_index.append(_int64(message.step_index))
        self._age_s.append(float(message.action_age_s))
        self._episode_id.append(_int64(message.episode_id))
        self._interventions.append(self._rules.same(tuple(message.interventions)))
        self._shadow.append(bool(getattr(message, "shadow", False)))  # older bags lack it
        action = np.asarray(message.action, np.float64)
        if not len(action):
            action = np.full(len(self.names), np.nan)
        if len(action) != len(self.names):
            found = f"tick {message.tick}: found {len(action)} actions, expected {len(self.names)}"
            raise BagError(f"{self._path}: {found}: {', '.join(self.names) or 'none is named'}")
        self._action.frombytes(action.tobytes())

    def _see_names(self, message: Any) -> None:
        if self._are_names_seen or not len(message.joint_names):
            return
        self._are_names_seen = True
        found = tuple(message.joint_names)
        if self._expected and found != self._expected:
            raise BagError(
                f"{self._path}: the executed actions are not the contract's: found {', '.join(found)}, "
                f"expected {', '.join(self._expected)}"
            )
        self.names = found

    def finish(self) -> Executed:
        """Return all rows."""
        ticks, width = len(self._t_s), len(self.names)
        rows = _floats(self._action).reshape(-1, width) if width else np.empty((ticks, 0))
        unnamed = np.full((ticks - len(rows), width), np.nan)  # ticks before the names were known
        return Executed(
            t_s=_floats(self._t_s),
            tick=_ints(self._tick),
            action=np.concatenate([unnamed, rows]) if len(unnamed) else rows,
            source=_ints(self._source),
            request=tuple(self._request),
            step_index=_ints(self._step_index),
            age_s=_floats(self._age_s),
            episode_id=_ints(self._episode_id),
            interventions=tuple(self._interventions),
            shadow=np.array(self._shadow, bool),
        )


class WatchdogStops:
    """Takes WatchdogStates, keeps when it stopped the controllers.

    Each process counts its own stops, and says its state twice a second: what it counted before the bag
    began, nobody saw.
    """

    def __init__(self) -> None:
        self._trips: dict[int, int] = {}  # by instance
        self._stops: list[WatchdogStop] = []

    def take(self, t_s: float, message: Any) -> None:
        """Take the next message."""
        before = self._trips.get(message.instance)
        if message.trips > (message.trips if before is None else before):
            self._stops.append(WatchdogStop(t_s, message.cause))
        self._trips[message.instance] = message.trips

    def finish(self) -> tuple[WatchdogStop, ...]:
        """Return the stops so far, in order."""
        return tuple(self._stops)


class StateColumns:
    """Takes ClientStates, keeps the changes of state and pause, and adds up what they count."""

    def __init__(self) -> None:
        self._t_s, self._paused = array("d"), array("b")
        self._state: list[str] = []
        self._cause: list[str] = []
        self._pause_cause: list[str] = []
        self._totals = dict.fromkeys(COUNTERS, 0)  # of the node's lives before
        self._counts = dict.fromkeys(COUNTERS, 0)  # as the last message has them
        self._guard: dict[str, int] | None = None
        self._rises: dict[str, array[float]] = defaultdict(lambda: array("d"))

    def take(self, t_s: float, message: Any) -> None:
        """Take the next message."""
        state, paused = state_name(message), bool(message.paused)
        cause, pause_cause = message.cause, str(getattr(message, "pause_cause", ""))
        before = (self._state[-1], self._paused[-1], self._pause_cause[-1]) if self._state else None
        if before != (state, paused, pause_cause):
            self._t_s.append(t_s)
            self._state.append(state)
            self._cause.append(cause)
            self._paused.append(paused)
            self._pause_cause.append(pause_cause)
        for name in COUNTERS:
            count = int(getattr(message, name))
            if count < self._counts[name]:  # a restarted node counts from zero
                self._totals[name] += self._counts[name]
            self._counts[name] = count
        self._take_guard(t_s, message)

    def _take_guard(self, t_s: float, message: Any) -> None:
        """Note which rules intervened since the last message. What the first one counts is from before it."""
        counts = {name: int(n) for name, n in zip(message.guard_names, message.guard_counts, strict=False)}
        for name, count in counts.items():
            if self._guard is not None and count > self._guard.get(name, 0):
                self._rises[name].append(t_s)
        self._guard = counts

    def finish(self) -> States:
        """Return the changes and totals."""
        return States(
            t_s=_floats(self._t_s),
            state=tuple(self._state),
            cause=tuple(self._cause),
            paused=np.array(self._paused, bool),
            pause_cause=tuple(self._pause_cause),
            counters={name: total + self._counts[name] for name, total in self._totals.items()},
            guard_rises={name: _floats(times) for name, times in self._rises.items()},
        )


class CycleColumns:
    """Takes Observations and ActionChunks, and matches them."""

    def __init__(self, keys: Kept) -> None:
        self._keys = keys
        self._sent_s, self._came_s, self._wait_ms, self._inference_ms = (array("d") for _ in range(4))
        self._delay_steps, self._status = array("q"), array("q")
        self._asked: list[RequestKey] = []
        self._answers: list[RequestKey] = []

    def take_request(self, t_s: float, message: Any) -> None:
        """Take the next Observation."""
        self._sent_s.append(t_s)
        self._asked.append(self._keys.same(request_key(message)))
        self._delay_steps.append(_int64(message.inference_delay_steps))

    def take_chunk(self, t_s: float, message: Any) -> None:
        """Take the next ActionChunk."""
        self._came_s.append(t_s)
        self._answers.append(self._keys.same(request_key(message)))
        self._status.append(int(message.status))
        self._wait_ms.append(float(message.queue_wait_ms))
        self._inference_ms.append(float(message.inference_ms))

    def finish(self) -> tuple[Requests, Chunks, Cycles]:
        """Return both, and a cycle for each request that was answered."""
        chunks = Chunks(
            t_s=_floats(self._came_s),
            request=tuple(self._answers),
            status=_ints(self._status),
            queue_wait_ms=_floats(self._wait_ms),
            inference_ms=_floats(self._inference_ms),
        )
        answer: dict[RequestKey, int] = {}
        for place, key in enumerate(self._answers):
            answer.setdefault(key, place)
        answered = np.array([key in answer for key in self._asked], bool)
        by = np.array([answer[key] for key in self._asked if key in answer], np.int64)
        sent_s = _floats(self._sent_s)
        requests = Requests(sent_s, tuple(self._asked), _ints(self._delay_steps), answered)
        cycles = Cycles(
            t_s=sent_s[answered],
            latency_ms=(chunks.t_s[by] - sent_s[answered]) * 1e3,
            queue_wait_ms=chunks.queue_wait_ms[by],
            inference_ms=chunks.inference_ms[by],
        )
        return requests, chunks, cycles
