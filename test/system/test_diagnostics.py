# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""/diagnostics: the level of each state of both nodes, and that the nodes publish it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus

from remote_inference.base.wire.qos import DIAGNOSTICS_QOS, DIAGNOSTICS_TOPIC
from remote_inference.msg import ClientState
from remote_inference.robot.nodes.telemetry import robot_diagnostic
from remote_inference.server.monitoring.snapshot import ServerSnapshot, SessionView
from remote_inference.server.nodes.operations import server_diagnostic
from support.nodes.rig import Rig, write_contract, write_manifest

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR
ROBOT, SERVER = "rig/remote_inference: policy control", "policy_server: policy serving"


@pytest.mark.parametrize(
    ("state", "changes", "level", "words"),
    [
        ("CONNECTING", {}, WARN, "CONNECTING: started"),
        ("STREAMING", {}, OK, "STREAMING: started"),
        ("STREAMING", {"stale_sources": ["camera"]}, WARN, "waits for camera"),
        ("STREAMING", {"apart": "a and b are 0.1 s apart"}, WARN, "no set fits: a and b are 0.1 s apart"),
        ("DEGRADED", {}, WARN, "DEGRADED"),
        ("STALLED", {}, ERROR, "STALLED"),
        ("STALLED", {"stale_sources": ["camera"]}, ERROR, "waits for camera"),
        ("RECONNECTING", {"queue_length": 4}, WARN, "RECONNECTING"),
        ("RECONNECTING", {}, ERROR, "RECONNECTING"),
        ("DEAD", {}, ERROR, "DEAD"),
        ("STREAMING", {"paused": True}, WARN, "paused; STREAMING"),
        ("STALLED", {"paused": True}, WARN, "paused; STALLED"),
        ("DEAD", {"paused": True}, ERROR, "DEAD"),
        ("STREAMING", {"stop": "button: estop says true", "paused": True}, ERROR, "stopped by button: estop"),
        ("STREAMING", {"taken_over": True}, WARN, "taken over by a person; STREAMING"),
        ("STREAMING", {"injected_fault": "freeze"}, WARN, "injected fault (freeze); STREAMING"),
        ("STREAMING", {"shadow": True}, OK, "shadow mode; STREAMING"),
    ],
)
def test_a_robot_is_judged_by_its_safety_state(state: str, changes: dict, level: bytes, words: str) -> None:
    message = ClientState(state=getattr(ClientState, state), state_name=state, cause="started", **changes)
    status = robot_diagnostic(message, "/rig")
    assert (status.level, status.hardware_id) == (level, "/rig")
    assert words in status.message


def test_a_robot_shows_its_cause_latency_guard_and_late_ticks() -> None:
    message = ClientState(
        state=ClientState.STREAMING,
        latency_p50_ms=float("nan"),
        latency_p95_ms=12.34,
        guard_names=["age", "velocity_limit"],
        guard_counts=[0, 7],
        late_ticks=3,
        shadow_names=["elbow"],
        shadow_error_mean=[0.125],
        shadow_error_max=[0.5],
        stale_sources=["a", "b"],
    )
    values = {value.key: value.value for value in robot_diagnostic(message, "/rig").values}
    assert (values["latency_p50_ms"], values["latency_p95_ms"], values["late_ticks"]) == ("", "12.3", "3")
    assert values["shadow_error_elbow"] == "mean 0.1250, max 0.5000"
    assert (values["guard_age"], values["guard_velocity_limit"]) == ("0", "7")
    assert values["stale_sources"] == "a, b"


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({}, OK, "serving"),
        ({"accepting": False, "lifecycle_state": "inactive"}, WARN, "inactive"),
        ({"load": 0.85}, WARN, "load"),
        ({"audit_lines_dropped": 1}, WARN, "request log"),
        ({"accepting": False, "policy_unready": "not ended for 16 s"}, ERROR, "not ended for 16 s"),
        ({"captures_dropped": 1}, WARN, "captures"),
        ({"worker_alive": False, "accepting": False}, ERROR, "inference thread"),
        ({"sessions": tuple(SessionView(s, s, s, s) for s in ("failing", "serving"))}, WARN, "1 of 2"),
    ],
)
def test_a_server_is_judged_by_what_robots_get_from_it(changes: dict, level: bytes, words: str) -> None:
    fields: dict[str, Any] = {"lifecycle_state": "active", "made_s": 0.0, "accepting": True, **changes}
    status = server_diagnostic(ServerSnapshot("/policy_server", "abc", **fields))
    assert status.level == level
    assert words in status.message
    assert {value.key for value in status.values} >= {"load", "sessions", "errors", "inference_ms"}


class Listener:
    """The statuses of both nodes as they arrive."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.arrays: list[DiagnosticArray] = []
        rig.subscribe(DiagnosticArray, DIAGNOSTICS_TOPIC, self.arrays.append, DIAGNOSTICS_QOS)

    def wait_for(self, name: str, level: bytes, words: str) -> DiagnosticStatus:
        """Wait for a new status and return it."""
        begin = len(self.arrays)

        def found() -> list[DiagnosticStatus]:
            statuses = [status for array in self.arrays[begin:] for status in array.status]
            return [s for s in statuses if (s.name, s.level) == (name, level) and words in s.message]

        self._rig.wait_for(found, f"{name} {words}")
        return found()[0]


def test_both_nodes_publish_their_status_and_its_changes(rig: Rig, tmp_path: Path) -> None:
    listener = Listener(rig)
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), merge_mode="replace")
    status = listener.wait_for(ROBOT, OK, "STREAMING")
    assert status.hardware_id == "/rig"
    listener.wait_for(SERVER, OK, "serving")
    assert rig.trigger("pause").success
    listener.wait_for(ROBOT, WARN, "paused")
    assert rig.trigger("resume").success
    listener.wait_for(ROBOT, OK, "STREAMING")
    stamps = [array.header.stamp for array in listener.arrays]
    assert all(stamp.sec for stamp in stamps)
    rig.server.send_signal(signal.SIGKILL)
    rig.server.wait(10)
    listener.wait_for(ROBOT, ERROR, "RECONNECTING")
