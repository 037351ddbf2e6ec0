# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference contract suggest` on a running robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Float64, Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.contract.contract import Contract, load_contract
from remote_inference.base.documents.document import FILL_IN, parse_document
from remote_inference.base.paths import share_path
from remote_inference.base.wire.qos import COMMAND_QOS, LATCHED_QOS, SENSOR_QOS
from remote_inference.learn.environments.belt_arm.scene import JOINT_NAMES
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.nodes.rig import Rig

TIMEOUT = ("--timeout", "60")
URDF = """<robot name="rigged">
<joint name="shoulder" type="revolute"><limit lower="-1" upper="1" velocity="2" effort="1"/></joint>
<joint name="elbow" type="revolute"><limit lower="-2" upper="2" velocity="3" effort="1"/></joint></robot>"""


def fill_in(generated: Any, known: Any) -> Any:
    """Return it with the finished contract's value at each marked place, and nothing else changed."""
    if isinstance(generated, str) and generated.startswith(FILL_IN):
        return known
    if isinstance(generated, dict):
        return {
            key: fill_in(item, known[key] if known and key in known else None)
            for key, item in generated.items()
        }
    if isinstance(generated, list) and known is not None:
        return [fill_in(item, other) for item, other in zip(generated, known, strict=True)]
    return generated


def test_the_belt_arm_s_contract_loads_after_its_marks_are_filled_in(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str], told_before_end: list[str]
):
    shipped = load_contract(share_path("config", "belt_arm.contract.yaml"))
    rig.group.start(bringup.belt_arm(namespace="/arm"))
    images = [f"/arm/{camera}/image_raw/compressed" for camera in shipped.images]
    rig.wait_for(lambda: all(map(rig.node.count_publishers, images)), "both cameras")
    (sink,) = shipped.commands
    rig.wait_for(lambda: rig.node.count_subscribers(f"/arm/{sink.topic}"), "the arm's controller")
    out = tmp_path / "arm.contract.yaml"
    assert cli.main(["contract", "suggest", "--namespace", "arm", "--out", str(out), *TIMEOUT]) == 0
    listed = capsys.readouterr().err.splitlines()
    assert told_before_end[-1].splitlines() == listed
    assert cli.main(["check", str(out)]) == 2
    refused = capsys.readouterr().err.splitlines()
    assert listed
    assert all(line.endswith(mark) for line, mark in zip(refused, listed, strict=True))

    known = yaml.safe_load(share_path("config", "belt_arm.contract.yaml").read_text())
    filled = fill_in(yaml.safe_load(out.read_text()), known)
    out.write_text(yaml.safe_dump(filled))
    contract = load_contract(out)
    assert contract.state_names == JOINT_NAMES
    assert contract.actions.names == shipped.actions.names
    assert contract.commands == shipped.commands
    assert {image.topic for image in contract.images.values()} == {
        f"{camera}/image_raw/compressed" for camera in shipped.images
    }


def test_a_controller_and_a_description_are_asked(rig: Rig, tmp_path: Path):
    """Parameters as those of ros2_control's forward controller."""
    node = rig.add_node("position_controller")
    node.declare_parameter("joints", ["elbow", "shoulder"])
    node.declare_parameter("interface_name", "position")
    node.declare_parameter("joint_limits.elbow.has_acceleration_limits", True)
    node.declare_parameter("joint_limits.elbow.max_acceleration", 4.0)
    node.create_subscription(Float64MultiArray, "/other/commands", lambda _message: None, COMMAND_QOS)
    node.create_publisher(String, "/other/robot_description", LATCHED_QOS).publish(String(data=URDF))
    joints = node.create_publisher(JointState, "/other/joint_states", SENSOR_QOS)
    message = JointState(name=["shoulder", "elbow"], position=[0.0, 0.0])
    node.create_timer(0.05, lambda: joints.publish(message))

    out, limits = tmp_path / "rigged.contract.yaml", tmp_path / "joint_limits.yaml"
    limits.write_text("joint_limits: {shoulder: {has_velocity_limits: true, max_velocity: 1.5}}")
    words = ["contract", "suggest", "--namespace", "/other", "--joint-limits", str(limits), "--out", str(out)]
    assert cli.main([*words, *TIMEOUT]) == 0
    content = yaml.safe_load(out.read_text())
    assert content.pop("fps").startswith(FILL_IN)
    contract = parse_document({"fps": 30.0, **content}, Contract, "filled in")
    assert contract.robot_type == "rigged"
    assert contract.state_names == ("shoulder", "elbow")
    assert contract.actions.kind == "position"
    assert contract.commands[0].names == ("elbow", "shoulder")
    assert contract.actions.limits["elbow"].max_velocity == 3.0
    assert contract.actions.limits["elbow"].max_acceleration == 4.0
    assert contract.actions.limits["shoulder"].max_velocity == 1.5


def test_a_trajectory_controller_without_interface_name_is_asked_and_other_topics_are_named(
    rig: Rig, tmp_path: Path
):
    """Parameters as those of ros2_control's joint_trajectory_controller."""
    node = rig.add_node("arm_controller")
    node.declare_parameter("joints", ["elbow", "shoulder"])
    node.declare_parameter("command_interfaces", ["position", "velocity"])
    node.create_subscription(JointTrajectory, "/base/arm/joint_trajectory", lambda _: None, COMMAND_QOS)
    node.create_subscription(TwistStamped, "/base/cmd_vel", lambda _: None, COMMAND_QOS)
    node.create_subscription(Float64, "/base/gripper", lambda _: None, COMMAND_QOS)
    node.create_publisher(Imu, "/base/imu", SENSOR_QOS)
    joints = node.create_publisher(JointState, "/base/joint_states", SENSOR_QOS)
    message = JointState(name=["shoulder", "elbow"], position=[0.0, 0.0])
    node.create_timer(0.05, lambda: joints.publish(message))

    out = tmp_path / "base.contract.yaml"
    assert cli.main(["contract", "suggest", "--namespace", "/base", "--out", str(out), *TIMEOUT]) == 0
    content = yaml.safe_load(out.read_text())
    assert content["commands"] == [
        {
            "topic": "arm/joint_trajectory",
            "type": "trajectory_msgs/msg/JointTrajectory",
            "names": ["elbow", "shoulder"],
        }
    ]
    assert content["actions"]["kind"] == "position"
    comments = [line for line in out.read_text().splitlines() if line.startswith("#")]
    for topic in ("cmd_vel", "gripper", "imu"):
        assert any(f"topic: {topic}" in line for line in comments), topic
    assert any("fields: {data: gripper}" in line for line in comments)


def test_no_robot_is_said_and_nothing_written(rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "nobody.contract.yaml"
    words = ["contract", "suggest", "--namespace", "nobody", "--out", str(out), "--timeout", "0.5"]
    assert cli.main(words) == 2
    assert "contract: no JointState with names and positions in /nobody" in capsys.readouterr().err
    assert not out.exists()


def test_a_file_without_joint_limits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "joint_limits.yaml"
    path.write_text("joints: {}")
    assert cli.main(["contract", "suggest", "--joint-limits", str(path)]) == 2
    assert f"{path}: joint_limits: missing, expected limits by joint" in capsys.readouterr().err
