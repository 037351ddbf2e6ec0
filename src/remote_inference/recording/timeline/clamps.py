# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How far beyond a joint's limits a policy asked for: of a clamp, the guard's rule tells the tick alone.

A closed gripper whose policy is off by a hair is clamped as often as an arm that is led against its end.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.policy import Float32Array
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.safety.guard import JOINT_LIMIT, ROUNDING
from remote_inference.recording.timeline.answers import Answer, RequestKey, request_key, to_robot_row

_KEPT = 16  # chunks: a tick executes a row of one of the newest


@dataclass(frozen=True)
class Clamp:
    """What was clamped of one joint. largest: distance of a chunk's row from the limit [unit]."""

    joint: str
    unit: str
    ticks: int
    largest: float


class ClampColumns:
    """Takes a robot's chunks and executed actions, in the order in which they were recorded."""

    def __init__(self, contract: Contract | None) -> None:
        """contract: the robot's.

        Nothing is told without one, as no limits are known, nor of relative actions, whose rows say how far.
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

    def take_chunk(self, received_ns: int, message: Any) -> None:
        """Take the next ActionChunk."""
        if self._contract is not None:
            self._rows.setdefault(request_key(message), Answer.of(received_ns, message).rows)
            if len(self._rows) > _KEPT:
                self._rows.popitem(last=False)

    def take_executed(self, message: Any) -> None:
        """Take the next ExecutedAction. Between two rows no recording holds what the guard was given."""
        is_between = getattr(message, "row_fraction", 0.0)  # bags of older releases lack it
        if self._contract is None or message.source != CommandSource.CHUNK or is_between:
            return
        rows, step = self._rows.get(request_key(message)), int(message.step_index)
        is_known = rows is not None and step < len(rows) and len(message.action) == len(self._names)
        if JOINT_LIMIT not in message.interventions or rows is None or not is_known:
            return
        row = to_robot_row(rows[step], np.asarray(message.action, np.float64), self._contract)
        if row is None:
            return
        beyond = np.abs(row - np.clip(row, self._min, self._max))
        for place in np.flatnonzero((beyond > ROUNDING) & ~self._is_switch).tolist():
            ticks, largest = self._found.get(self._names[place], (0, 0.0))
            self._found[self._names[place]] = ticks + 1, max(largest, float(beyond[place]))

    def finish(self) -> tuple[Clamp, ...]:
        """Return what was clamped, by joint in the contract's order."""
        if self._contract is None:
            return ()
        unit = self._contract.actions.unit
        return tuple(Clamp(n, unit(n), *self._found[n]) for n in self._names if n in self._found)
