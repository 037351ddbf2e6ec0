# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's process as operators watch it: probes through the lifecycle, metrics and audit lines."""

from __future__ import annotations

import json
import math
import shutil
import socket
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from prometheus_client.parser import text_string_to_metric_families
from rclpy.impl.logging_severity import LoggingSeverity

from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.msg import ActionChunk, ServerStatus
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.nodes.operations import Operations
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.requests.request_log import DESCRIPTIONS, RequestRecord
from remote_inference.server.sessions import SessionRegistry
from support.nodes.fleet import SERVER, FleetRobot
from support.nodes.health_port import answers, ask
from support.nodes.rig import Rig, write_manifest


def change_state(rig: Rig, transition: int) -> bool:
    request = Transition(id=transition)
    return rig.call(ChangeState, f"{SERVER}/change_state", transition=request).success


def samples(port: int) -> dict[tuple[str, str], float]:
    """Return the metrics by name and robot."""
    families = text_string_to_metric_families(ask(port, "/metrics")[1])
    return {(s.name, s.labels.get("robot", "")): s.value for family in families for s in family.samples}


def test_the_probes_follow_the_lifecycle(rig: Rig, tmp_path: Path, port: int) -> None:
    rig.start_server(write_manifest(tmp_path, health_port=port), autostart=False)
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)
    assert ask(port, "/healthz")[0] == 200
    rig.wait_for(answers(port, "/readyz", 503, "inactive, expected active"), "not ready yet")
    assert change_state(rig, Transition.TRANSITION_ACTIVATE)
    assert ask(port, "/readyz")[0] == 200
    assert change_state(rig, Transition.TRANSITION_DEACTIVATE)
    assert ask(port, "/readyz")[0] == 503
    assert ask(port, "/healthz")[0] == 200
    assert change_state(rig, Transition.TRANSITION_CLEANUP)
    assert ask(port, "/healthz")[0] == 0
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)
    assert ask(port, "/healthz")[0] == 200


def test_a_port_in_use_fails_configure_in_words_and_configure_can_be_tried_again(
    rig: Rig, tmp_path: Path, port: int
) -> None:
    rig.start_server(write_manifest(tmp_path, health_port=port), autostart=False)
    with socket.create_server(("", port)):
        assert not change_state(rig, Transition.TRANSITION_CONFIGURE)
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert f"health_port: found {port} in use, expected a free port" in log
    assert change_state(rig, Transition.TRANSITION_CONFIGURE)


def test_a_policy_that_cannot_be_loaded_leaves_the_port_free(rig: Rig, tmp_path: Path, port: int) -> None:
    rig.start_server(
        write_manifest(tmp_path, policy={"chunk_size": 0}, health_port=port, audit_file="audit.jsonl"),
        autostart=False,
    )
    assert not change_state(rig, Transition.TRANSITION_CONFIGURE)
    with socket.create_server(("", port)):
        pass


def test_an_audit_file_that_cannot_be_opened_fails_configure_in_words(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, audit_file="missing/audit.jsonl"), autostart=False)
    assert not change_state(rig, Transition.TRANSITION_CONFIGURE)
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    path = tmp_path / "missing" / "audit.jsonl"
    assert f"audit_file: found {path} (No such file or directory), expected a file to append to" in log


def test_metrics_are_per_robot_and_end_with_its_session(rig: Rig, tmp_path: Path, port: int) -> None:
    rig.start_server(write_manifest(tmp_path, health_port=port))
    good, bad = FleetRobot(rig, "/good"), FleetRobot(rig, "/bad")
    for _ in range(3):
        assert good.request().status == ActionChunk.OK
    assert bad.request(state=array("f", [1.0])).status == ActionChunk.ERROR
    count, errors = "policy_server_request_duration_seconds_count", "policy_server_request_errors_total"
    rig.wait_for(lambda: samples(port).get((errors, "/bad")) == 1.0, "the error counted")
    found = samples(port)
    assert [found[count, robot] for robot in ("/good", "/bad")] == [3.0, 1.0]
    assert found[errors, "/good"] == 0.0
    assert found["policy_server_sessions", ""] == 2.0
    assert found["policy_server_ready", ""] == 1.0
    assert found["policy_server_batch_size_count", ""] == 4.0
    waited = found["policy_server_queue_wait_seconds_sum", "/good"]
    worked = found["policy_server_inference_duration_seconds_sum", "/good"]
    assert found["policy_server_request_duration_seconds_sum", "/good"] == pytest.approx(waited + worked)
    bad.close()
    assert {robot for _, robot in samples(port)} == {"", "/good"}


def test_lost_captures_are_counted_and_cost_no_robot_a_chunk(rig: Rig, tmp_path: Path, port: int) -> None:
    rig.start_server(write_manifest(tmp_path, health_port=port, capture_dir="captures"))
    robot = FleetRobot(rig, "/rig")
    folder, count = tmp_path / "captures", ("policy_server_captures_dropped_total", "")
    assert samples(port)[count] == 0.0
    shutil.rmtree(folder)
    assert [robot.request().status for _ in range(3)] == [ActionChunk.OK] * 3
    rig.wait_for(lambda: samples(port)[count] == 3.0, "three captures counted as lost")
    assert "a capture is lost" in (tmp_path / "logs" / "policy_server.log").read_text()
    folder.mkdir()
    assert robot.request().status == ActionChunk.OK
    rig.wait_for(lambda: len(list(folder.glob("*.capture"))) == 1, "a capture again")


@pytest.fixture
def watched(rig: Rig, tmp_path: Path) -> Iterator[tuple[Operations, Serving]]:
    """The observers of a server that lives in this process, on the rig's executor."""
    manifest = load_manifest(write_manifest(tmp_path))
    serving = Serving(manifest, SessionRegistry("watched"), *[lambda *_: None] * 3)
    schedule = TimerSchedule()
    rig.node.create_timer(0.01, schedule.run_due)
    yield Operations(rig.add_node("watched"), schedule, "watched"), serving
    serving.close()


@pytest.mark.parametrize("severity", [LoggingSeverity.INFO, LoggingSeverity.DEBUG])
def test_a_record_becomes_json_only_for_a_log_that_is_read(
    watched: tuple[Operations, Serving], severity: LoggingSeverity
) -> None:
    made: list[str] = []

    class Record(RequestRecord):
        def to_json(self, **head: str) -> str:
            made.append("json")
            return super().to_json(**head)

    operations, _ = watched
    operations._record_logger.set_level(severity)
    operations.record(Record("s1", "/r", "/r/n"))
    assert len(made) == (severity is LoggingSeverity.DEBUG)


def update(operations: Operations, serving: Serving) -> dict[str, float]:
    """Update the observers; return the metrics without a label."""
    operations.update(ServerStatus(inference_ms=math.nan), [], serving)
    families = text_string_to_metric_families(operations._metrics.render("")[0].decode())
    return {
        sample.name: sample.value for family in families for sample in family.samples if not sample.labels
    }


def test_a_late_executor_is_measured(rig: Rig, watched: tuple[Operations, Serving]) -> None:
    lag = "policy_server_executor_lag_seconds"
    rig.wait_for(lambda: 0.0 < update(*watched)[lag] < 0.3, "the lag of an executor with little to do")
    never = threading.Event()
    held = rig.node.create_timer(0.01, lambda: never.wait(0.5))  # a slow callback
    rig.wait_for(lambda: update(*watched)[lag] >= 0.3, "its lag when a callback holds it")
    rig.node.destroy_timer(held)
    rig.wait_for(lambda: update(*watched)[lag] < 0.3, "its lag when the window has passed")


def test_failed_handovers_are_counted_across_policies(
    watched: tuple[Operations, Serving],
) -> None:
    operations, serving = watched
    counters, name = serving.worker.finishing.counters, "policy_server_undelivered_total"
    counters.undelivered = 3
    assert [update(operations, serving)[name] for _ in range(2)] == [3.0, 3.0]
    counters.undelivered = 0  # the next worker begins anew
    update(operations, serving)
    counters.undelivered = 1
    assert update(operations, serving)[name] == 4.0


def test_every_request_leaves_one_audit_line_that_joins_its_chunk(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, audit_file="audit.jsonl"))
    robot = FleetRobot(rig, "/rig")
    chunks = [robot.request(), robot.request(state=array("f", [1.0])), robot.request()]
    path = tmp_path / "audit.jsonl"
    rig.wait_for(lambda: path.read_text().count("\n") >= 3, "audit lines")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [list(line) for line in lines] == [list(DESCRIPTIONS)] * 3
    keys = ("session_id", "seq_id", "episode_id")
    assert [[line[key] for key in keys] for line in lines] == [
        [getattr(chunk, key) for key in keys] for chunk in chunks
    ]
    for line, chunk in zip(lines, chunks, strict=True):
        assert (line["server"], line["robot"], line["batch_size"]) == (SERVER, "/rig", 1)
        assert line["inference_ms"] == pytest.approx(chunk.inference_ms, abs=1e-3)
        assert line["staleness_ms"] >= line["inference_ms"]
    assert [line["status"] for line in lines] == ["ok", "error", "ok"]
    assert lines[1]["outcome"] == chunks[1].message
    log = (tmp_path / "logs" / "policy_server.log").read_text()
    assert f"request 2 of /rig/remote_inference failed: {chunks[1].message}" in log
    assert '"seq_id":' not in log


def test_the_log_has_one_warning_about_a_robot_whose_requests_all_fail(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path))
    for robot in (FleetRobot(rig, "/a"), FleetRobot(rig, "/b")):
        for _ in range(5):
            assert robot.request(state=array("f", [1.0])).status == ActionChunk.ERROR
    log = tmp_path / "logs" / "policy_server.log"
    rig.wait_for(lambda: "of /b/remote_inference failed" in log.read_text(), "the last robot's warning")
    found = [
        line.split("request ")[1].split(" failed")[0]
        for line in log.read_text().splitlines()
        if " failed: " in line
    ]
    assert found == ["1 of /a/remote_inference", "1 of /b/remote_inference"]


def test_the_status_behind_the_page_is_the_server_s(rig: Rig, tmp_path: Path, port: int) -> None:
    rig.start_server(write_manifest(tmp_path, health_port=port))
    robot = FleetRobot(rig, "/rig")
    robot.request()
    rig.wait_for(answers(port, "/status.json", 200, '"state": "serving"'), "the session's request")
    status = json.loads(ask(port, "/status.json")[1])
    (session,) = status["sessions"]
    assert (session["robot"], session["session_id"]) == ("/rig", robot.session.session_id)
    assert (session["requests"], len(session["latencies_ms"])) == (1, 1)
    assert (status["ready"], status["policy"], status["max_sessions"]) == (True, "hold 1", 4)
