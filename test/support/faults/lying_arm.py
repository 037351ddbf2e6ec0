# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A moving arm whose driver lies about its joints. What it really does is known, as of every moving arm."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from builtin_interfaces.msg import Time
from sensor_msgs.msg import JointState

from support.faults.moving_arm import MovingArm
from support.nodes.rig import JOINTS
from support.robot.lying_sensors import Lie, tell

INTERVAL_NS = 33_333_333  # of the sensors; lies count it from the first message
AFTERWARDS = 45  # messages after a lie, until which it has to have had its effect
Kind = Callable[[int], Lie]  # by the time at which it begins


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
        assert len(message.position) == 1 + len(JOINTS)
        return message

    def _place(self, time_ns: int) -> np.ndarray:
        return self._places[max(0, time_ns // INTERVAL_NS)]
