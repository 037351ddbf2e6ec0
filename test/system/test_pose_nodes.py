# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A Cartesian controller: PoseStamped to it and from it, with real nodes."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.wire.qos import SENSOR_QOS, WATCHDOG_TOPIC
from remote_inference.msg import WatchdogState
from remote_inference.tools.deployment import bringup
from support.nodes.pose_messages import message_of, pose_of
from support.nodes.rig import DEEP_LATCHED_QOS, DEEP_QOS, Rig, write_contract, write_manifest
from support.robot.pose_robot import (
    POSE,
    SPEED,
    TURN,
    angle_of,
    pose_at,
    pose_command,
    pose_section,
    pose_state,
    rotation_of,
)

FPS = 30.0
FAR = pose_at(0.3, -0.2, 0.1, angle=1.2)
NEAR = 1e-3
SECTIONS: dict[str, Any] = {
    "state": [pose_state("wanted")],  # the policy answers with what it sees
    "measured": [pose_state("tool_pose")],
    "images": {},
    "rename": {},
    "actions": {"kind": "position", "names": list(POSE), "poses": {"tool": pose_section()}},
    "commands": [pose_command("target_pose")],
}


def with_form(form: str) -> dict[str, Any]:
    """Return the sections of a robot whose policy has a form of its own in place of quaternions."""
    rotation = rotation_of(form)
    seen = pose_state("wanted") | {"rotations": [rotation | {"quaternion": list(POSE[3:])}]}
    actions = SECTIONS["actions"] | {"poses": {"tool": pose_section(rotation=rotation)}}
    return SECTIONS | {"state": [seen], "actions": actions}


class CartesianArm(Rig):
    """The rig with a controller that goes to each target at once, and measures with the other sign."""

    def __init__(self, folder: Path) -> None:
        self.pose = pose_at(x=0.1)
        self.wanted: np.ndarray | None = FAR
        self.targets: list[PoseStamped] = []
        self.watchdog_states: list[WatchdogState] = []
        super().__init__(folder)
        self.run_on_executor(self._add_controller)

    def _add_controller(self) -> None:
        self._wanted = self.node.create_publisher(PoseStamped, "wanted", SENSOR_QOS)
        self._measured = self.node.create_publisher(PoseStamped, "tool_pose", SENSOR_QOS)
        self.subscribe(PoseStamped, "target_pose", self._take, DEEP_QOS)
        self.subscribe(WatchdogState, WATCHDOG_TOPIC, self.watchdog_states.append, DEEP_LATCHED_QOS)
        self.node.create_timer(1.0 / FPS, self._publish)

    def _take(self, target: PoseStamped) -> None:
        self.targets.append(target)
        self.pose = pose_of(target)

    def _publish(self) -> None:
        stamp = self.node.get_clock().now().to_msg()
        for publisher, pose in ((self._wanted, self.wanted), (self._measured, self.pose)):
            if pose is not None:
                message = message_of(pose * ([1.0] * 3 + [-1.0] * 4))
                message.header.stamp = stamp
                publisher.publish(message)

    def start(self, form: str = "") -> None:
        """Start server, watchdog and robot. form: in which the policy sees and says orientations."""
        path = write_contract(self.folder, **(with_form(form) if form else SECTIONS))
        contract = load_contract(path)
        policy = {
            "state_names": list(contract.policy_state_names),
            "action_names": list(contract.policy_action_names),
            "image_features": {},
        }
        self.start_server(write_manifest(self.folder, policy))
        self.group.start(bringup.command_watchdog(path, namespace=self.namespace))
        self.start_robot(path, max_action_age_s=1.0)

    def is_at(self, pose: np.ndarray) -> bool:
        is_there = np.linalg.norm(self.pose[:3] - pose[:3]) < NEAR
        return bool(is_there and angle_of(self.pose, pose) < NEAR)

    def wait_for_silence(self) -> None:
        executed = len(self.executed)
        self.wait_for(lambda: self.executed[executed:] and not self.executed[-1].action, "silence")


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[CartesianArm]:
    rig = CartesianArm(tmp_path)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def test_a_cartesian_controller_is_led_to_a_pose_and_keeps_it_in_silence(robot: CartesianArm):
    robot.wait_for(lambda: robot.is_at(FAR), "the robot at the policy's pose")
    assert robot.targets[0].header.frame_id == "base_link"
    assert robot.targets[0].header.stamp.sec > 0
    poses = [pose_at(x=0.1), *map(pose_of, robot.targets)]
    assert len(poses) > FPS * 1.2 / TURN, "it went there in steps"
    for before, after in itertools.pairwise(poses):
        assert np.linalg.norm(after[:3] - before[:3]) <= SPEED / FPS + 1e-9
        assert angle_of(before, after) <= TURN / FPS + 1e-6
        assert np.dot(before[3:], after[3:]) > 0.0 or before is poses[0], "the sign goes on"
    robot.wanted = None  # the policy has nothing to answer with
    robot.wait_for_silence()
    robot.wanted = pose_at()
    robot.wait_for(lambda: robot.is_at(pose_at()), "the robot at the next pose")
    assert robot.trigger("pause").success
    robot.wait_for_silence()
    commanded, kept = len(robot.targets), robot.pose
    robot.pose = pose_at(0.2, 0.2, angle=-1.0)  # moved by hand
    robot.wanted = FAR
    robot.wait_for_silence()
    assert len(robot.targets) == commanded, "a pause sends a pose nothing"
    assert not np.allclose(kept, robot.pose)
    assert robot.trigger("resume").success
    robot.wait_for(lambda: len(robot.targets) > commanded, "a step after the pause")
    first = pose_of(robot.targets[commanded])
    assert np.linalg.norm(first[:3] - [0.2, 0.2, 0.0]) <= SPEED / FPS + 1e-9, "from where it was moved to"
    robot.wait_for(lambda: robot.is_at(FAR), "the robot at the policy's pose again")


def test_a_killed_node_leaves_the_pose_where_it_is(robot: CartesianArm):
    robot.wait_for(lambda: robot.is_at(FAR), "the robot at the policy's pose")
    robot.robot.send_signal(signal.SIGKILL)
    robot.wait_for(
        lambda: robot.watchdog_states and robot.watchdog_states[-1].trips == 1, "a watchdog that has tripped"
    )
    assert any("keeps its last pose" in stop for stop in robot.watchdog_states[-1].stops)
    assert robot.is_at(FAR)


def test_a_policy_of_six_numbers_leads_the_tool_to_the_same_pose(tmp_path: Path):
    rig = CartesianArm(tmp_path)
    try:
        rig.start("rotation_6d_rows")
        rig.wait_for(lambda: rig.is_at(FAR), "the robot at the policy's pose")
        assert len(rig.executed[-1].action) == len(POSE), "what is executed is recorded as a quaternion"
        rig.wanted = FAR * [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
        log = tmp_path / "logs" / "remote_inference.log"
        rig.wait_for(lambda: "r0: found a quaternion of length 0" in log.read_text(), "a refusal")
    finally:
        rig.close()
