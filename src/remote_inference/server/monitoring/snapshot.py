# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server at one moment, as plain data for any thread; health, metrics and the page show it."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from remote_inference.server.live_weights import CLOSED, WeightsView
from remote_inference.server.requests.request_log import RequestRecord
from remote_inference.server.sessions import Session

SHOWN_REQUESTS = 60  # per session
SHOWN_LOADS = 120  # one per second
QUIET_AFTER_S = 5.0
EXECUTOR_DEADLINE_S = 20.0  # above the longest call that may block the executor: `Serving.close`


@dataclass(frozen=True)
class SessionView:
    """One session, as people see it on the status page."""

    session_id: str
    robot: str
    client: str
    state: str  # "new" before the first request, then "serving", "failing", "quiet" or "paused"
    requests: int = 0
    errors: int = 0
    superseded: int = 0
    last_outcome: str = ""
    last_request_age_s: float | None = None
    queue_wait_ms: float | None = None  # of the last request
    inference_ms: float | None = None  # of the last request
    slack_ms: float | None = None  # that the robot's queue still lasted when the last chunk was ready
    late: int = 0  # chunks that were ready after that
    latencies_ms: tuple[float, ...] = ()  # queue wait and inference of the last requests, oldest first
    tags: Mapping[str, str] = field(default_factory=dict)
    kind: str = "robot"


@dataclass(frozen=True)
class ServerSnapshot:
    """The server at one moment. Counts are since the last configure."""

    server: str
    instance_id: str
    lifecycle_state: str
    made_s: float  # monotonic clock of the executor's thread
    loading: bool = False  # the policy is being loaded, which keeps the executor busy
    accepting: bool = False
    worker_alive: bool = True
    policy_unready: str = ""  # why the policy does not answer
    policy_unhealthy: str = ""  # why the policy will not recover in this process
    failed_batches: int = 0  # in a row
    policy: str = ""
    policy_fingerprint: str = ""
    device: str = ""
    serving_mode: str = ""
    max_sessions: int = 0
    load: float = 0.0  # 0 to 1
    loads: tuple[float, ...] = ()  # of the last seconds, oldest first
    inference_ms: float | None = None  # median of the last requests
    requests: int = 0
    errors: int = 0
    superseded: int = 0
    refused_sessions: int = 0  # since the process began
    audit_lines_dropped: int = 0
    captures_dropped: int = 0
    weights: WeightsView = CLOSED
    sessions: tuple[SessionView, ...] = field(default=())

    def unhealthy_reason(self, now_s: float) -> str:
        """Return why the process should be restarted, or an empty string."""
        if not self.worker_alive:
            return "the inference thread has ended"
        if self.policy_unhealthy:
            return self.policy_unhealthy
        silent_s = now_s - self.made_s
        if silent_s > EXECUTOR_DEADLINE_S and not self.loading:
            return f"the executor has not run for {silent_s:.0f} s"
        return ""

    def unready_reason(self, now_s: float) -> str:
        """Return why no robot should be sent here, or an empty string."""
        if reason := self.unhealthy_reason(now_s):
            return reason
        if self.loading:
            return "the policy is being loaded"
        if self.policy_unready:
            return self.policy_unready
        if not self.accepting:
            return f"the node is {self.lifecycle_state}, expected active"
        return ""

    def to_json(self, now_s: float) -> str:
        """Return everything for the page, with `ready` and `reason`."""
        reason = self.unready_reason(now_s)
        return json.dumps({**asdict(self), "ready": not reason, "reason": reason}, allow_nan=False)


@dataclass
class _History:
    """The outcomes and latencies of one session's requests."""

    view: SessionView
    paused: bool = False
    last_ns: int | None = None
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=SHOWN_REQUESTS))

    def show(self, now_ns: int) -> SessionView:
        if self.last_ns is None:
            return replace(self.view, state="paused") if self.paused else self.view
        age_s = (now_ns - self.last_ns) / 1e9
        quiet = "paused" if self.paused else "quiet"
        return replace(
            self.view,
            state=quiet if age_s > QUIET_AFTER_S else self.view.state,
            last_request_age_s=round(age_s, 3),
            latencies_ms=tuple(round(latency_ms, 3) for latency_ms in self.latencies_ms),
        )


class SessionHistories:
    """The open sessions' histories by robot. The worker's thread writes, the executor's thread reads."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}
        self._lock = threading.Lock()

    def keep(self, sessions: Sequence[Session]) -> None:
        """Begin the histories of new sessions, and forget those of closed sessions."""
        with self._lock:
            old = {history.view.session_id: history for history in self._histories.values()}
            self._histories = {}
            for session in sessions:
                offer, id_ = session.offer, session.session_id
                robot, client, kind = offer.robot_namespace, offer.client, offer.kind.value
                view = SessionView(id_, robot, client, "new", tags=offer.tags, kind=kind)
                history = self._histories[robot] = old.get(id_) or _History(view)
                history.paused = session.link is not None and session.link.paused

    def record(self, record: RequestRecord, now_ns: int) -> None:
        """Record one request; ignore it if its robot has no open session."""
        with self._lock:
            history = self._histories.get(record.robot)
            if history is None:
                return
            history.last_ns = now_ns
            history.latencies_ms.append(record.queue_wait_ms + record.inference_ms)
            history.view = replace(
                history.view,
                state="serving" if record.status == "ok" else "failing",
                requests=history.view.requests + 1,
                errors=history.view.errors + (record.status == "error"),
                superseded=history.view.superseded + record.superseded,
                last_outcome=record.outcome,
                queue_wait_ms=record.queue_wait_ms,
                inference_ms=record.inference_ms,
                slack_ms=record.slack_ms,
                late=history.view.late + record.late,
            )

    def views(self, now_ns: int) -> tuple[SessionView, ...]:
        """Return the sessions, sorted by robot."""
        with self._lock:
            views = [history.show(now_ns) for history in self._histories.values()]
        return tuple(sorted(views, key=lambda view: view.robot))
