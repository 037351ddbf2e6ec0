# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a deployment consists of: command lines, environment, recorded topics."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from rosbags.rosbag2 import StoragePlugin, Writer

from remote_inference.bags.storage.bag import BagReader
from remote_inference.base import fast_dds
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.paths import share_path
from remote_inference.tools.deployment import bringup

CONTRACT = share_path("config", "belt_arm.contract.yaml")


def test_a_command_names_node_namespace_and_parameters() -> None:
    process = bringup.robot(
        CONTRACT,
        namespace="/robot_1",
        servers=["/a", "/b"],
        tags=["site=lab 2"],
        parameters={"autostart": True},
    )
    command = process.command()
    assert command[:3] == [sys.executable, "-m", "remote_inference.base.nodes.start"]
    assert command[3:5] == ["remote_inference", "--ros-args"]
    assert "__ns:=/robot_1" in command
    assert 'servers:=["/a", "/b"]' in command
    assert 'tags:=["site=lab 2"]' in command
    assert "autostart:=true" in command


@pytest.mark.parametrize("value", [True, 3, 0.25, "two words", 'say "hi" \\', ["/a", "/b: c"], [1.5, 2.5]])
def test_parameter_values_are_written_so_that_yaml_reads_them_back(value: object) -> None:
    process = bringup.Process("remote_inference", "node", parameters={"p": value})
    argument = next(word for word in process.command() if word.startswith("p:="))
    assert yaml.safe_load(argument.removeprefix("p:=")) == value


def test_variables_that_the_user_has_set_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MALLOC_TOP_PAD_" in bringup.environment()
    assert "RMW_IMPLEMENTATION" not in bringup.environment()
    node = bringup.Process("remote_inference", "node")
    assert bringup.with_middleware(node, "rmw_zenoh_cpp").environment["RMW_IMPLEMENTATION"] == "rmw_zenoh_cpp"
    assert "RMW_IMPLEMENTATION" not in bringup.with_middleware(node, "").environment
    monkeypatch.setenv("MALLOC_TOP_PAD_", "1")
    assert "MALLOC_TOP_PAD_" not in bringup.environment()


@pytest.mark.usefixtures("no_transports_chosen")
@pytest.mark.parametrize(("rclpy", "read"), [("7.1.5", 0), ("9.1.0", 1), ("10.0.3", 1)])
def test_fast_dds_is_told_its_profile_by_the_variable_that_it_reads(
    monkeypatch: pytest.MonkeyPatch, rclpy: str, read: int
) -> None:
    """Fast DDS 3 warns on every start that the other one is deprecated."""
    monkeypatch.delenv("ROS_DISTRO", raising=False)  # not everywhere set
    monkeypatch.setattr(metadata, "version", lambda _: rclpy)
    profile = str(share_path("config", "fastdds.xml"))
    assert bringup.environment()[fast_dds.PROFILES[read]] == profile
    assert fast_dds.PROFILES[1 - read] not in bringup.environment()
    monkeypatch.setenv(fast_dds.PROFILES[1 - read], "theirs.xml")
    assert set(fast_dds.PROFILES).isdisjoint(bringup.environment()), "the user's own profile stays"


@pytest.mark.usefixtures("no_transports_chosen")
def test_the_transports_that_a_user_has_chosen_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile would replace them."""
    monkeypatch.setenv(fast_dds.TRANSPORTS, "LARGE_DATA")
    watchdog, node = bringup.robot_processes(CONTRACT, namespace="robot_1")
    for process in (watchdog, node):
        assert set(fast_dds.CHOICES).isdisjoint(process.environment)


def test_the_recorder_takes_the_exchange_the_sensors_and_the_commands(tmp_path: Path) -> None:
    recorder = bringup.recorder(tmp_path / "bag", CONTRACT, namespace="/robot_1")
    topics = recorder.parameters["topics"]
    assert "/robot_1/wrist/image_raw:sensor_msgs/msg/Image" in topics
    assert "/policy_server/status:remote_inference/msg/ServerStatus" in topics
    assert recorder.parameters["robot"] == "/robot_1/remote_inference"
    assert "/robot_1/remote_inference/observation:remote_inference/msg/Observation" in topics
    assert "/robot_1/joint_states:sensor_msgs/msg/JointState" in topics
    assert "/robot_1/forward_position_controller/commands:std_msgs/msg/Float64MultiArray" in topics
    assert recorder.parameters["contract"] == str(CONTRACT)


def test_the_recorder_takes_the_status_of_each_server_that_the_robot_may_use(tmp_path: Path) -> None:
    file = tmp_path / "robot.params.yaml"
    file.write_text("/**/remote_inference: {ros__parameters: {servers: [/gpu_1, /gpu_2]}}")

    def servers(**options: object) -> set[str]:
        topics = bringup.recorder(tmp_path / "bag", CONTRACT, namespace="/r", **options).parameters["topics"]
        return {topic.removesuffix("/status:remote_inference/msg/ServerStatus") for topic in topics} - {
            *topics
        }

    assert servers() == {"/policy_server"}
    assert servers(parameter_files=[file]) == {"/gpu_1", "/gpu_2"}
    assert servers(parameter_files=[file], servers=["/gpu_3"]) == {"/gpu_3"}


def test_servers_are_named_with_or_without_their_first_slash(tmp_path: Path) -> None:
    processes = bringup.robot_processes(
        CONTRACT, namespace="/r", servers=["gpu_1", "/gpu_2"], bag=tmp_path / "bag"
    )
    named = {process.name: process for process in processes}
    assert named["remote_inference"].parameters["servers"] == ["/gpu_1", "/gpu_2"]
    status = "status:remote_inference/msg/ServerStatus"
    assert {f"/gpu_1/{status}", f"/gpu_2/{status}"} <= set(named["bag_recorder"].parameters["topics"])


@pytest.mark.parametrize("key", ["bag_recorder", "/**/bag_recorder", "/r/bag_recorder"])
def test_the_robot_s_parameter_file_may_bound_its_recording(tmp_path: Path, key: str) -> None:
    file = tmp_path / "robot.params.yaml"
    other = {"ros__parameters": {"servers": ["/gpu"]}}
    content = {key: {"ros__parameters": {"max_bytes": 10**9}}, "/**": other}
    file.write_text(yaml.safe_dump(content))
    recorder = bringup.recorder(tmp_path / "bag", CONTRACT, namespace="/r", parameter_files=[file])
    assert recorder.parameters["max_bytes"] == 10**9
    assert "servers" not in recorder.parameters
    assert not recorder.parameter_files


def recorded_names(process: bringup.Process) -> list[str]:
    """Return the topics that a recorder is told to record."""
    if process.words:
        return list(process.words[process.words.index("--topics") + 1 :])
    return [entry.partition(":")[0] for entry in process.parameters["topics"]]


def test_ros2_bag_and_bag_recorder_are_told_the_same_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bringup, "has_ros2_bag", lambda: True)
    both = [
        bringup.recorder(
            tmp_path / "bag", CONTRACT, namespace="/robot_1", servers=["/gpu"], recorded_by=program
        )
        for program in ("ros2_bag", "bag_recorder")
    ]
    assert [bool(process.words) for process in both] == [True, False]
    assert recorded_names(both[0]) == recorded_names(both[1])
    assert "/gpu/status" in recorded_names(both[0])
    assert both[0].command()[:5] == ["ros2", "bag", "record", "--output", str(tmp_path / "bag")]
    assert not both[0].required


def test_the_contract_that_ros2_bag_keeps_is_the_one_that_a_bag_is_read_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ROS 2 Jazzy cuts a value of --custom-data at its first '='."""
    monkeypatch.setattr(bringup, "has_ros2_bag", lambda: True)
    contract = tmp_path / "arm.contract.yaml"
    contract.write_text(f"# a = b\n{CONTRACT.read_text()}")
    words = bringup.recorder(tmp_path / "bag", contract, namespace="/r", recorded_by="ros2_bag").words
    pairs = words[words.index("--custom-data") + 1 : words.index("--topics")]
    kept = dict(pair.split("=")[:2] for pair in pairs)
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for key, value in kept.items():
            writer.set_custom_data(key, value)
    with BagReader(tmp_path / "bag") as bag:
        assert bag.contract == contract.read_text()


def test_ros2_bag_records_where_it_is_unless_a_file_asks_for_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "robot.params.yaml"
    file.write_text("bag_recorder: {ros__parameters: {max_bytes: 1000000000}}")
    for installed, chosen in ((True, "ros2_bag"), (False, "bag_recorder")):
        monkeypatch.setattr(bringup, "has_ros2_bag", lambda installed=installed: installed)
        assert bringup.choose_recorder("auto", []) == chosen
        assert bringup.choose_recorder("auto", [file]) == "bag_recorder"
        assert bringup.choose_recorder("bag_recorder", []) == "bag_recorder"
    with pytest.raises(
        bringup.DeploymentError, match="expected the packages ros2bag and rosbag2_storage_mcap"
    ):
        bringup.choose_recorder("ros2_bag", [])
    with pytest.raises(bringup.DeploymentError, match="found ros2_bag, and max_bytes of bag_recorder"):
        bringup.choose_recorder("ros2_bag", [file])
    with pytest.raises(bringup.DeploymentError, match="found 'rosbag', expected one of auto"):
        bringup.choose_recorder("rosbag", [])


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
    assert all(topic.startswith(("/robot_1/", "/policy_server/")) for topic in recorder.parameters["topics"])
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


@pytest.mark.usefixtures("no_transports_chosen")
def test_a_robot_is_watched_by_a_small_process_that_ends_after_it() -> None:
    """What is started first is stopped last."""
    watchdog, node = (
        bringup.with_middleware(process, "rmw_fastrtps_cpp")
        for process in bringup.robot_processes(CONTRACT, namespace="robot_1")
    )
    assert watchdog.required
    assert watchdog.parameters == {"contract": str(CONTRACT)}
    assert watchdog.namespace == node.namespace == "/robot_1"
    assert watchdog.environment["RMW_IMPLEMENTATION"] == "rmw_fastrtps_cpp"
    assert {*bringup.MALLOC_ENVIRONMENT, *fast_dds.PROFILES}.isdisjoint(watchdog.environment)
    assert watchdog.environment[fast_dds.TRANSPORTS] == "UDPv4"


def test_a_bad_contract_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.yaml"):
        bringup.robot_processes(tmp_path / "none.yaml", namespace="/robot_1", bag=tmp_path / "bag")


def test_servers_that_nobody_names_are_left_to_the_parameter_file() -> None:
    command = " ".join(bringup.robot(CONTRACT, namespace="/robot_1").command())
    assert "servers" not in command
