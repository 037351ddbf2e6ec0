# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's snapshot: whether it is healthy and ready, and the state of its sessions."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from remote_inference.server.monitoring.snapshot import (
    EXECUTOR_DEADLINE_S,
    QUIET_AFTER_S,
    SHOWN_REQUESTS,
    ServerSnapshot,
    SessionHistories,
)
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Session
from support.builders import make_offer, ns

LATE_S = EXECUTOR_DEADLINE_S + 1.0


def make_snapshot(**changes: Any) -> ServerSnapshot:
    fields = {"lifecycle_state": "active", "made_s": 0.0, "accepting": True, **changes}
    return ServerSnapshot("/policy_server", "abc", **fields)


@pytest.mark.parametrize(
    ("changes", "now_s", "unhealthy", "unready"),
    [
        ({}, 1.0, "", ""),
        ({}, LATE_S, "executor", "executor"),
        ({"worker_alive": False}, 1.0, "inference thread", "inference thread"),
        ({"loading": True, "accepting": False}, LATE_S, "", "loaded"),
        ({"accepting": False, "lifecycle_state": "inactive"}, 1.0, "", "inactive"),
        ({"policy_unready": "hangs", "accepting": False}, 1.0, "", "hangs"),
        ({"policy_unready": "hangs", "policy_unhealthy": "hangs"}, 1.0, "hangs", "hangs"),
    ],
    ids=[
        "serving",
        "executor stuck",
        "worker dead",
        "loading for long",
        "inactive",
        "policy hangs",
        "for too long",
    ],
)
def test_health_and_readiness(changes: dict[str, Any], now_s: float, unhealthy: str, unready: str):
    snapshot = make_snapshot(**changes)
    for found, expected in (
        (snapshot.unhealthy_reason(now_s), unhealthy),
        (snapshot.unready_reason(now_s), unready),
    ):
        assert expected in found
        assert bool(expected) == bool(found)


def test_json_is_complete_and_standard():
    content = json.loads(make_snapshot(accepting=False, lifecycle_state="inactive").to_json(1.0))
    assert (content["ready"], content["inference_ms"], content["sessions"]) == (False, None, [])
    assert "inactive" in content["reason"]


def make_session(robot: str, session_id: str, **tags: str) -> Session:
    offer = make_offer(robot_namespace=robot, client=f"{robot}/node", tags=tags)
    return Session(session_id, offer, processors=None)  # type: ignore[arg-type]


def make_record(robot: str = "/a", **changes: Any) -> RequestRecord:
    fields = {"session_id": "1", "queue_wait_ms": 2.0, "inference_ms": 3.0, "superseded": 1, **changes}
    return RequestRecord(robot=robot, client=f"{robot}/node", **fields)


def test_a_session_is_new_then_serving_then_quiet():
    journal = SessionHistories()
    journal.keep([make_session("/a", "1")])
    (view,) = journal.views(0)
    assert (view.robot, view.session_id, view.client, view.state) == ("/a", "1", "/a/node", "new")
    journal.record(make_record(), ns(1.0))
    (view,) = journal.views(ns(1.5))
    assert (view.state, view.last_request_age_s, view.latencies_ms) == ("serving", 0.5, (5.0,))
    assert (view.requests, view.errors, view.superseded) == (1, 0, 1)
    (view,) = journal.views(ns(1.5 + QUIET_AFTER_S))
    assert view.state == "quiet"


def test_a_robot_that_says_it_is_paused_is_not_called_quiet():
    """Before its first request, too."""
    journal, session = SessionHistories(), make_session("/a", "1")
    session.link = SimpleNamespace(paused=True)  # type: ignore[assignment]
    journal.keep([session])
    assert [view.state for view in journal.views(0)] == ["paused"]
    journal.record(make_record(), 0)
    later_ns = ns(1.0 + QUIET_AFTER_S)
    assert [view.state for view in journal.views(later_ns)] == ["paused"]
    session.link.paused = False
    journal.keep([session])
    assert [view.state for view in journal.views(later_ns)] == ["quiet"]


def test_a_session_shows_its_tags():
    journal = SessionHistories()
    journal.keep([make_session("/a", "1", site="lab_2")])
    journal.record(make_record(), 0)
    (view,) = journal.views(0)
    assert view.tags == {"site": "lab_2"}


def test_a_session_that_gets_errors_is_failing_until_a_request_succeeds():
    journal = SessionHistories()
    journal.keep([make_session("/a", "1")])
    journal.record(make_record(status="error", outcome="no room on the device"), 0)
    (view,) = journal.views(0)
    assert (view.state, view.errors, view.last_outcome) == ("failing", 1, "no room on the device")
    journal.record(make_record(), 0)
    (view,) = journal.views(0)
    assert (view.state, view.requests, view.errors) == ("serving", 2, 1)


def test_only_open_sessions_are_kept_and_a_robot_that_opens_again_begins_anew():
    journal = SessionHistories()
    journal.keep([make_session("/b", "2"), make_session("/a", "1")])
    assert [view.robot for view in journal.views(0)] == ["/a", "/b"]
    journal.record(make_record("/a"), 0)
    journal.keep([make_session("/a", "1")])
    assert [view.requests for view in journal.views(0)] == [1]
    journal.keep([make_session("/a", "3")])
    assert [view.requests for view in journal.views(0)] == [0]
    journal.keep([])
    journal.record(make_record("/a"), 0)
    assert journal.views(0) == ()


def test_the_last_latencies_are_shown_oldest_first():
    journal = SessionHistories()
    journal.keep([make_session("/a", "1")])
    for number in range(SHOWN_REQUESTS + 5):
        journal.record(make_record(queue_wait_ms=0.0, inference_ms=float(number)), 0)
    (view,) = journal.views(0)
    assert view.latencies_ms == tuple(float(number) for number in range(5, SHOWN_REQUESTS + 5))
