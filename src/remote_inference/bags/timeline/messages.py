# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What recorded messages of a robot mean: instants, names, requests, chunks, order of control ticks."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TypeVar, cast

import numpy as np

from remote_inference.bags.storage.bag_records import JUMP_NS
from remote_inference.base.contract.contract import Contract
from remote_inference.base.exchange import ChunkStatus, no_rows
from remote_inference.base.policy import Float32Array
from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.robot.command import Float64Array
from remote_inference.robot.pose_geometry import Poses

LATE_NS = 2_000_000_000  # a tick is published, and recorded, at most so much later than it was commanded

Record = TypeVar("Record")


class Newest:
    """The newest message of a topic at a moment that lies a little behind the newest one read."""

    def __init__(self) -> None:
        self._messages: deque[tuple[int, Any]] = deque()

    def add(self, at_ns: int, message: Any) -> None:
        self._messages.append((at_ns, message))
        self._forget_before(at_ns - LATE_NS)  # no tick asks, before the node starts and after it has ended

    def at(self, t_ns: int) -> Any:
        """Return the newest message that was received by then, None without one. Moments do not go back."""
        self._forget_before(t_ns)
        return self._messages[0][1] if self._messages and self._messages[0][0] <= t_ns else None

    def _forget_before(self, t_ns: int) -> None:
        while len(self._messages) > 1 and self._messages[1][0] <= t_ns:
            self._messages.popleft()


def remember(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    """Keep a value under its key, and of more than `most` not the oldest one."""
    kept[key] = value
    if len(kept) > most:
        kept.popitem(last=False)


def from_message(kind: Callable[..., Record], message: Any, **others: Any) -> Record:
    """Return a dataclass of a kind, with what a message has under the names of its fields, but for others."""
    names = [one.name for one in fields(cast("Any", kind)) if one.name not in others]
    return kind(**{name: getattr(message, name) for name in names}, **others)


def name_of(kind: type[IntEnum], number: int) -> str:
    """Return a member's name; the number when there is none, as of a fallback's own source."""
    try:
        return kind(int(number)).name
    except ValueError:
        return str(int(number))


CLOCKS_AGREE_NS = 1_000_000_000  # beyond it, stamps are of another clock than the recorder's: simulated time

RequestKey = tuple[str, int]  # session_id and seq_id


def stamped_ns(received_ns: int, message: Any) -> int:
    """Return when a message was stamped [ns]; its reception, when the stamp is of another clock."""
    sent_ns = stamp_ns(message)
    return received_ns if abs(received_ns - sent_ns) > CLOCKS_AGREE_NS else sent_ns


def request_key(message: Any) -> RequestKey:
    """Return the request that an observation, a chunk or a command names."""
    return message.session_id, int(message.seq_id)


@dataclass(frozen=True)
class RecordedChunk:
    """A chunk as recorded.

    actions: float32 `[horizon, action_dim]` in robot space; none on ERROR, or when their number is wrong.
    """

    received_ns: int  # by the recorder
    status: str  # name of ChunkStatus
    message: str
    actions: Float32Array
    queue_wait_ms: float
    inference_ms: float
    superseded: int
    server_load: float
    policy_version: str

    @classmethod
    def of(cls, received_ns: int, message: Any) -> RecordedChunk:
        horizon, width = int(message.horizon), int(message.action_dim)
        values = np.asarray(message.chunk_robot, np.float32)
        return from_message(
            cls,
            message,
            received_ns=received_ns,
            status=name_of(ChunkStatus, message.status),
            actions=values.reshape(horizon, width) if values.size == horizon * width else no_rows(),
            superseded=message.superseded_seqs,
        )


def to_robot_action(action: Float32Array, command: Float64Array, contract: Contract) -> Float64Array | None:
    """Return a chunk's action in the robot's units, to be compared with its command `[action_dim]`.

    None for an action of another width than the contract's. A quaternion may be longer or shorter than 1, and
    have either sign: it is returned as the command has it, as the guard changes nothing there.
    """
    units = contract.action_units
    if len(action) != units.policy_dim:
        return None
    found = units.to_robot(action.astype(np.float64))
    unified = Poses(contract.actions.poses, contract.actions.names).unify(found, command)
    return found if unified is None else unified


RESTART = 10  # ticks by which a number falls back only when the node was restarted ...
RESTART_S = 0.5  # ... or by any, after a time in which no node ends and begins
MOST_MIXED = 3  # ticks; fewer may be those of a restarted node, with messages lost


class TickTimes:
    """Gives each control tick its instant [ns]; instants rise.

    They are the ticks' stamps, or their receptions where stamps are of another clock than the recorder's. A
    node whose clock is set stamps on from another time, which no longer fits the receptions of its sensors:
    from there on instants are receptions, too.
    """

    def __init__(self, offset_ns: int = 0) -> None:
        """offset_ns: of the recorder's clock to the robot's, as `find_offset` finds it."""
        self.offset_ns = offset_ns
        self.jump_ns: int | None = None  # the first one of the stamps against the receptions
        self.jumped_at_ns = 0
        self._last_ns: int | None = None
        self._last_tick = 0
        self.least_lag_ns: int | None = None  # of a reception after its stamp, while clocks agree

    def at(self, received_ns: int, message: Any) -> int:
        sent_ns, tick = stamp_ns(message), int(message.tick)
        lag_ns = received_ns - sent_ns
        shown_ns = sent_ns + self.offset_ns
        agrees = abs(lag_ns) <= CLOCKS_AGREE_NS
        if self.jump_ns is None and self.least_lag_ns is not None:
            went_back = self._last_ns is not None and shown_ns <= self._last_ns and tick > self._last_tick
            if went_back or not agrees or lag_ns < self.least_lag_ns - JUMP_NS:
                self.jump_ns, self.jumped_at_ns = self.least_lag_ns - lag_ns, received_ns
        t_ns = shown_ns if agrees and self.jump_ns is None else received_ns
        if self._last_ns is not None and t_ns <= self._last_ns:
            t_ns = self._last_ns + 1
        self._last_ns, self._last_tick = t_ns, tick
        if agrees:
            self.least_lag_ns = lag_ns if self.least_lag_ns is None else min(lag_ns, self.least_lag_ns)
        return t_ns


def find_offset(ticks: Iterable[tuple[int, Any]]) -> int:
    """Return what to add to the stamps of ticks for the recorder's clock [ns], by their receptions.

    A recorder on another machine may have another clock, by which all sensors are received. No tick is
    received before it is stamped, and the quickest one is hardly late: what is left is the clocks'
    difference, or the network's least delay, which the sensors have, too. 0: there is one clock.
    """
    times, least_ns = TickTimes(), None
    for received_ns, message in ticks:
        times.at(received_ns, message)
        if times.jump_ns is not None:
            break
        least_ns = times.least_lag_ns
    return least_ns if least_ns is not None and not 0 <= least_ns <= JUMP_NS else 0


class TickNumbers:
    """Detects in the numbers of control ticks that the node was restarted.

    They rise until then. Those of another sender of the same name may lie between. The first ticks of a node
    may be missed, and so may all that were below the last one of the node before it.
    """

    def __init__(self) -> None:
        self._newest, self._time_s = -1, 0.0

    def detect_restart(self, number: int, time_s: float) -> bool:
        """Return whether the next number, at its time, is of a restarted node."""
        newest, before_s = self._newest, self._time_s
        self._newest, self._time_s = max(newest, number), time_s
        return number + RESTART < newest or (number <= newest and time_s - before_s > RESTART_S)


class TickOrder:
    """Detects that the control ticks of two times are mixed: the times of reception went back in the bag.

    A tick that falls back may be a restarted node's. Then one that continues the ticks before the fall,
    and not those behind it, is of no such node.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._left = -1  # tick before the newest fall
        self._mixed = 0

    def is_mixed_with(self, tick: int) -> bool:
        """Add a tick; return whether too many so far are of another time to be chance."""
        if self._last is not None:
            self._mixed += tick == self._left + 1 and tick != self._last + 1
            if tick <= self._last:
                self._left = self._last
        self._last = tick
        return self._mixed >= MOST_MIXED
