# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Sessions end on a real server when robots vanish or fall silent, and hundreds leave nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remote_inference.base.wire.qos import CHUNK_TOPIC, EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import Observation, ServerStatus
from support.nodes.bare_endpoints import growth_of_bare_endpoints, resident_bytes
from support.nodes.fleet import FleetRobot, close_session
from support.nodes.rig import DEEP_LATCHED_QOS, Rig, write_contract, write_manifest

SERVER = "/policy_server"
WARM_UP, CYCLES = 100, 300
MIB = 1024 * 1024
SLACK = 4  # threads or files that a middleware opens and closes as it likes; a leak is one per session


@pytest.fixture
def statuses(rig: Rig) -> list[ServerStatus]:
    received: list[ServerStatus] = []
    rig.subscribe(ServerStatus, f"{SERVER}/status", received.append, DEEP_LATCHED_QOS)
    return received


def has_sessions(statuses: list[ServerStatus], count: int) -> Any:
    return lambda: bool(statuses) and len(statuses[-1].sessions) == count


def test_a_killed_robot_s_session_ends_after_the_grace_period(
    rig: Rig, statuses: list[ServerStatus], tmp_path: Path
) -> None:
    rig.start_server(write_manifest(tmp_path, session_grace_s=1.0))
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for(has_sessions(statuses, 1), "a session")
    rig.wait_for_commands(10)
    rig.robot.kill()
    rig.wait_for(has_sessions(statuses, 0), "the session's end")
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert "its robot has been gone for" in log


def test_a_robot_that_sends_requests_keeps_its_session(
    rig: Rig, statuses: list[ServerStatus], tmp_path: Path
) -> None:
    rig.start_server(write_manifest(tmp_path, session_grace_s=0.5, session_idle_timeout_s=3.0))
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for_state("STREAMING")  # the first request may be lost while endpoints match
    rig.wait_for(has_sessions(statuses, 1), "a session")
    seen = len(statuses)
    rig.wait_for(lambda: len(statuses) >= seen + 5, "five more statuses")
    assert {tuple(status.sessions) for status in statuses[seen:]} == {tuple(statuses[-1].sessions)}
    assert len(statuses[-1].sessions) == 1


def test_a_robot_that_sends_no_requests_loses_its_session(
    rig: Rig, statuses: list[ServerStatus], tmp_path: Path
) -> None:
    rig.start_server(write_manifest(tmp_path, session_idle_timeout_s=1.0))
    rig.node.create_publisher(Observation, OBSERVATION_TOPIC, EXCHANGE_QOS)
    assert rig.open_session(SERVER, client=rig.node.get_fully_qualified_name()).accepted
    rig.wait_for(lambda: any(status.sessions for status in statuses), "a session")
    rig.wait_for(has_sessions(statuses, 0), "the session's end")
    assert "no request for" in (tmp_path / "logs" / "policy_server.log").read_text()


def test_a_robot_that_asks_another_server_loses_its_session_here(
    rig: Rig, statuses: list[ServerStatus], tmp_path: Path
) -> None:
    """Its close may be lost; it is still in the graph, and its requests arrive here, too."""
    rig.start_server(write_manifest(tmp_path, max_sessions=2, session_grace_s=60.0))
    mover, stayer = (FleetRobot(rig, namespace, period_s=0.05) for namespace in ("/mover", "/stayer"))
    rig.wait_for(lambda: mover.chunks and stayer.chunks, "both served")
    mover.fields["session_id"] = "another server's"
    rig.wait_for(lambda: statuses[-1].sessions == [stayer.session.session_id], "the session's end")
    seen = len(stayer.chunks)
    rig.wait_for(lambda: len(stayer.chunks) >= seen + 10, "the other robot served")
    assert {chunk.session_id for chunk in mover.chunks} == {mover.session.session_id}
    assert "its robot has named another session in" in (tmp_path / "logs" / "policy_server.log").read_text()


def footprint(pid: int) -> tuple[int, int, int]:
    """Return threads, open files and resident memory [bytes] of a process."""
    folder = Path(f"/proc/{pid}")
    threads, files = len(list((folder / "task").iterdir())), len(list((folder / "fd").iterdir()))
    return threads, files, resident_bytes(pid)


def open_and_close(rig: Rig, cycles: int) -> None:
    """Open and close sessions of one robot, one after the other."""
    for _ in range(cycles):
        opened = rig.open_session(SERVER, client=rig.node.get_fully_qualified_name())
        assert opened.accepted, opened.message
        assert close_session(rig, opened)


def test_hundreds_of_sessions_leave_nothing_behind(
    rig: Rig, statuses: list[ServerStatus], tmp_path: Path
) -> None:
    """Beyond what the middleware itself keeps: rmw_zenoh 0.2 keeps 7.5 KB of each pair of endpoints."""
    rig.start_server(write_manifest(tmp_path))
    open_and_close(rig, WARM_UP)
    threads, files, resident = footprint(rig.server.pid)
    open_and_close(rig, CYCLES)
    after_threads, after_files, after_resident = footprint(rig.server.pid)
    assert after_threads <= threads + SLACK
    assert after_files <= files + SLACK
    bare = growth_of_bare_endpoints(rig.namespace, WARM_UP, CYCLES)
    assert after_resident - resident - max(0, bare) < 2 * MIB, f"bare endpoints: {bare} bytes"
    rig.wait_for(has_sessions(statuses, 0), "no session")
    chunk_topic = f"{rig.namespace}/{CHUNK_TOPIC}"
    rig.wait_for(lambda: rig.node.count_publishers(chunk_topic) == 0, "no publisher of chunks")
