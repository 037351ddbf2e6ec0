# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A moving arm whose driver lies about its joints. What it really does is known, as of every moving arm."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from support.builders import ns
from support.faults.moving_arm import MovingArm, Step
from support.faults.watched_arm import PERIOD_S
from support.nodes.rig import CONTRACT, JOINTS
from support.robot.lying_sensors import (
    TURN,
    Frozen,
    Late,
    Lie,
    Restarted,
    Second,
    Shifted,
    Wrong,
    tell,
)

INTERVAL_NS = 33_333_333  # of the sensors; lies count it from the first message
AFTERWARDS = 45  # messages after a lie, until which it has to have had its effect
Kind = Callable[[int], Lie]  # by the time at which it begins
MAX_VELOCITY = CONTRACT["actions"]["limits"]["shoulder"]["max_velocity"]  # [rad/s]
STEP = MAX_VELOCITY * PERIOD_S  # [rad]
SHOULDER = (0,)
FAR_AWAY = (1.5,)  # [rad], three from where the arm begins


def lasting(of: type[Lie], lasts_ns: int, *more: object) -> Kind:
    """Return a kind of lie about the shoulder that lasts for a time."""
    return lambda begin_ns: of(SHOULDER, begin_ns, begin_ns + lasts_ns, *more)


LIES = {
    "one joint state is wrong": lasting(Wrong, INTERVAL_NS, FAR_AWAY),
    "joint states are wrong for 0.1 s": lasting(Wrong, ns(0.1), FAR_AWAY),
    "joint states are wrong for 1 s": lasting(Wrong, ns(1.0), FAR_AWAY),
    "the driver restarts, and its joints are at 0 for 0.2 s": lasting(Restarted, ns(0.6), (0.0,), ns(0.4)),
    "two publishers of one joint": lasting(Second, ns(2.0), (0.0,), INTERVAL_NS, 1, 1),
    "one joint state comes 0.6 s late": lasting(Late, INTERVAL_NS, ns(0.6)),
    "an encoder loses a turn": lasting(Shifted, ns(2.0), -TURN),
    "joint states stand still while their stamps go on": lasting(Frozen, ns(2.0)),
}


def find_hasty(steps: Sequence[Step]) -> list[Step]:
    """Return the commands that lead an arm faster than its limits.

    A command may be a moment on its way to an arm that moves on meanwhile: one step more.
    """
    return [step for step in steps if step.distance > STEP + MAX_VELOCITY * max(PERIOD_S, step.due_s)]


class LyingArm(MovingArm):
    """Its joints are measured as its lies say. The camera knows nothing of them."""

    def __init__(self, folder: Path, controller: str) -> None:
        self.lies: list[Lie] = []
        self._places: list[np.ndarray] = []  # where the arm was at each message
        super().__init__(folder, controller)

    def lie(self, kind: Kind) -> int:
        """Tell a lie and wait for what becomes of it; return the time at which it began."""
        begin_ns = time.time_ns()
        told = kind((len(self._places) + 1) * INTERVAL_NS)
        self.lies = [told]
        last = told.end_ns // INTERVAL_NS + AFTERWARDS
        self.wait_for(lambda: len(self._places) > last, "some messages after the lie")
        return begin_ns

    def _now_ns(self) -> int:
        return (len(self._places) - 1) * INTERVAL_NS

    def _publish_joints(self, stamp: Time) -> None:
        self._places.append(np.array(self.where(time.time_ns())))
        now_ns, lies = self._now_ns(), list(self.lies)
        if any(lie.is_silent(now_ns) for lie in lies):
            return
        age_ns = max((lie.age_ns(now_ns) for lie in lies), default=0)
        at_ns = stamp.sec * 10**9 + stamp.nanosec - age_ns
        super()._publish_joints(Time(sec=at_ns // 10**9, nanosec=at_ns % 10**9))

    def _measure(self) -> JointState:
        message = super()._measure()
        said = tell(self.lies, self._place)(self._now_ns())
        message.position = [message.position[0], *reversed(said.tolist())]
        self._measured[-1] = (self._measured[-1][0], tuple(said.tolist()))
        assert len(message.position) == 1 + len(JOINTS)
        return message

    def _place(self, time_ns: int) -> np.ndarray:
        return self._places[max(0, time_ns // INTERVAL_NS)]
