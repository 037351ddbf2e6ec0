# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot says why its topics are silent, and when they no longer are; no news is no line."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy,
    QoSCompatibility,
    QoSProfile,
    ReliabilityPolicy,
    qos_check_compatible,
)
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Bool, Float64MultiArray

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.contract.operator_inputs import StopInput
from remote_inference.base.wire.qos import COMMAND_QOS, SENSOR_QOS, STOP_QOS
from remote_inference.robot.nodes import graph_watch
from remote_inference.robot.nodes.operator import input_qos
from remote_inference.srv import GetStatus
from support.nodes.rig import Rig, write_contract, write_manifest
from support.waiting import wait_until

CAMERA = {"type": "sensor_msgs/msg/Image"}


def reader(tmp_path: Path) -> Callable[[], str]:
    log = tmp_path / "logs" / "remote_inference.log"
    return lambda: log.read_text() if log.exists() else ""


def test_a_sensor_that_never_delivered_is_told_with_its_cause(rig: Rig, tmp_path: Path) -> None:
    """So is a stop input."""
    log = reader(tmp_path)
    images = {name: {"topic": name, **CAMERA} for name in ("nowhere", "mistyped", "mute")}
    stops = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}
    rig.node.create_publisher(JointState, "mistyped", SENSOR_QOS)
    mute = rig.node.create_publisher(Image, "mute", SENSOR_QOS)
    rig.start_robot(write_contract(tmp_path, images=images, rename={}, stops=stops))
    for line in (
        "nowhere: no publisher",
        "mistyped: published as sensor_msgs/msg/JointState, expected sensor_msgs/msg/Image",
        "mute: a publisher is there, but nothing has arrived",
        "stops.button: estop: no publisher, the robot does not resume before it is heard",
    ):
        rig.wait_for(lambda line=line: line in log(), line)
    rig.publish_until(mute, Image(height=1, width=1), lambda: "mute: delivers now" in log(), "news")

    def joints_are_no_news() -> bool:
        about_joints = [line for line in log().splitlines() if "joint_states: " in line]
        return not about_joints or about_joints[-1].endswith("delivers now")  # discovery may take longer

    rig.wait_for(joints_are_no_news, "nothing else silent")


def test_a_paused_robot_says_how_to_begin_and_a_healthy_one_nothing_else(rig: Rig, tmp_path: Path) -> None:
    log = reader(tmp_path)
    rig.start_server(write_manifest(tmp_path))
    rig.call(GetStatus, "/policy_server/get_status")
    # The rig's own process may stand still for a moment, and its sensors with it.
    rig.start_robot(write_contract(tmp_path), autostart=False, max_sensor_age_s=2.0)
    service = "ros2 service call /rig/remote_inference/resume std_srvs/srv/Trigger"
    rig.wait_for(
        lambda: f"paused; to begin: {service}, or remote-inference resume /rig" in log(), "the way on"
    )
    rig.trigger("resume")
    rig.wait_for_commands(5)
    rig.robot.send_signal(signal.SIGINT)
    assert rig.robot.wait(30) == 0
    warnings = [
        line
        for line in log().splitlines()
        if "WARN" in line
        and "[rig.remote_inference]" in line
        and not any(said in line for said in ("(no RTC)", "does not say units"))
    ]
    # Discovery may take longer than the watch's patience; then the end of the silence is told, too.
    late = {line.split(": ")[1] for line in log().splitlines() if "delivers now" in line}
    assert not [line for line in warnings if line.split(": ")[1] not in late]


def test_a_controller_that_takes_another_type_is_told_and_one_that_comes_too(
    rig: Rig, tmp_path: Path
) -> None:
    log = reader(tmp_path)
    sink = {"topic": "unheard", "type": "std_msgs/msg/Float64MultiArray", "names": ["shoulder", "elbow"]}
    wrong = rig.node.create_subscription(JointState, "unheard", print, COMMAND_QOS)
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path, commands=[sink]))
    found = "unheard: subscribed as sensor_msgs/msg/JointState, expected std_msgs/msg/Float64MultiArray"
    rig.wait_for(lambda: found in log(), "the type")
    rig.destroy_subscription(wrong)
    rig.wait_for(lambda: "unheard: no controller subscribes, the arm does not follow" in log(), "nobody")
    rig.node.create_subscription(Float64MultiArray, "unheard", print, COMMAND_QOS)
    rig.wait_for(lambda: "unheard: a controller takes it now" in log(), "a controller")


def test_a_command_that_only_a_recorder_hears_is_told(rig: Rig, tmp_path: Path) -> None:
    log = reader(tmp_path)
    sink = {"topic": "unheard", "type": "std_msgs/msg/Float64MultiArray", "names": ["shoulder", "elbow"]}
    recorder = rig.add_node("rosbag2_recorder")
    recorder.create_subscription(Float64MultiArray, f"{rig.namespace}/unheard", print, COMMAND_QOS)
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path, commands=[sink]))
    told = "unheard: no controller subscribes, found /rosbag2_recorder, the arm does not follow"
    rig.wait_for(lambda: told in log(), "the recorder is no controller")


def test_a_silent_camera_that_the_policy_does_not_use_is_no_news(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(graph_watch, "PATIENCE_S", 0.0)
    watch = graph_watch.TopicWatch(node, load_contract(write_contract(tmp_path)))

    def told(*wanted: str) -> list[str]:
        watch.check_sensors({"joint_states"}, wanted, {})
        return [line.rpartition("]: ")[2] for line in capfd.readouterr().err.splitlines()]

    unused, silent = "camera/image_raw: the policy does not use it", "camera/image_raw: no publisher"
    assert told("joint_states") == []
    assert told("joint_states", "camera/image_raw") == [f"{silent}, requests wait for it"]
    assert told("joint_states") == [unused]
    assert told("joint_states") == []


def test_a_sensor_whose_messages_lack_something_is_told_with_that_and_not_as_silent(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(graph_watch, "PATIENCE_S", 0.0)
    watch = graph_watch.TopicWatch(node, load_contract(write_contract(tmp_path, images={}, rename={})))

    def told(*delivering: str) -> list[str]:
        lacks = {"joint_states": "no message so far has shoulder, found elbow"}
        watch.check_sensors(delivering, ["joint_states"], lacks)
        return [line.rpartition("]: ")[2] for line in capfd.readouterr().err.splitlines()]

    lack = "joint_states: no message so far has shoulder, found elbow; requests wait for it"
    assert told() == [lack]
    assert told() == []
    assert told("joint_states") == ["joint_states: delivers now"]


def test_a_stop_input_that_is_not_heard_is_told_with_its_cause_until_it_is(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(graph_watch, "PATIENCE_S", 0.0)
    consequence = "the robot does not resume before it is heard"
    silent = f"a publisher is there, but nothing has arrived; {consequence}"
    unmatched = silent if mixes_reliabilities() else "published with a QoS that does not match"
    mistyped = "published as sensor_msgs/msg/JointState, expected std_msgs/msg/Bool"
    causes = {"absent": f"no publisher, {consequence}", "mute": silent}
    causes |= {"other_qos": unmatched, "other_type": mistyped}
    node.create_publisher(JointState, "other_type", SENSOR_QOS)
    node.create_publisher(Bool, "other_qos", SENSOR_QOS)
    node.create_publisher(Bool, "mute", STOP_QOS)
    wait_until(lambda: all(map(node.count_publishers, ("other_type", "other_qos", "mute"))), "the graph")
    stops = {name: {"topic": name, "type": "std_msgs/msg/Bool", "stop_when": True} for name in causes}
    watch = graph_watch.TopicWatch(node, load_contract(write_contract(tmp_path, stops=stops)))

    def told(*missing: str) -> list[str]:
        watch.check_inputs({f"stops.{name}": consequence for name in missing})
        return [line.rpartition("]: ")[2] for line in capfd.readouterr().err.splitlines()]

    for line, (name, cause) in zip(told(*causes), causes.items(), strict=True):
        assert line.startswith(f"stops.{name}: {name}: {cause}")
    assert told(*causes) == []
    heard = [name for name in causes if name != "absent"]
    assert told("absent") == [f"stops.{name}: {name}: delivers now" for name in heard]


@pytest.mark.parametrize("durability", [DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL])
@pytest.mark.parametrize("reliability", [ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT])
def test_an_input_is_heard_from_every_publisher_that_the_page_names(
    reliability: ReliabilityPolicy, durability: DurabilityPolicy
) -> None:
    offered = QoSProfile(depth=1, reliability=reliability, durability=durability)
    heard = {
        source.by_value: qos_check_compatible(offered, input_qos(source))[0] != QoSCompatibility.ERROR
        for source in (
            StopInput(topic="estop", type="std_msgs/msg/Bool", stop_when=True),
            StopInput(topic="beat", type="std_msgs/msg/Empty", stop_when="silent", silent_s=0.5),
        )
    }
    assert heard == {False: True, True: reliability is ReliabilityPolicy.RELIABLE or mixes_reliabilities()}


def mixes_reliabilities() -> bool:
    """Return whether RELIABLE subscriptions hear BEST_EFFORT publishers, as on rmw_zenoh but not on DDS."""
    offered = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    wanted = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE)
    return bool(qos_check_compatible(offered, wanted)[0] != QoSCompatibility.ERROR)
