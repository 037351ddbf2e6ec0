# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot with a controller of each kind, and what each must be left with when nobody commands it.

A joint by trajectories, a base by velocities, a gripper by a switch and a tool by poses. Its policy answers
with what it sees: the base goes on, the gripper stays closed, and the tool is led to a pose far away.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped, TwistStamped
from std_msgs.msg import Bool

from remote_inference.base.wire.qos import SENSOR_QOS
from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.msg import ExecutedAction
from support.faults.watched_arm import WatchedArm
from support.nodes.echo_policy import ECHO
from support.nodes.pose_messages import message_of, pose_of
from support.nodes.rig import CONTRACT, DEEP_QOS, JOINTS, write_contract, write_manifest
from support.robot.pose_robot import POSE, pose_at, pose_command, pose_section, pose_state

JOINT, GRIPPER = JOINTS
BASE = "base_vx"
NAMES = (JOINT, BASE, GRIPPER, *POSE)
TWIST = "geometry_msgs/msg/TwistStamped"
SPEED = 0.4  # m/s, by the odometry
CLOSED, OPEN = 0.9, 0.1  # measured of the gripper
MAX_ACTION_AGE_S = 1.0
LIMITS: dict[str, Any] = {
    JOINT: {"min": -2.0, "max": 2.0, "max_velocity": 3.0},
    BASE: {"kind": "velocity", "unit": "m/s", "min": -1.0, "max": 1.0, "max_velocity": 3.0},
    GRIPPER: {"kind": "switch", "min": 0.0, "max": 1.0, "opens_below": 0.4, "closes_above": 0.6},
}
SECTIONS: dict[str, Any] = {
    "state": [
        CONTRACT["state"][0],
        {"topic": "odom", "type": TWIST, "fields": ["twist.linear.x"], "names": [BASE]},
        pose_state("wanted"),
    ],
    "measured": [pose_state("tool_pose")],
    "images": {},
    "rename": {},
    "actions": {
        "kind": "position",
        "names": list(NAMES),
        "limits": LIMITS,
        # So slow that the tool is on its way in every test.
        "poses": {"tool": pose_section(max_velocity=0.02, max_angular_velocity=0.1)},
    },
    "commands": [
        {"topic": "commands", "type": "trajectory_msgs/msg/JointTrajectory", "names": [JOINT]},
        {"topic": "cmd_vel", "type": TWIST, "fields": {"twist.linear.x": BASE}},
        {"topic": "gripper", "type": "std_msgs/msg/Bool", "fields": {"data": GRIPPER}},
        pose_command("target_pose"),
    ],
}
FAR = pose_at(0.4, -0.4, 0.3, angle=2.0)


class MixedRobot(WatchedArm):
    """`received` has the trajectories; the other controllers' commands have lists of their own."""

    def __init__(self, folder: Path) -> None:
        self.odometry = True  # whether it is published
        self.speeds: list[float] = []
        self.grips: list[bool] = []
        self.targets: list[PoseStamped] = []
        self._pose = pose_at()
        super().__init__(folder, "trajectory")
        self.positions = [0.25, CLOSED]
        self.run_on_executor(self._add_others)

    def _add_others(self) -> None:
        self._odometry = self.node.create_publisher(TwistStamped, "odom", SENSOR_QOS)
        self._poses = {
            name: self.node.create_publisher(PoseStamped, name, SENSOR_QOS)
            for name in ("wanted", "tool_pose")
        }
        self.subscribe(
            TwistStamped, "cmd_vel", lambda twist: self.speeds.append(twist.twist.linear.x), DEEP_QOS
        )
        self.subscribe(Bool, "gripper", lambda grip: self.grips.append(grip.data), DEEP_QOS)
        self.subscribe(PoseStamped, "target_pose", self._take_target, DEEP_QOS)
        self.node.create_timer(1.0 / self.fps, self._sense_others)

    def _take_target(self, target: PoseStamped) -> None:
        self.targets.append(target)
        self._pose = pose_of(target)

    def _sense_others(self) -> None:
        stamp = self.node.get_clock().now().to_msg()
        if self.odometry:
            twist = TwistStamped()
            twist.header.stamp, twist.twist.linear.x = stamp, SPEED
            self._odometry.publish(twist)
        for name, pose in (("wanted", FAR), ("tool_pose", self._pose)):
            message = message_of(pose)
            message.header.stamp = stamp
            self._poses[name].publish(message)

    def write_contract(self) -> Path:
        return write_contract(self.folder, **SECTIONS, **self.sections)

    def write_manifest(self) -> Path:
        policy = {
            "state_names": [*JOINTS, BASE, *POSE],
            "action_names": list(NAMES),
            "image_features": {},
            "chunk_size": 60,
        }
        return write_manifest(self.folder, policy=policy, model={"backend": ECHO, "path": "model"})

    def parameters(self) -> dict[str, Any]:
        return {"fallback": self.fallback, "max_action_age_s": MAX_ACTION_AGE_S}

    def wait_for_motion(self) -> None:
        """Wait until every controller is commanded, the base and the tool to move, after this call."""
        super().wait_for_motion()
        speeds, targets = len(self.speeds), len(self.targets)
        self.wait_for(
            lambda: SPEED in np.round(self.speeds[speeds:], 6) and len(self.targets) > targets + 3,
            "a base and a tool that move",
        )
        self.wait_for(lambda: self.grips[-1:] == [True], "a gripper that is closed")

    def is_stopped(self) -> bool:
        """Return whether the base has got zero, and the joint the end of its trajectory."""
        return not self.speeds[-1] and not self.received[-1].moves

    def judge(self, begin_ns: int) -> str:
        """Judge what each controller was left with by the robot's node; return it in words.

        begin_ns: of the fault, after which what the gripper measures said `open`.
        """
        self.wait_for_executed(20)  # nothing moves it again
        ticks = [tick for tick in self.executed if stamp_ns(tick) > begin_ns]
        places = [place for place, tick in enumerate(ticks) if tick.source == ExecutedAction.CHUNK]
        after = ticks[places[-1] + 1 :] if places else ticks
        place = NAMES.index(BASE)
        at_once = after[:2]  # a tick that comes late waits, once, for what happened meanwhile
        assert any(tick.action for tick in at_once), "the first tick that wants no action commands the stop"
        assert {tick.action[place] for tick in after if tick.action} == {0.0}
        self.judge_controllers()
        actions = [tick for tick in self.executed if tick.source == ExecutedAction.CHUNK]
        last = np.array(actions[-1].action[-len(POSE) :])
        assert pose_of(self.targets[-1]).tolist() == last.tolist(), "the tool keeps its last pose"
        return "the base got zero in the tick in which the trajectory ended; gripper and tool kept theirs"

    def judge_controllers(self) -> None:
        """Require that each controller is left with what its kind calls for."""
        assert self.speeds[-1] == 0.0
        assert not self.received[-1].moves
        assert set(self.grips) == {True}, "the gripper keeps what it holds"
        assert np.linalg.norm(pose_of(self.targets[-1])[:3] - FAR[:3]) > 0.1, "the tool was on its way"

    def wait_for_trip(self) -> str:
        """Wait until the watchdog has stopped the controllers, and judge it; return it in words."""
        trip = self.wait_for_watchdog("TRIPPED")
        self.wait_for(self.is_stopped, "a base that stands, and the end of the trajectory")
        assert list(trip.stops) == [
            "cmd_vel: sent zero velocity",
            "gripper: nothing sent, it stays as it is",
            "target_pose: nothing sent, it keeps its last pose",
            "commands: sent a hold of the measured position",
        ]
        assert self.received[-1].values == (self.positions[0],)
        self.judge_controllers()
        return "the watchdog sent the base zero and the joint a hold; gripper and tool kept theirs"

    def begin(self) -> int:
        """Begin a fault: from now on the joint is elsewhere and the gripper seems open; return the time."""
        begin_ns = time.time_ns()
        self.positions = [0.3, OPEN]
        return begin_ns
