# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What happened to one robot: actions, joints, states, requests, chunks and their latency.

All times are seconds since the start of the bag, by the recorder's clock. The columns collect it from the
messages, as they are read: a day of them fits into memory. Texts that repeat, such as the session behind each
action, are kept once.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import (
    RecordedChunk,
    RequestKey,
    name_of,
    request_key,
    to_robot_action,
)
from remote_inference.bags.timeline.robot_bag import FloatArray, Joint
from remote_inference.base.contract.contract import Contract
from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.guard import JOINT_LIMIT
from remote_inference.robot.safety.motion_bounds import ROUNDING
from remote_inference.robot.safety.state_machine import State

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Executed:
    """What the control ticks commanded, one row per tick."""

    t_s: FloatArray
    tick: IntArray
    # [n, action_dim] as published, or as it would have been; NaN in a row without a command
    action: FloatArray
    source: IntArray  # values of CommandSource
    request: tuple[tuple[str, int], ...]  # session_id and seq_id behind the action
    age_s: FloatArray  # NaN without a source chunk
    episode_id: IntArray
    interventions: tuple[tuple[str, ...], ...]
    shadow: NDArray[np.bool_]  # shadow mode: nothing was published

    @property
    def commanded(self) -> NDArray[np.bool_]:
        """[n] whether the tick published an action, or would have in shadow mode."""
        return np.asarray(~np.isnan(self.action).all(axis=1), bool)

    @property
    def begins_chunk(self) -> NDArray[np.bool_]:
        """[n] whether the tick executed the first action of a chunk."""
        begins, rows = np.zeros(len(self.t_s), bool), np.flatnonzero(self.source == CommandSource.CHUNK)
        begins[rows] = [a != b for a, b in pairwise([None, *(self.request[row] for row in rows)])]
        return begins


@dataclass(frozen=True)
class States:
    """Changes of the client's state, pause or its cause, the first message included."""

    t_s: FloatArray
    state: tuple[str, ...]  # names of State
    cause: tuple[str, ...]
    paused: NDArray[np.bool_]
    pause_cause: tuple[str, ...]  # empty while it is not paused
    counters: dict[str, int]  # chunks_merged, chunks_dropped, ...: totals at the end of the bag
    guard_rises: dict[str, FloatArray]  # by rule of the guard, times of the messages with a higher count


@dataclass(frozen=True)
class Requests:
    """Observations published. Latency runs from reception of the observation to its first chunk's."""

    t_s: FloatArray
    answered: NDArray[np.bool_]  # a chunk came
    chunks: int  # received, duplicates included
    latency_ms: FloatArray  # [k] of those that were answered, as what follows
    queue_wait_ms: FloatArray
    inference_ms: FloatArray

    @property
    def network_ms(self) -> FloatArray:
        """[k] latency without queue and inference: both ways of the network and the nodes' overhead."""
        return np.maximum(self.latency_ms - self.queue_wait_ms - self.inference_ms, 0.0)


@dataclass(frozen=True)
class ClockJump:
    """Somebody set the recorder's wall clock. The bag's times go on steadily, stamps in messages do not."""

    t_s: float
    jump_s: float


@dataclass(frozen=True)
class WatchdogStop:
    """The command watchdog stopped the controllers."""

    t_s: float
    cause: str


@dataclass(frozen=True)
class Clamp:
    """What was clamped of one joint. largest: distance of a chunk's action from the limit [unit]."""

    joint: str
    unit: str
    ticks: int
    largest: float


@dataclass(frozen=True)
class Timeline:
    """One robot's share of a bag."""

    namespace: str
    duration_s: float
    executed: Executed
    joints: tuple[Joint, ...]  # [action_dim]
    states: States
    requests: Requests
    clock_jumps: tuple[ClockJump, ...] = ()
    watchdog_stops: tuple[WatchdogStop, ...] = ()
    clamps: tuple[Clamp, ...] = ()


def intervals(t_s: FloatArray, inside: NDArray[np.bool_], end_s: float) -> list[tuple[float, float]]:
    """Return (begin, duration) of each run of samples that are inside; a sample holds until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    until = np.append(t_s, max(end_s, t_s[-1] if len(t_s) else 0.0))
    return [(float(t_s[a]), float(until[b] - t_s[a])) for a, b in edges.reshape(-1, 2)]


WITHOUT_ACTIONS = ("STALLED", "RECONNECTING", "DEAD")  # states; an episode that ends in one has failed


# How far beyond a joint's limits a policy asked for: the guard's rule names the tick, not the distance.
# A closed gripper whose policy is off by a hair is clamped as often as an arm driven against its limit.
_KEPT = 16  # chunks: a tick executes an action of one of the newest


class ClampColumns:
    """Collects the clamped actions from a robot's chunks and executed actions, appended as recorded."""

    def __init__(self, contract: Contract | None) -> None:
        """contract: the robot's.

        Nothing is found without one, as no limits are known, nor for relative actions, which say how far.
        """
        self._contract = contract if contract is None or not contract.actions.is_relative else None
        self._rows: OrderedDict[RequestKey, Float32Array] = OrderedDict()
        self._found: dict[str, tuple[int, float]] = {}  # ticks and largest distance by joint
        if contract is not None:
            self._names = contract.actions.names
            limits = [contract.actions.limit_of(name) for name in self._names]
            self._min = np.array([one.min for one in limits])
            self._max = np.array([one.max for one in limits])
            self._is_switch = np.array([one.kind == "switch" for one in limits])

    def append_chunk(self, _: float, message: Any) -> None:
        if self._contract is not None:
            self._rows.setdefault(request_key(message), RecordedChunk.of(0, message).actions)
            if len(self._rows) > _KEPT:
                self._rows.popitem(last=False)

    def append_executed(self, _: float, message: Any) -> None:
        """Append the next ExecutedAction. Of means and between actions no recording has the guard's input."""
        is_row = message.source == CommandSource.CHUNK and not message.row_fraction
        if self._contract is None or not is_row or len(message.earlier_seq_ids):
            return
        rows, step = self._rows.get(request_key(message)), int(message.step_index)
        is_known = rows is not None and step < len(rows) and len(message.action) == len(self._names)
        if JOINT_LIMIT not in message.interventions or rows is None or not is_known:
            return
        row = to_robot_action(rows[step], np.asarray(message.action, np.float64), self._contract)
        if row is None:
            return
        beyond = np.abs(row - np.clip(row, self._min, self._max))
        for place in np.flatnonzero((beyond > ROUNDING) & ~self._is_switch).tolist():
            ticks, largest = self._found.get(self._names[place], (0, 0.0))
            self._found[self._names[place]] = ticks + 1, max(largest, float(beyond[place]))

    def finish(self) -> tuple[Clamp, ...]:
        if self._contract is None:
            return ()
        unit = self._contract.actions.unit
        return tuple(Clamp(n, unit(n), *self._found[n]) for n in self._names if n in self._found)


INT64_MAX = 2**63 - 1  # counters are higher only if the bag is damaged
COUNTERS = ("chunks_merged", "chunks_dropped", "chunks_rejected")


class ExecutedColumns:
    """Columns of ExecutedActions."""

    def __init__(self, path: Path, expected: tuple[str, ...]) -> None:
        """path: of the bag. expected: names of the actions by the contract, empty without one."""
        self.names = expected  # of the actions; those of the first message that names them
        self._expected, self._path = expected, path
        self._are_names_seen = False
        self._keys: dict[RequestKey, RequestKey] = {}  # the first of equal ones: they repeat in each tick ...
        self._rules: dict[tuple[str, ...], tuple[str, ...]] = {}  # ... as these do
        self._t_s, self._age_s, self._action = array("d"), array("d"), array("d")
        self._numbers = {name: array("q") for name in ("tick", "source", "episode_id", "shadow")}
        self._request: list[RequestKey] = []
        self._interventions: list[tuple[str, ...]] = []

    def append(self, t_s: float, message: Any) -> None:
        """Append a message. Raises BagError for other actions than those of the contract, or before."""
        self._check_names(message)
        self._t_s.append(t_s)
        self._age_s.append(message.action_age_s)
        for name, column in self._numbers.items():
            column.append(min(int(getattr(message, name)), INT64_MAX))
        key, rules = request_key(message), tuple(message.interventions)
        self._request.append(self._keys.setdefault(key, key))
        self._interventions.append(self._rules.setdefault(rules, rules))
        action = np.asarray(message.action, np.float64)
        if not len(action):
            action = np.full(len(self.names), np.nan)
        if len(action) != len(self.names):
            found = f"tick {message.tick}: found {len(action)} actions, expected {len(self.names)}"
            raise BagError(f"{self._path}: {found}: {', '.join(self.names) or 'none is named'}")
        self._action.frombytes(action.tobytes())

    def _check_names(self, message: Any) -> None:
        if self._are_names_seen or not len(message.joint_names):
            return
        self._are_names_seen = True
        found = tuple(message.joint_names)
        if self._expected and found != self._expected:
            what = f"{self._path}: the executed actions are not the contract's"
            raise BagError(f"{what}: found {', '.join(found)}, expected {', '.join(self._expected)}")
        self.names = found

    def finish(self) -> Executed:
        ticks, width = len(self._t_s), len(self.names)
        rows = np.array(self._action, np.float64).reshape(-1, width) if width else np.empty((ticks, 0))
        unnamed = np.full((ticks - len(rows), width), np.nan)  # ticks before the names were known
        numbers: dict[str, Any] = {name: np.array(column, np.int64) for name, column in self._numbers.items()}
        numbers["shadow"] = numbers["shadow"].astype(bool)
        return Executed(
            t_s=np.array(self._t_s, np.float64),
            age_s=np.array(self._age_s, np.float64),
            action=np.concatenate([unnamed, rows]),
            request=tuple(self._request),
            interventions=tuple(self._interventions),
            **numbers,
        )


class WatchdogStops:
    """The times at which the command watchdog stopped the controllers, found in its WatchdogStates.

    Each process counts its own stops, and publishes its state twice a second: what it counted before the bag
    began is not in the bag.
    """

    def __init__(self) -> None:
        self._trips: dict[int, int] = {}  # by instance
        self._stops: list[WatchdogStop] = []

    def append(self, t_s: float, message: Any) -> None:
        if message.trips > self._trips.get(message.instance, message.trips):
            self._stops.append(WatchdogStop(t_s, message.cause))
        self._trips[message.instance] = message.trips

    def finish(self) -> tuple[WatchdogStop, ...]:
        return tuple(self._stops)


class StateColumns:
    """Changes of state and pause, and totals of the counters, from ClientStates."""

    def __init__(self) -> None:
        self._changes: list[tuple[float, str, bool, str, str]] = []
        self._totals = dict.fromkeys(COUNTERS, 0)  # of the node's lives before
        self._counts = dict.fromkeys(COUNTERS, 0)  # as the last message has them
        self._guard: dict[str, int] | None = None
        self._rises: dict[str, array[float]] = defaultdict(lambda: array("d"))

    def append(self, t_s: float, message: Any) -> None:
        change = name_of(State, message.state), bool(message.paused), message.pause_cause
        if not self._changes or self._changes[-1][1:4] != change:
            self._changes.append((t_s, *change, message.cause))
        for name in COUNTERS:
            count = int(getattr(message, name))
            if count < self._counts[name]:  # a restarted node counts from zero
                self._totals[name] += self._counts[name]
            self._counts[name] = count
        # Which rules intervened since the last message. What the first one counts is from before it.
        counts = {name: int(n) for name, n in zip(message.guard_names, message.guard_counts, strict=False)}
        for name, count in counts.items():
            if self._guard is not None and count > self._guard.get(name, 0):
                self._rises[name].append(t_s)
        self._guard = counts

    def finish(self) -> States:
        return States(
            t_s=np.array([change[0] for change in self._changes], np.float64),
            state=tuple(change[1] for change in self._changes),
            paused=np.array([change[2] for change in self._changes], bool),
            pause_cause=tuple(change[3] for change in self._changes),
            cause=tuple(change[4] for change in self._changes),
            counters={name: total + self._counts[name] for name, total in self._totals.items()},
            guard_rises={name: np.array(times, np.float64) for name, times in self._rises.items()},
        )


class RequestColumns:
    """Observations and ActionChunks, matched by their requests."""

    def __init__(self) -> None:
        self._chunks = 0
        self._asked: list[tuple[float, RequestKey]] = []  # with the time
        self._answers: dict[RequestKey, tuple[float, float, float]] = {}  # first chunk: time, wait, inference

    def append_request(self, t_s: float, message: Any) -> None:
        self._asked.append((t_s, request_key(message)))

    def append_chunk(self, t_s: float, message: Any) -> None:
        self._chunks += 1
        numbers = t_s, float(message.queue_wait_ms), float(message.inference_ms)
        self._answers.setdefault(request_key(message), numbers)

    def finish(self) -> Requests:
        t_s = np.array([t_s for t_s, _ in self._asked], np.float64)
        answered = np.array([key in self._answers for _, key in self._asked], bool)
        found = [self._answers[key] for _, key in self._asked if key in self._answers]
        came_s, wait_ms, inference_ms = np.array(found, np.float64).reshape(-1, 3).T
        latency_ms = (came_s - t_s[answered]) * 1e3
        return Requests(t_s, answered, self._chunks, latency_ms, wait_ms, inference_ms)
