# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The doctor before real nodes: nothing while all is well, and the cause when a controller is gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from std_msgs.msg import Float64MultiArray

from remote_inference import cli
from remote_inference.deployment import bringup
from remote_inference.wire.qos import COMMAND_QOS
from support.nodes.rig import Rig, write_contract, write_manifest

MACHINE = "middleware"  # the finding about it depends on what is installed
TRIES = 4  # a busy machine may starve a sensor or a robot for the seconds of one look
ORDERS = {"topic": "orders", "type": "std_msgs/msg/Float64MultiArray", "names": ["elbow", "shoulder"]}

Examine = Callable[[Rig], tuple[int, dict[str, tuple[str, str]]]]


@pytest.fixture
def other_rig(tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "other"
    folder.mkdir()
    made = Rig(folder, "/other")
    yield made
    made.close()


@pytest.fixture
def examine(capsys: pytest.CaptureFixture[str]) -> Examine:
    """Return the doctor's exit code, and level and found by subject of what is not well with a robot."""

    def examine(rig: Rig) -> tuple[int, dict[str, tuple[str, str]]]:
        capsys.readouterr()
        arguments = ["--contract", str(rig.folder / "contract.yaml"), "--namespace", rig.namespace.strip("/")]
        code = cli.main(["doctor", *arguments, "--json", "--timeout", "30"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        told = [one for one in findings if one["level"] != "ok" and one["subject"] != MACHINE]
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


def assert_healthy(examine: Examine, rig: Rig) -> None:
    for _ in range(TRIES):
        code, found = examine(rig)
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
    code, found = examine(rig)
    assert code == 1
    assert found["command /rig/orders"] == ("error", "heard by /rig/bag_recorder alone")

    rig.node.create_subscription(Float64MultiArray, "orders", lambda _: None, COMMAND_QOS)
    rig.wait_for(lambda: "orders: a controller subscribes now" in log.read_text(), "the controller")
    rig.add_node("teleop").create_publisher(Float64MultiArray, f"{rig.namespace}/orders", COMMAND_QOS)
    code, found = examine(rig)
    assert code == 0
    assert found["command /rig/orders"] == ("warning", "published by /teleop, too")
