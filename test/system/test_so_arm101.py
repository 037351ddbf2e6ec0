# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The ROS Physical AI group's SO-ARM101, simulated: from its rosetta contract to an arm that moves.

Its topics, joints and rates; what rosetta does not say is completed as a person would. The policy is as
LeRobot trains it for this arm: joints in degrees, one camera.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.wire.qos import OBSERVATION_TOPIC, SENSOR_QOS
from remote_inference.msg import Observation
from remote_inference.tools import cli
from support.importable import python_path
from support.nodes.rig import DEEP_QOS, Rig
from support.rosetta import JOINTS, begin, filled_in, source

ARM = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_pitch", "wrist_roll", "jaw")
NAMES = [f"{name}_joint" for name in ARM]
START = dict.fromkeys(NAMES, 0.1)  # rad
GOAL = dict(zip(NAMES, (30.0, -20.0, 40.0, 10.0, -15.0, 25.0), strict=True))  # degrees
CAMERA = "observation.images.overhead"
FPS = 30.0
STEP = 1.0 / FPS  # rad, of a control tick at 1 rad/s


def rosetta_contract() -> dict[str, object]:
    select = [f"position.{name}" for name in NAMES]
    commands = "/forward_position_controller/commands"
    return {
        "robot_type": "so_arm101",
        "robot_interface": "ros2",
        "fps": int(FPS),
        "observations": {
            CAMERA: source("/static_camera/image_raw", "sensor_msgs/msg/Image"),
            "observation.state": source("/joint_states", JOINTS, select, apply=["rad2deg"]),
        },
        "actions": {"action": source(commands, "std_msgs/msg/Float64MultiArray", select, apply=["rad2deg"])},
    }


class SoArm101(Rig):
    """Drivers and forward controller: an arm that is where it was told to be."""

    def __init__(self, folder: Path) -> None:
        self.joints = dict(START)
        self.told: list[list[float]] = []
        super().__init__(folder, namespace="/follower")
        self.run_on_executor(self._add_drivers)

    def _add_drivers(self) -> None:
        self._states = self.node.create_publisher(JointState, "/joint_states", SENSOR_QOS)
        self._images = self.node.create_publisher(Image, "/static_camera/image_raw", SENSOR_QOS)
        self.subscribe(Float64MultiArray, "/forward_position_controller/commands", self._command, DEEP_QOS)
        self.node.create_timer(1.0 / FPS, self._publish)

    def _command(self, message: Float64MultiArray) -> None:
        self.told.append(list(message.data))
        self.joints = dict(zip(NAMES, message.data, strict=True))

    def _publish(self) -> None:
        now = self.node.get_clock().now().to_msg()
        state = JointState(name=list(reversed(NAMES)), position=[self.joints[n] for n in reversed(NAMES)])
        state.header.stamp = now
        self._states.publish(state)
        image = Image(height=480, width=640, encoding="rgb8", step=3 * 640, data=bytes(3 * 640 * 480))
        image.header.stamp = now
        self._images.publish(image)


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SoArm101]:
    monkeypatch.setenv("PYTHONPATH", python_path())
    made = SoArm101(tmp_path)
    yield made
    made.close()


def write_contract(folder: Path) -> Path:
    """Convert, and complete what is marked."""
    limits = {
        f"actions.limits.{name}.{key}": value
        for name in NAMES
        for key, value in (("min", -1.6), ("max", 1.6), ("max_velocity", 1.0))
    }
    path = folder / "so_arm101.contract.yaml"
    path.write_text(yaml.safe_dump(filled_in(begin(rosetta_contract()), limits)))
    return path


def write_manifest(folder: Path) -> Path:
    goal = {f"position.{name}": value for name, value in GOAL.items()}
    options = {"goal": goal, "unit": "degrees", "camera": CAMERA}
    model = {"backend": "support.nodes.goal_policy:GoalPolicy", "path": ".", "options": options}
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump({"model": model}, sort_keys=False))
    return path


def test_a_converted_and_completed_contract_leads_the_arm_where_the_policy_says_in_degrees(
    arm: SoArm101, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract, manifest = write_contract(tmp_path), write_manifest(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    assert cli.main(["check", str(contract), str(manifest), "--quiet"]) == 0
    seen: list[Observation] = []
    arm.subscribe(Observation, OBSERVATION_TOPIC, seen.append, DEEP_QOS)
    arm.start_server(manifest)
    arm.start_robot(contract)
    goal = [math.radians(value) for value in GOAL.values()]
    arm.wait_for(lambda: arm.told and arm.told[-1] == pytest.approx(goal, abs=1e-6), "the goal in radians")
    assert list(seen[0].state) == pytest.approx([math.degrees(value) for value in START.values()], abs=1e-4)
    assert arm.told[0] != pytest.approx(goal, abs=0.1), "it is led there, and does not jump"
    begin_rad = list(START.values())
    for before, after in zip([begin_rad, *arm.told], arm.told, strict=False):
        assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 4 * STEP
