# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm whose joints go where they are commanded, while its drives are on and its controller is there.

Its policy leads the shoulder up and down, wherever the arm is: an arm that does not follow shows whether the
node leads on.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from remote_inference.msg import Observation
from support.faults.arm import NAMES, Arm, now_ns
from support.faults.judge import LIMITS, MAX_VELOCITY, PERIOD_S, Outage
from support.faults.scripted_server import POLICY, Reply, right_answer
from support.nodes.rig import CONTRACT, DEEP_QOS

SWEEP = 1.5  # largest shoulder position of the policy [rad]
SWEEP_VELOCITY = 1.0  # [rad/s]


def sweep(observation: Observation) -> list[Reply]:
    """Answer with where the shoulder is to be by the wall clock, and zero for the elbow."""
    chunk, rows, columns = right_answer(observation), POLICY["chunk_size"], len(NAMES)
    begin_s = time.monotonic()
    for row in range(rows):
        way = SWEEP_VELOCITY * (begin_s + row * PERIOD_S) % (4 * SWEEP)
        chunk.chunk_robot[row * columns] = abs(way - 2 * SWEEP) - SWEEP
        chunk.chunk_robot[row * columns + 1] = 0.0
    chunk.chunk_model = array("f", chunk.chunk_robot)
    return [(0.0, chunk)]


def silence(_: Observation) -> list[Reply]:
    return []


class FollowingArm(Arm):
    """Joints that move at most at their maximum velocity to the controller's target."""

    def __init__(
        self, folder: Path, controller: type = Float64MultiArray, max_following_error: float | None = None
    ) -> None:
        """max_following_error: of the contract [rad]; left out: never exceeded."""
        self.driven = True
        self._controller_type = controller
        self._at = dict.fromkeys(LIMITS, 0.0)  # [rad]
        self._led = False  # a command leads the joints
        super().__init__(folder)
        if max_following_error is not None:
            self.record.max_following_error = max_following_error

    def start_following(self, server: str, **changes: Any) -> None:
        """Start the robot's node, with its controller of this arm, and wait until it streams."""
        type_name = "trajectory_msgs/msg/JointTrajectory"
        sink = {**CONTRACT["commands"][0], "names": list(reversed(NAMES))}
        if self._controller_type is JointTrajectory:
            sink["type"] = type_name
        # A server that is silent for a while keeps its robot.
        self.start_arm({"commands": [sink]}, servers=[server], max_timeouts=100, **changes)

    def move_by_hand(self, shoulder: float) -> None:
        """Put the arm, which nothing drives, elsewhere; return when its sensors have said so."""
        self._at["shoulder"] = shoulder
        self._led = False
        seen = len(self.record.captures) + 5
        self.wait_for(lambda: len(self.record.captures) > seen, "the sensors")

    def wait_for_commands_after(self, index: int, count: int) -> None:
        """Wait until as many commands have followed the one of an index."""
        self.wait_for(lambda: len(self.record.commands) >= index + count, f"{count} commands")

    def lose_drives(self) -> None:
        self.driven = False
        self.record.outages.append(Outage("drives", now_ns()))

    def regain_drives(self) -> None:
        """Switch the drives on: the controller goes on to its last target."""
        self.driven = True
        self.record.end_outage(now_ns())

    def measured(self, number: int) -> tuple[float, ...]:
        if self.driven and self._led:
            for joint, target in self._find_target().items():
                step = MAX_VELOCITY[joint] * PERIOD_S
                self._at[joint] += min(max(target - self._at[joint], -step), step)
        return tuple(self._at.values())

    def _start_controller(self) -> None:
        self._controller = self.node.create_subscription(
            self._controller_type, "commands", self._receive_command, DEEP_QOS
        )

    def _on_command(self, message: Any, info: dict[str, int | None]) -> None:
        ahead: list[Any] = []
        if isinstance(message, JointTrajectory):  # its first point is the command that is due
            first, *ahead = message.points
            message = Float64MultiArray(data=first.positions)
        super()._on_command(message, info)
        rows = [dict(zip(reversed(NAMES), point.positions, strict=True)) for point in ahead]
        self.record.commands[-1] = replace(
            self.record.commands[-1], ahead=tuple(tuple(row[joint] for joint in LIMITS) for row in rows)
        )
        self._led = True

    def _find_target(self) -> dict[str, float]:
        """Return where the last command wants the joints to be by now: along its points, one per period."""
        command = self.record.commands[-1]
        passed = min(int((now_ns() - command.time_ns) / 1e9 / PERIOD_S), len(command.ahead))
        return dict(zip(LIMITS, [command.positions, *command.ahead][passed], strict=True))
