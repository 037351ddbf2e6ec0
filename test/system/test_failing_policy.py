# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that no longer answers: the server's status, and its reply to robots that ask for a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState

from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.msg import ActionChunk, ServerStatus
from remote_inference.srv import GetStatus, OpenSession
from support.nodes.faulty_server import PolicyFault
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.health_port import answers
from support.nodes.rig import DEADLINE_S, RETRY_S, Rig, write_contract, write_manifest


def is_accepting(rig: Rig) -> bool:
    return rig.call(GetStatus, f"{SERVER}/get_status").status.accepting


def open_session(rig: Rig) -> OpenSession.Response:
    return rig.open_session(SERVER, client="/newcomer/remote_inference", robot_namespace="/newcomer")


def test_a_policy_that_fails_sends_its_robots_away_and_admits_them_again_when_it_answers(
    rig: Rig, tmp_path: Path, port: int
) -> None:
    fault = PolicyFault(tmp_path)
    manifest = write_manifest(tmp_path, health_port=port, max_consecutive_failures=2)
    rig.server = rig.group.start(fault.server(manifest))
    robot = FleetRobot(rig, "/robot_1")
    fault.begin("nan")
    assert robot.request().status == ActionChunk.ERROR
    rig.wait_for(lambda: robot.request().status == ActionChunk.DRAINING, "told to leave")
    assert robot.chunks[-1].horizon == 0
    rig.wait_for(answers(port, "/readyz", 503, "the server's probe"), "not ready")
    assert answers(port, "/healthz", 200)()
    assert not is_accepting(rig)
    assert open_session(rig).rejection == "failing"
    fault.end()
    rig.wait_for(lambda: is_accepting(rig), "accepting again, without a request")
    assert open_session(rig).accepted
    assert robot.request().status == ActionChunk.OK


@pytest.mark.parametrize("autostart", [True, False], ids=["at its start", "when it is told to"])
def test_a_server_that_loads_its_policy_says_so_in_its_status_and_to_whoever_asks(
    rig: Rig, tmp_path: Path, autostart: bool
) -> None:
    """Loading takes minutes, and the executor answers nothing else meanwhile."""
    fault = PolicyFault(tmp_path)
    fault.begin("hang")  # in the first inference of the warm-up
    statuses: list[ServerStatus] = []
    rig.server = rig.group.start(fault.server(write_manifest(tmp_path), autostart=autostart))
    if not autostart:
        told = rig.node.create_client(ChangeState, f"{SERVER}/change_state")
        assert told.wait_for_service(DEADLINE_S)
        configure = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))
        rig.send_until(lambda: told.call_async(configure), fault.is_hanging, "loading")
    rig.wait_for(fault.is_hanging, "loading")
    rig.subscribe(ServerStatus, f"{SERVER}/status", statuses.append, LATCHED_QOS)  # too late to hear it said
    rig.wait_for(lambda: statuses, "the status")
    assert (statuses[-1].lifecycle_state, statuses[-1].accepting) == ("loading", False)
    asked = rig.node.create_client(GetStatus, f"{SERVER}/get_status")
    for _ in range(3):
        status = rig._ask(asked, GetStatus.Request(), RETRY_S).status
        assert (status.lifecycle_state, status.accepting) == ("loading", False)
    fault.end()
    rig.wait_for(lambda: statuses[-1].lifecycle_state == ("active" if autostart else "inactive"), "loaded")
    assert statuses[-1].accepting == autostart
    status = rig.call(GetStatus, f"{SERVER}/get_status").status
    assert (status.lifecycle_state, status.policy_name) == (statuses[-1].lifecycle_state, "hold")


def test_the_log_names_the_line_of_a_policy_that_raises_and_its_robots_get_the_reason(
    rig: Rig, tmp_path: Path
) -> None:
    fault = PolicyFault(tmp_path)
    rig.server = rig.group.start(fault.server(write_manifest(tmp_path)))
    robot = FleetRobot(rig, "/robot_1")
    fault.begin("mistake")
    assert robot.request().message == "inference failed: TypeError: unsupported operand"
    log = tmp_path / "logs" / "policy_server.log"
    place = re.compile(
        r"the policy raised TypeError: unsupported operand \(faulty_server\.py:\d+, in faulty\)"
    )
    rig.wait_for(lambda: place.search(log.read_text()), "the place in the log")
    assert "Traceback" not in log.read_text()


def test_a_lost_device_asks_for_a_restart(rig: Rig, tmp_path: Path, port: int) -> None:
    fault = PolicyFault(tmp_path)
    manifest = write_manifest(tmp_path, health_port=port, max_consecutive_failures=1)
    rig.server = rig.group.start(fault.server(manifest))
    robot = FleetRobot(rig, "/robot_1")
    fault.begin("device lost")
    assert "CUDA error" in robot.request().message
    rig.wait_for(answers(port, "/healthz", 503, "the device is lost"), "unhealthy")


def test_an_inference_that_hangs_turns_robots_away_and_then_asks_for_a_restart(
    rig: Rig, tmp_path: Path, port: int
) -> None:
    fault = PolicyFault(tmp_path)
    manifest = write_manifest(tmp_path, health_port=port, inference_timeout_s=4.0)
    rig.server = rig.group.start(fault.server(manifest))
    robot = FleetRobot(rig, "/robot_1")
    assert robot.request().status == ActionChunk.OK
    fault.begin("hang")
    rig.send_until(robot.send, answers(port, "/readyz", 503, "an inference has not ended for"), "not ready")
    assert answers(port, "/healthz", 200)()
    assert not is_accepting(rig)
    refused = open_session(rig)
    assert (refused.accepted, refused.rejection) == (False, "failing")
    assert "an inference has not ended for" in refused.message
    rig.wait_for(answers(port, "/healthz", 503, "an inference has not ended for"), "unhealthy")
    fault.end()
    rig.wait_for(answers(port, "/readyz", 200), "ready again")
    assert is_accepting(rig)
    assert robot.request().status == ActionChunk.OK


def test_a_robot_outlasts_a_server_that_loads_longer_than_it_may_be_offline(rig: Rig, tmp_path: Path) -> None:
    def change(transition: int) -> None:
        changed = rig.call(ChangeState, f"{SERVER}/change_state", transition=Transition(id=transition))
        assert changed.success

    fault = PolicyFault(tmp_path)
    rig.server = rig.group.start(fault.server(write_manifest(tmp_path), autostart=True))
    rig.start_robot(write_contract(tmp_path), max_offline_s=5.0)
    rig.wait_for_state("STREAMING")
    change(Transition.TRANSITION_DEACTIVATE)
    change(Transition.TRANSITION_CLEANUP)
    fault.begin("hang")  # in the first inference of the warm-up
    told = rig.node.create_client(ChangeState, f"{SERVER}/change_state")
    assert told.wait_for_service(DEADLINE_S)
    configure = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))
    rig.send_until(lambda: told.call_async(configure), fault.is_hanging, "loading")
    waits = f"; waits for {SERVER} to load the policy"
    rig.wait_for(lambda: rig.states[-1].cause.endswith(waits), "the robot waits")
    count = len(rig.states)
    rig.wait_for(lambda: len(rig.states) > count + 12, "states of more than max_offline_s")
    assert rig.states[-1].state_name == "RECONNECTING"
    assert rig.robot.poll() is None
    fault.end()
    change(Transition.TRANSITION_ACTIVATE)
    rig.wait_for_state("STREAMING", after=len(rig.states))
