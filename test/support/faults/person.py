# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person at a robot's takeover topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sensor_msgs.msg import JointState

from support.faults.arm import NAMES, Arm
from support.nodes.rig import Rig

TAKEOVER = {"topic": "teleop", "type": "sensor_msgs/msg/JointState", "silent_s": 0.4}
Markers = Callable[[], Mapping[str, float] | None]


class Person:
    """Commands every joint to zero, the middle of its range or standing still, 30 times a second."""

    def __init__(self, rig: Rig, joints: Markers, field: str = "position") -> None:
        """joints: by name what to command, None for nothing yet. field: of the message."""
        self.drives = True
        self._joints = joints
        self._field = field
        self._publisher = rig.node.create_publisher(JointState, "teleop", 10)
        rig.node.create_timer(0.03, self._publish)

    def _publish(self) -> None:
        joints = self._joints()
        if self.drives and joints is not None:
            said = {self._field: list(joints.values())}
            self._publisher.publish(JointState(name=list(joints), **said))


def markers(arm: Arm) -> Markers:
    """Return what a person commands who sees an arm's newest capture, whose number is in the command."""

    def find() -> Mapping[str, float] | None:
        if not (captures := arm.record.captures):
            return None
        zeros = dict.fromkeys(NAMES, 0.0)
        return {**zeros, "capture": float(len(captures) - 1), "episode": float(captures[-1].episode)}

    return find
