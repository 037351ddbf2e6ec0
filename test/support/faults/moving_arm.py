# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A watched arm that is where its controller leads it: at its target at once, or along a trajectory's points.

Its policy moves it. Each command is compared with where the arm is when it comes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from support.faults.watched_arm import WatchedArm
from support.nodes.rig import JOINTS

START = (-1.5, 0.0)  # [rad], order of JOINTS
Point = tuple[float, tuple[float, ...]]  # time after the command [s], positions in the order of JOINTS


@dataclass(frozen=True)
class Step:
    """What one command wants of the arm first."""

    time_ns: int
    distance: float  # from where the arm is, of the joint that is farthest [rad]
    due_s: float  # in which it is to be there, 0: at once


class MovingArm(WatchedArm):
    """The joints follow while `driven`."""

    policy = "support.faults.ramp_policy:RampPolicy"

    def __init__(self, folder: Path, controller: str) -> None:
        """controller: position or trajectory."""
        self.driven = True
        self.steps: list[Step] = []
        self._at = START
        self._began_ns = 0
        self._way: list[Point] = []  # of the last command, from where the arm was
        super().__init__(folder, controller)

    def write_manifest(self) -> Path:
        path = self.folder / "manifest.yaml"
        path.write_text(yaml.safe_dump({"model": {"backend": self.policy, "path": "."}}))
        return path

    def lose_drives(self) -> None:
        """Let the joints stay where they are, whatever the controller says."""
        self._at = self.where(time.time_ns())
        self.driven = False

    def where(self, time_ns: int) -> tuple[float, ...]:
        """Return where the joints are, in the order of JOINTS."""
        passed_s = (time_ns - self._began_ns) / 1e9
        if not self.driven or not self._way:
            return self._at
        for (before_s, before), (after_s, after) in pairwise(self._way):
            if passed_s < after_s:
                part = max(0.0, passed_s - before_s) / (after_s - before_s)
                return tuple(a + part * (b - a) for a, b in zip(before, after, strict=True))
        return self._way[-1][1]

    def largest_step(self, since_ns: int) -> float:
        """Return the largest distance of a command since a time from where the arm was [rad]."""
        return max((step.distance for step in self.steps if step.time_ns > since_ns), default=0.0)

    def _measure(self) -> JointState:
        self.positions = list(self.where(time.time_ns()))
        return super()._measure()

    def _on_command(self, message: Any, info: dict[str, int | None]) -> None:
        time_ns = info["received_timestamp"] or time.time_ns()
        at = self.where(time_ns)
        if isinstance(message, JointTrajectory):
            points = [
                (_seconds(point.time_from_start), tuple(point.positions)[::-1]) for point in message.points
            ]
        else:
            points = [(0.0, tuple(message.data)[::-1])]  # the sink has the joints in reverse
        distance = max(abs(first - now) for first, now in zip(points[0][1], at, strict=True))
        assert len(at) == len(JOINTS)
        self.steps.append(Step(time_ns, distance, points[0][0]))
        if self.driven:
            self._at = at
        self._began_ns, self._way = time_ns, [(0.0, at), *points]
        super()._on_command(message, info)


def _seconds(duration: Any) -> float:
    return float(duration.sec + duration.nanosec / 1e9)
