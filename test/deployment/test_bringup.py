# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a deployment consists of: command lines, environment, recorded topics."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

from remote_inference.core.document import DocumentError
from remote_inference.deployment import bringup
from remote_inference.paths import share_path

CONTRACT = share_path("config", "belt_arm.contract.yaml")


def test_a_command_names_node_namespace_and_parameters() -> None:
    process = bringup.robot(
        CONTRACT, namespace="/robot_1", servers=["/a", "/b"], parameters={"autostart": True}
    )
    command = process.command()
    assert command[:3] == [sys.executable, "-m", "remote_inference.nodes.start"]
    assert command[3:5] == ["remote_inference", "--ros-args"]
    assert "__ns:=/robot_1" in command
    assert 'servers:=["/a", "/b"]' in command
    assert "autostart:=true" in command


@pytest.mark.parametrize("value", [True, 3, 0.25, "two words", 'say "hi" \\', ["/a", "/b: c"], [1.5, 2.5]])
def test_parameter_values_are_written_so_that_yaml_reads_them_back(value: object) -> None:
    process = bringup.Process("remote_inference", "node", parameters={"p": value})
    argument = next(word for word in process.command() if word.startswith("p:="))
    assert yaml.safe_load(argument.removeprefix("p:=")) == value


def test_variables_that_the_user_has_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MALLOC_TOP_PAD_" in bringup.environment()
    assert "RMW_IMPLEMENTATION" not in bringup.environment()
    assert bringup.environment("rmw_zenoh_cpp")["RMW_IMPLEMENTATION"] == "rmw_zenoh_cpp"
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    assert "MALLOC_TOP_PAD_" not in bringup.environment()


def test_the_recorder_takes_the_exchange_the_joints_and_the_commands(tmp_path: Path) -> None:
    recorder = bringup.recorder(tmp_path / "bag", CONTRACT, namespace="/robot_1")
    topics = recorder.parameters["topics"]
    assert "/robot_1/remote_inference/observation:remote_inference/msg/Observation" in topics
    assert "/robot_1/joint_states:sensor_msgs/msg/JointState" in topics
    assert "/robot_1/forward_position_controller/commands:std_msgs/msg/Float64MultiArray" in topics
    assert recorder.parameters["contract"] == str(CONTRACT)


def test_the_recorder_takes_what_people_told_the_robot(tmp_path: Path) -> None:
    stop = {"topic": "/estop", "type": "std_msgs/msg/Bool", "stop_when": True}
    takeover = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    content = yaml.safe_load(CONTRACT.read_text()) | {"stops": {"button": stop}, "takeover": takeover}
    contract = tmp_path / "arm.contract.yaml"
    contract.write_text(yaml.safe_dump(content))
    topics = bringup.recorder(tmp_path / "bag", contract, namespace="/robot_1").parameters["topics"]
    assert {"/estop:std_msgs/msg/Bool", "/robot_1/teleop:sensor_msgs/msg/JointState"} <= set(topics)


@pytest.mark.parametrize("namespace", ["robot_1", "/robot_1", "/robot_1/"])
def test_topics_are_recorded_whether_or_not_the_namespace_has_its_slash(
    tmp_path: Path, namespace: str
) -> None:
    """People write `namespace:=robot_1`, and the recorder takes absolute names only."""
    recorder = bringup.recorder(tmp_path / "bag", CONTRACT, namespace=namespace)
    assert all(topic.startswith("/robot_1/") for topic in recorder.parameters["topics"])
    assert recorder.namespace == "/robot_1"


def test_a_namespace_that_ros_refuses_is_refused_before_anything_starts() -> None:
    with pytest.raises(bringup.DeploymentError, match="namespace: found '-' in '/robot-1', expected letters"):
        bringup.robot_processes(CONTRACT, namespace="robot-1")


def test_a_robot_without_namespace_is_recorded(tmp_path: Path) -> None:
    recorder = bringup.recorder(tmp_path / "bag", CONTRACT, namespace="/")
    assert "/joint_states:sensor_msgs/msg/JointState" in recorder.parameters["topics"]


def test_a_folder_that_exists_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(bringup.DeploymentError, match=f"{tmp_path}: exists already, expected the folder"):
        bringup.robot_processes(CONTRACT, namespace="/robot_1", bag=tmp_path)


def test_recording_comes_up_first_and_only_on_request(tmp_path: Path) -> None:
    without = bringup.robot_processes(CONTRACT, namespace="/robot_1")
    assert [process.executable for process in without] == ["command_watchdog", "remote_inference"]
    recorded = bringup.robot_processes(CONTRACT, namespace="/robot_1", bag=tmp_path / "bag")
    executables = [process.executable for process in recorded]
    assert executables == ["bag_recorder", "command_watchdog", "remote_inference"]


def test_a_robot_is_watched_by_a_small_process_that_ends_after_it() -> None:
    """What is started first is stopped last."""
    watchdog, node = bringup.robot_processes(CONTRACT, namespace="robot_1", rmw="rmw_fastrtps_cpp")
    assert watchdog.required
    assert watchdog.parameters == {"contract": str(CONTRACT)}
    assert watchdog.namespace == node.namespace == "/robot_1"
    assert watchdog.environment["RMW_IMPLEMENTATION"] == "rmw_fastrtps_cpp"
    assert {*bringup.MALLOC_ENVIRONMENT, *bringup.FASTDDS_PROFILES}.isdisjoint(watchdog.environment)


def test_a_bad_contract_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.yaml"):
        bringup.robot_processes(tmp_path / "none.yaml", namespace="/robot_1", bag=tmp_path / "bag")


def test_servers_that_nobody_names_are_left_to_the_parameter_file() -> None:
    command = " ".join(bringup.robot(CONTRACT, namespace="/robot_1").command())
    assert "servers" not in command
