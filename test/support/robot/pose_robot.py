# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose controller takes Cartesian poses: its contract, its playback by itself, and rotations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.rotations import ROTATION_FORMS
from remote_inference.robot.motion.state import Tick
from support.builders import FPS
from support.robot.fed_playback import FedPlayback

POSE_STAMPED = "geometry_msgs/msg/PoseStamped"
FIELDS = (
    *[f"pose.position.{axis}" for axis in "xyz"],
    *[f"pose.orientation.{axis}" for axis in "xyzw"],
)
POSE = ("x", "y", "z", "qx", "qy", "qz", "qw")
BOX = 0.5  # m, both ways, of each axis
SPEED = 0.4  # m/s
TURN = 2.0  # rad/s
STEP, ARC = SPEED / FPS, TURN / FPS  # of a control tick [m], [rad]
UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def pose_section(names: Sequence[str] = POSE, **changes: Any) -> dict[str, Any]:
    """Return what a contract says of a pose."""
    section = {
        "position": list(names[:3]),
        "quaternion": list(names[3:]),
        "min": [-BOX] * 3,
        "max": [BOX] * 3,
        "max_velocity": SPEED,
        "max_angular_velocity": TURN,
    }
    return section | changes


def rotation_of(form: str) -> dict[str, Any]:
    """Return what a contract says of a policy that has a form in place of a quaternion."""
    return {"form": form, "names": [f"r{place}" for place in range(ROTATION_FORMS.get(form).width)]}


def pose_state(topic: str = "tool_pose", names: Sequence[str] = POSE) -> dict[str, Any]:
    return {"topic": topic, "type": POSE_STAMPED, "fields": list(FIELDS), "names": list(names)}


def pose_command(topic: str = "target_pose", names: Sequence[str] = POSE) -> dict[str, Any]:
    fields = dict(zip(FIELDS, names, strict=True))
    return {
        "topic": topic,
        "type": POSE_STAMPED,
        "fields": fields,
        "constant": {"header.frame_id": "base_link"},
    }


def pose_document(ticks_per_row: int = 1, **pose: Any) -> dict[str, Any]:
    """Return the contract of a robot with one pose; tests break one key of it."""
    return {
        "robot_type": "cartesian",
        "fps": FPS * ticks_per_row,
        **({"policy_fps": FPS} if ticks_per_row > 1 else {}),
        "task": "wave",
        "state": [pose_state()],
        "actions": {"kind": "position", "names": list(POSE), "poses": {"tool": pose_section(**pose)}},
        "commands": [pose_command()],
    }


def pose_contract(document: dict[str, Any] | None = None, **pose: Any) -> Contract:
    return parse_document(document or pose_document(**pose), Contract, "pose.contract.yaml")


def turned(angle: float, axis: Sequence[float] = (0.0, 0.0, 1.0)) -> tuple[float, ...]:
    """Return the unit quaternion of a rotation by an angle [rad] about an axis."""
    direction = np.array(axis) / np.linalg.norm(axis)
    return (*(math.sin(0.5 * angle) * direction), math.cos(0.5 * angle))


def pose_at(
    x: float = 0.0, y: float = 0.0, z: float = 0.0, *, angle: float = 0.0, sign: float = 1.0
) -> np.ndarray:
    """Return a pose `[7]` that is turned about z by an angle; sign: of its quaternion."""
    return np.array([x, y, z, *(sign * part for part in turned(angle))])


def angle_of(one: np.ndarray, other: np.ndarray) -> float:
    """Return the angle between the orientations of two poses `[7]`, by the trace of their rotation [rad]."""
    cosine = abs(float(np.dot(one[3:7], other[3:7])))
    return 2.0 * math.acos(min(1.0, cosine))


class PoseRobot(FedPlayback):
    """A playback that is fed; what it commands is where the robot is, unless `stuck`."""

    def __init__(self, contract: Contract | None = None, fallback: str = "hold", **options: Any) -> None:
        super().__init__(contract or pose_contract(), fallback, **options)
        self.stuck = False
        self.see(pose_at())

    def see(self, pose: np.ndarray) -> None:
        """Measure the robot now."""
        self.measure(pose)

    def feed(self, *rows: np.ndarray) -> None:
        self.append(rows)

    def tick(self) -> Tick:
        tick = super().tick()
        if tick.command is not None and not self.stuck:
            self.see(tick.command)
        return tick

    def sent(self, tick: Tick) -> list[str]:
        """Return the topics on which a tick publishes."""
        return [sink.topic for sink in self.reached(tick)]
