# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The doctor before real nodes: nothing while all is well, and the cause when something is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.wire.qos import COMMAND_QOS, JOINTS_QOS
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.nodes.rig import CONTRACT, DEADLINE_S, Rig, write_contract, write_manifest

MACHINE = "middleware"  # the finding about it depends on what is installed
BAD, ALL = "warning error", "ok warning error"
TRIES = 4  # a busy machine may starve a sensor or a robot for the seconds of one look
ORDERS = {"topic": "orders", "type": "std_msgs/msg/Float64MultiArray", "names": ["elbow", "shoulder"]}

CDR_LITTLE_ENDIAN = b"\x00\x01\x00\x00"
ALONE_S = 5.0  # for a robot without a server: the whole time is looked for one
Report = tuple[int, dict[str, tuple[str, str]]]
Examine = Callable[..., Report]


@pytest.fixture
def other_rig(tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "other"
    folder.mkdir()
    made = Rig(folder, "/other")
    yield made
    made.close()


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Examine:
    """Return the doctor's exit code, and level and found by subject of what is not well with a robot.

    with_contract: it is told the rig's, and the namespace of a robot, the rig's without another. levels: of
    the findings that are returned.
    """

    def examine(
        rig: Rig,
        *,
        with_contract: bool = True,
        namespace: str = "",
        levels: str = BAD,
        timeout_s: float = 30.0,
    ) -> Report:
        capsys.readouterr()
        arguments = ["doctor", "--json", "--timeout", str(timeout_s)]
        if with_contract:
            name = namespace or rig.namespace.strip("/")
            arguments += ["--contract", str(rig.folder / "contract.yaml"), "--namespace", name]
        code = cli.main(arguments)
        findings = json.loads(capsys.readouterr().out)["findings"]
        told = [one for one in findings if one["level"] in levels and one["subject"] != MACHINE]
        return code, {one["subject"]: (one["level"], one["found"]) for one in told}

    return examine


def start_watched_and_recorded(rig: Rig) -> Any:
    """Start a robot as the verb with `--record` does, and a controller, which is returned."""
    contract = write_contract(rig.folder, commands=[ORDERS], fps=10.0)  # the rig's sensors have 30 Hz
    controller = rig.node.create_subscription(Float64MultiArray, "orders", lambda _: None, COMMAND_QOS)
    patient = rig.folder / "patient.yaml"  # a stall of the machine is no finding of this test
    patient.write_text("/**: {ros__parameters: {watchdog_timeout_s: 2.0}}\n")
    for process in bringup.robot_processes(
        contract, namespace=rig.namespace, bag=rig.folder / "bag", parameter_files=[patient]
    ):
        rig.group.start(process)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "a session")
    rig.trigger("resume")
    rig.wait_for_state("STREAMING")
    return controller


def assert_healthy(examine: Examine, rig: Rig, **arguments: Any) -> None:
    for _ in range(TRIES):
        code, found = examine(rig, **arguments)
        if not found:
            break
    assert (code, found) == (0, {})


def test_two_recorded_robots_of_one_server_are_healthy_with_latency(
    rig: Rig, other_rig: Rig, tmp_path: Path, examine: Examine
) -> None:
    """The server is full with their two sessions."""
    rig.start_server(write_manifest(tmp_path, max_sessions=2, inject_latency_ms=300.0))
    for robot in (rig, other_rig):
        start_watched_and_recorded(robot)
    assert_healthy(examine, rig)
    assert_healthy(examine, rig, with_contract=False)


def test_a_recorded_robot_is_healthy_until_its_controller_is_gone(
    rig: Rig, tmp_path: Path, examine: Examine
) -> None:
    """The recorder stays, and subscribes to the command as well."""
    rig.start_server(write_manifest(tmp_path, max_sessions=1))
    controller = start_watched_and_recorded(rig)
    log = tmp_path / "logs" / "remote_inference.log"
    assert_healthy(examine, rig)

    rig.destroy_subscription(controller)
    unheard = "orders: no controller subscribes, found /rig/bag_recorder, the arm does not follow"
    rig.wait_for(lambda: unheard in log.read_text(), "the node's warning")
    gone = ("error", "received by /rig/bag_recorder alone")
    code, found = examine(rig)
    assert (code, found["command /rig/orders"]) == (1, gone)
    code, found = examine(rig, with_contract=False)
    assert (code, found["command /rig/orders"]) == (1, gone), "the node's own publishers tell the topic"

    rig.node.create_subscription(Float64MultiArray, "orders", lambda _: None, COMMAND_QOS)
    rig.wait_for(lambda: "orders: a controller takes it now" in log.read_text(), "the controller")
    rig.add_node("teleop").create_publisher(Float64MultiArray, f"{rig.namespace}/orders", COMMAND_QOS)
    for with_contract in (True, False):
        code, found = examine(rig, with_contract=with_contract)
        assert (code, found["command /rig/orders"]) == (1, ("error", "published by /teleop, too"))


@pytest.fixture
def name_joints(rig: Rig) -> Iterator[Callable[[list[str]], None]]:
    """Start a controller, which answers meanwhile; return what sets its parameter `joints`."""
    context = Context()
    context.init()
    node = Node("joint_group_controller", context=context, namespace=rig.namespace)
    node.create_subscription(Float64MultiArray, "orders", lambda _: None, COMMAND_QOS)
    node.declare_parameter("joints", ORDERS["names"])
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    thread = Thread(target=executor.spin)
    thread.start()

    def name(joints: list[str]) -> None:
        assert node.set_parameters([Parameter("joints", value=joints)])[0].successful

    yield name
    executor.shutdown(DEADLINE_S)
    thread.join(DEADLINE_S)
    node.destroy_node()
    context.shutdown()


def test_a_controller_with_its_joints_in_another_order_is_an_error(
    rig: Rig, tmp_path: Path, examine: Examine, name_joints: Callable[[list[str]], None]
) -> None:
    rig.start_robot(write_contract(tmp_path, commands=[ORDERS]))
    rig.wait_for(lambda: rig.states, "the robot's node")
    subject = f"controller {rig.namespace}/joint_group_controller"
    _, found = examine(rig, levels=ALL, timeout_s=ALONE_S)
    assert found[subject] == ("ok", "takes elbow, shoulder")
    name_joints(["shoulder", "elbow"])
    code, found = examine(rig, timeout_s=ALONE_S)
    assert (code, found[subject]) == (1, ("error", "takes shoulder, elbow"))


def test_what_the_contract_alone_tells_is_said_to_be_left_out(
    rig: Rig, tmp_path: Path, examine: Examine, told_before_end: list[str]
) -> None:
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for(lambda: rig.states, "the robot's node")
    _, found = examine(rig, with_contract=False, levels=ALL, timeout_s=ALONE_S)
    assert json.loads(told_before_end[-1])["findings"]
    level, left_out = found["not examined without --contract"]
    assert level == "ok"
    assert left_out.startswith("types, rates, joints and stamps of sensors")
    assert found["command /rig/commands"] == ("ok", "received by /rig/rig")


def test_a_joint_that_no_message_has_is_named_by_the_doctor_and_by_the_node(
    rig: Rig, tmp_path: Path, examine: Examine
) -> None:
    joints = {**CONTRACT["state"][0], "names": ["shoulder", "elbow", "wrist"]}
    rig.start_robot(write_contract(tmp_path, state=[joints]))
    log = tmp_path / "logs" / "remote_inference.log"
    told = "joint_states: no message so far has wrist, found elbow, gripper, shoulder; requests wait for it"
    rig.wait_for(lambda: told in log.read_text(), "the node's warning")
    assert "joint_states: a publisher is there, but nothing has arrived" not in log.read_text()

    code, found = examine(rig, timeout_s=ALONE_S)
    missing = "no message from /rig/rig has wrist, they have elbow, gripper, shoulder"
    assert (code, found["sensor /rig/joint_states"]) == (1, ("error", missing))
    code, found = examine(rig, with_contract=False, timeout_s=ALONE_S)
    level, stale = found["sensor /rig/joint_states"]
    assert (code, level) == (1, "error")
    assert stale.endswith("as sensor_msgs/msg/JointState with the joints elbow, gripper, shoulder")


def test_messages_of_another_definition_are_an_error(rig: Rig, tmp_path: Path, examine: Examine) -> None:
    write_contract(tmp_path)
    driver = rig.add_node("old_driver")
    publisher = driver.create_publisher(JointState, f"{rig.namespace}/joint_states", JOINTS_QOS)
    no_joints = CDR_LITTLE_ENDIAN + b"\xff" * 8  # a text of 4 GB
    driver.create_timer(0.02, lambda: publisher.publish(no_joints))
    code, found = examine(rig, timeout_s=ALONE_S)
    unreadable = "messages that cannot be read from /old_driver, /rig/rig"
    assert (code, found["sensor /rig/joint_states"]) == (1, ("error", unreadable))


def test_a_robot_that_is_not_there_is_an_error_beside_one_that_is(
    rig: Rig, tmp_path: Path, examine: Examine
) -> None:
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for(lambda: rig.states, "the robot's node")
    code, found = examine(rig, namespace="dead", timeout_s=ALONE_S)
    assert code == 1
    assert found["robot /dead"] == ("error", "no node /dead/remote_inference, found /rig")


def test_clocks_that_differ_are_named(rig: Rig, tmp_path: Path, examine: Examine) -> None:
    rig.clock_offset_s = -3600.0
    rig.start_robot(write_contract(tmp_path, fps=10.0), use_sim_time=True)
    rig.wait_for(lambda: rig.states, "the robot's node")
    _, found = examine(rig, timeout_s=ALONE_S)
    level, simulated = found["simulated time"]
    assert level == "warning"
    assert simulated.startswith("use_sim_time of /rig/remote_inference, and nobody publishes /clock")
    off = ("warning", "stamps are 3600 s behind this machine's clock")
    assert (found["sensor /rig/joint_states"], found["sensor /rig/camera/image_raw"]) == (off, off)


def test_a_camera_is_judged_by_the_limit_of_the_running_node(
    rig: Rig, tmp_path: Path, examine: Examine
) -> None:
    rig.start_robot(write_contract(tmp_path, fps=10.0), max_sensor_age_s=0.02)
    rig.wait_for(lambda: rig.states, "the robot's node")
    _, found = examine(rig, timeout_s=ALONE_S)
    level, rate = found["sensor /rig/camera/image_raw"]
    assert level == "error"
    assert rate.endswith(" Hz from /rig/rig")
