# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The message that stops a controller whose commands have ended, by its type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract

STOPS = 10  # messages to each controller: a single one may be lost
MIN_STOPS = 3
STOPPING_S = 1.0
TRANSPORT_NS = 50_000_000  # of a measurement to the node that stops, and of the stop to its controller
LEAST_STOPPING_S = 0.2  # twice the time until a controller that has gone is noticed beside a recorder


def count_stops(period_s: float) -> int:
    """Return how many stops in a row a robot sends, one per control period [s].

    At low rates they are fewer, so that they take STOPPING_S: the end of the node does not take for ever.
    At high rates they are more, so that they take LEAST_STOPPING_S.
    """
    fewest = max(MIN_STOPS, math.ceil(LEAST_STOPPING_S / period_s - 1e-9))
    return max(fewest, min(STOPS, int(STOPPING_S / period_s)))


def max_stopping_s(period_s: float) -> float:
    """Return how long a robot takes at most to send its stops, from any moment on [s]."""
    return (count_stops(period_s) + 1) * period_s


@dataclass(frozen=True)
class Measured:
    """A joint's trusted position [unit of its action], and the age of the measurement."""

    position: float
    age_ns: int = 0


@dataclass(frozen=True)
class ControllerStop:
    """The stop of one controller. `action` is `[action_dim]`, None when there is nothing to send.

    `late_ns`: time [ns] beyond a period until the action is due.
    """

    topic: str
    action: NDArray[np.float64] | None
    outcome: str
    failed: bool = False  # the controller should be stopped, and cannot
    late_ns: int = 0


def may_be_sent_a_stop(contract: Contract, sink: CommandSink) -> bool:
    """Return whether a stop of a controller may be a message; others keep their last target by themselves."""
    return ACTION_KINDS[contract.kind_of(sink)].goes_on or sink.interface.takes_horizon


def stop_controller(
    contract: Contract, sink: CommandSink, measured: Mapping[str, Measured]
) -> ControllerStop:
    """Return the stop of a controller. measured: by action, fresh ones only.

    Zero stops a velocity and an effort. A trajectory is replaced by one that ends where the arm is. An arm at
    its limit has gone on since it was measured there, and has that time to come back. Any other position
    controller has no trajectory: it stays at its last target by itself, as one of poses or switches.
    """
    kind = contract.kind_of(sink)
    if kind == "switch":
        return ControllerStop(sink.destination, None, "nothing sent, it stays as it is")
    if kind == "pose":
        return ControllerStop(sink.destination, None, "nothing sent, it keeps its last pose")
    if kind != "position":
        return ControllerStop(sink.destination, np.zeros(contract.action_dim), f"sent zero {kind}")
    if not sink.interface.takes_horizon:
        return ControllerStop(sink.destination, None, "nothing sent, it keeps its last target")
    if missing := [name for name in sink.names if name not in measured]:
        outcome = f"not stopped, no trusted position of {', '.join(missing)} to hold"
        return ControllerStop(sink.destination, None, outcome, failed=True)
    action = np.full(contract.action_dim, np.nan)
    for name in sink.names:
        action[contract.actions.names.index(name)] = measured[name].position
    late_ns = max(measured[name].age_ns for name in sink.names) + TRANSPORT_NS
    return ControllerStop(sink.destination, action, "sent a hold of the measured position", late_ns=late_ns)
