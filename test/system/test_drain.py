# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that is told to end answers what waits and runs, refuses newcomers, and ends in bounded time."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from remote_inference.msg import ActionChunk
from remote_inference.server.captures import captures
from remote_inference.server.nodes import policy_server, serving
from remote_inference.server.requests import request_log
from remote_inference.srv import GetStatus
from remote_inference.tools.deployment.process_group import STOP_TIMEOUT_S
from support.nodes.faulty_server import PolicyFault
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.rig import DEADLINE_S, Rig, write_manifest

ROBOTS = 6


@pytest.fixture
def fault(tmp_path: Path) -> PolicyFault:
    return PolicyFault(tmp_path)


def start_with_robots(rig: Rig, fault: PolicyFault, robots: int, **manifest: object) -> list[FleetRobot]:
    """Start a server whose policy hangs as soon as every robot has its session."""
    rig.server = rig.group.start(
        fault.server(write_manifest(rig.folder, max_sessions=ROBOTS + 1, **manifest))
    )
    made = [FleetRobot(rig, f"/robot_{number}") for number in range(robots)]
    for robot in made:
        robot.request()
        robot.chunks.clear()
    fault.begin("hang")
    return made


def hang(rig: Rig, fault: PolicyFault, robots: list[FleetRobot]) -> None:
    """Send every robot's request: the first one hangs in the policy, and the others wait."""
    for robot in robots:
        robot.send()
    rig.wait_for(fault.is_hanging, "the first inference")


def log_of(rig: Rig) -> str:
    return (rig.folder / "logs" / "policy_server.log").read_text()


def end(rig: Rig, number: signal.Signals = signal.SIGTERM) -> None:
    """Tell the server to end; return when it drains."""
    rig.server.send_signal(number)
    rig.wait_for(lambda: "draining" in log_of(rig), "the drain")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_that_wait_at_the_signal_are_answered_draining(
    rig: Rig, fault: PolicyFault, number: signal.Signals
) -> None:
    robots = start_with_robots(rig, fault, ROBOTS)
    hang(rig, fault, robots)
    end(rig, number)
    fault.end()
    assert rig.server.wait(DEADLINE_S) == 0
    rig.wait_for(lambda: all(robot.chunks for robot in robots), "every robot's answer")
    statuses = [robot.chunks[0].status for robot in robots]
    assert statuses == [ActionChunk.DRAINING] * ROBOTS
    assert all(robot.chunks[0].horizon == 20 for robot in robots)  # valid rows


def test_a_chunk_on_a_delayed_path_is_sent_before_the_end(rig: Rig, fault: PolicyFault) -> None:
    (robot,) = start_with_robots(rig, fault, 1, inject_latency_ms=1_000.0)
    hang(rig, fault, [robot])
    end(rig)
    fault.end()
    assert rig.server.wait(DEADLINE_S) == 0
    rig.wait_for(lambda: robot.chunks, "the delayed chunk")


def test_a_server_that_drains_admits_nobody(rig: Rig, fault: PolicyFault) -> None:
    (robot,) = start_with_robots(rig, fault, 1)
    hang(rig, fault, [robot])
    end(rig)
    refused = rig.open_session(SERVER, robot_namespace="/newcomer")
    assert (refused.accepted, refused.rejection) == (False, "draining")
    fault.end()
    assert rig.server.wait(DEADLINE_S) == 0


def test_an_inference_that_never_ends_does_not_keep_the_server_from_ending(
    rig: Rig, fault: PolicyFault
) -> None:
    (robot,) = start_with_robots(rig, fault, 1)
    hang(rig, fault, [robot])
    end(rig)
    assert rig.server.wait(STOP_TIMEOUT_S) == 0
    assert "gave up after" in log_of(rig)


def test_a_server_without_robots_ends_at_once(rig: Rig, fault: PolicyFault) -> None:
    rig.server = rig.group.start(fault.server(write_manifest(rig.folder)))
    rig.call(GetStatus, f"{SERVER}/get_status")
    rig.server.send_signal(signal.SIGTERM)
    assert rig.server.wait(DEADLINE_S) == 0
    assert "draining" not in log_of(rig)


def test_all_that_ending_may_take_fits_into_the_time_before_the_kill() -> None:
    """STOP_TIMEOUT_S is what our own starter grants; the units and manifests grant more."""
    longest_s = (
        policy_server.DRAIN_TIMEOUT_S
        + serving.JOIN_TIMEOUT_S
        + serving.SEND_TIMEOUT_S
        + captures.CLOSE_TIMEOUT_S
        + request_log.CLOSE_TIMEOUT_S
    )
    assert longest_s < STOP_TIMEOUT_S
