# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The observers of a policy server: health port, metrics, request log and diagnostics."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.node import Node

from remote_inference.base.admission import ServerTerms
from remote_inference.base.nodes.diagnostics import Diagnostics, make_status, show_milliseconds
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.arrays import read_fields, write_fields
from remote_inference.msg import ServerStatus
from remote_inference.server.live_weights import CLOSED
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.monitoring.health import HealthServer
from remote_inference.server.monitoring.metrics import ServerMetrics
from remote_inference.server.monitoring.snapshot import SHOWN_LOADS, ServerSnapshot, SessionHistories
from remote_inference.server.nodes.serving import Serving
from remote_inference.server.requests.request_log import RequestLog, RequestRecord
from remote_inference.server.requests.worker import Worker
from remote_inference.server.sessions import Session


def describe_policy(status: ServerStatus, serving: Serving, terms: ServerTerms) -> None:
    """Fill in a status: the policy, its load and its counters."""
    spec, finishing = serving.policy.spec, serving.worker.finishing
    for name, value in (write_fields(spec, status) | write_fields(finishing.counters, status)).items():
        setattr(status, name, value)
    status.policy_name = spec.name
    status.policy_revision = spec.revision
    status.tags = list(serving.manifest.tags)
    status.policy_fingerprint = spec.fingerprint
    status.image_features = list(spec.image_shapes)
    status.continuation = spec.continuation.value
    status.serving_mode = spec.serving_mode.value
    status.accepting = terms.accepting and not terms.failing
    status.max_sessions = terms.capacity(spec)
    status.load = terms.load
    if samples := tuple(finishing.inference_ms):
        status.inference_ms = statistics.median(samples)
    status.response_ms = serving.response_ms
    if serving.weights:
        status.weights_version = serving.weights.view.version


LAG_PERIOD_S = 0.1
LAG_WINDOW_S = 5.0
HIGH_LOAD = 0.8  # the load that `warmup.capacity` plans with


def server_diagnostic(snapshot: ServerSnapshot) -> DiagnosticStatus:
    """Return the server's status: ERROR when it fails, WARN when it refuses or fails robots or is busy."""
    failing = sum(session.state == "failing" for session in snapshot.sessions)
    warn, error = DiagnosticStatus.WARN, DiagnosticStatus.ERROR
    problems = (  # the first that is there is shown
        (not snapshot.worker_alive, error, "the inference thread has ended"),
        (snapshot.policy_unready, error, snapshot.policy_unready),
        (not snapshot.accepting, warn, f"{snapshot.lifecycle_state}, no robot is admitted"),
        (failing, warn, f"{failing} of {len(snapshot.sessions)} sessions get errors"),
        (snapshot.load >= HIGH_LOAD, warn, f"load is above {HIGH_LOAD:.0%}"),
        (snapshot.audit_lines_dropped, warn, "lines of the request log have been dropped"),
        (snapshot.captures_dropped, warn, "captures have been dropped"),
        (True, DiagnosticStatus.OK, "serving"),
    )
    level, message = next((level, message) for is_there, level, message in problems if is_there)
    values = {
        "lifecycle_state": snapshot.lifecycle_state,
        "policy": snapshot.policy,
        "policy_fingerprint": snapshot.policy_fingerprint,
        "device": snapshot.device,
        "sessions": f"{len(snapshot.sessions)} of {snapshot.max_sessions}",
        "load": f"{snapshot.load:.2f}",
        "inference_ms": show_milliseconds(snapshot.inference_ms),
        "requests": str(snapshot.requests),
        "errors": str(snapshot.errors),
        "superseded": str(snapshot.superseded),
        "failed_batches_in_a_row": str(snapshot.failed_batches),
        "audit_lines_dropped": str(snapshot.audit_lines_dropped),
        "captures_dropped": str(snapshot.captures_dropped),
    }
    return make_status(level, message, snapshot.server, values)


LOAD_PERIOD_S = 0.9  # a little less than the status period: skips the updates between


class Operations:
    """A policy server's observers. The worker's thread calls `record`; the executor's calls the rest."""

    def __init__(self, node: Node, schedule: TimerSchedule, instance_id: str) -> None:
        """schedule: on the clock of time.monotonic."""
        self._server = node.get_fully_qualified_name()
        self._instance_id = instance_id
        self._logger, self._calm = node.get_logger(), calm(node)
        self._record_logger = self._logger.get_child("requests")
        # How long ready work waits for the executor's thread, by how late periodic calls are made [s].
        self._lags_s = deque([0.0], maxlen=round(LAG_WINDOW_S / LAG_PERIOD_S))
        self._lag_timer = schedule.every(LAG_PERIOD_S, self._measure_lag)
        self._lag_due_s = self._lag_timer.due_s
        self._histories = SessionHistories()
        self._loads: deque[float] = deque(maxlen=SHOWN_LOADS)
        self._last_load_s = 0.0
        self._undelivered = 0  # the worker's count that was logged last
        # The snapshot is replaced as a whole, which is atomic: other threads read a consistent one.
        self._snapshot = ServerSnapshot(self._server, instance_id, "unconfigured", time.monotonic())
        self._metrics = ServerMetrics(lambda: self._snapshot, time.monotonic)
        self._diagnostics = Diagnostics(node, "policy serving")
        self._request_log: RequestLog | None = None
        self._health: HealthServer | None = None

    def open(self, manifest: Manifest) -> None:
        """Open file and port before the policy loads: mistakes show at once, and probes see the loading.

        Raises StartupError naming the manifest's key, what was found and expected.
        """
        self._snapshot = ServerSnapshot(
            self._server, self._instance_id, "configuring", time.monotonic(), loading=True
        )
        self._metrics = ServerMetrics(lambda: self._snapshot, time.monotonic, manifest.metric_tags)
        if manifest.audit_file:
            try:
                self._request_log = RequestLog(manifest.audit_file, self._server, self._instance_id)
            except OSError as error:
                found = f"{manifest.audit_file} ({error.strerror})"
                raise StartupError(f"audit_file: found {found}, expected a file to append to") from error
        if manifest.health_port:
            self._health = HealthServer(manifest.health_port, lambda: self._snapshot, self._metrics.render)

    def begin_loading(self) -> None:
        """Let probes see that a released policy is being loaded, which keeps the executor busy."""
        self._snapshot = replace(self._snapshot, loading=True)

    def close(self) -> None:
        """Free port and file."""
        health, self._health = self._health, None
        if health is not None:
            health.close()
        request_log, self._request_log = self._request_log, None
        if request_log is not None and not request_log.close():
            self._logger.error(f"audit_file: the disk does not answer, {request_log.dropped} lines are lost")

    def record(self, record: RequestRecord) -> None:
        """Record one served request; never blocks."""
        self._metrics.record(record)
        self._histories.record(record, time.monotonic_ns())
        request_log = self._request_log
        if request_log is not None:
            request_log.write(record)
        elif self._record_logger.is_enabled_for(LoggingSeverity.DEBUG):
            self._record_logger.debug(record.to_json())

    def update(
        self, status: ServerStatus, sessions: Sequence[Session], serving: Serving | None, refused: int = 0
    ) -> None:
        """Publish the server's status. Call it at least once a second and after every change.

        refused: offers of sessions, since the process began.
        """
        self._histories.keep(sessions)
        self._metrics.keep({session.offer.robot_namespace: session.offer.tags for session in sessions})
        now_s = time.monotonic()
        if now_s - self._last_load_s >= LOAD_PERIOD_S:
            self._last_load_s = now_s
            self._loads.append(round(status.load, 3))
        now_ns = time.monotonic_ns()
        self._snapshot = replace(
            ServerSnapshot(**read_fields(status, ServerStatus, ServerSnapshot), made_s=now_s),
            server=self._server,
            instance_id=self._instance_id,
            worker_alive=serving.alive if serving else True,
            policy_unready=serving.watch.unready_reason(now_ns) if serving else "",
            policy_unhealthy=serving.watch.unhealthy_reason(now_ns) if serving else "",
            failed_batches=serving.watch.failed_batches if serving else 0,
            policy=f"{status.policy_name} {status.policy_revision}".strip(),
            device=serving.device if serving else "",
            load=round(status.load, 3),
            loads=tuple(self._loads),
            inference_ms=None if math.isnan(status.inference_ms) else round(status.inference_ms, 3),
            refused_sessions=refused,
            audit_lines_dropped=self._request_log.dropped if self._request_log else 0,
            captures_dropped=serving.captures.dropped if serving and serving.captures else 0,
            weights=serving.weights.view if serving and serving.weights else CLOSED,
            sessions=self._histories.views(now_ns),
        )
        self._diagnostics.report(server_diagnostic(self._snapshot))
        self._metrics.executor_lag_s.set(max(self._lags_s))
        self._report_undelivered(serving.worker if serving else None)

    def _measure_lag(self) -> None:
        self._lags_s.append(max(0.0, time.monotonic() - self._lag_due_s))
        self._lag_due_s = self._lag_timer.due_s

    def _report_undelivered(self, worker: Worker | None) -> None:
        total = worker.finishing.counters.undelivered if worker else 0
        new, self._undelivered = total - self._undelivered, total
        if worker is not None and new > 0:
            self._metrics.undelivered.inc(new)
            last = worker.finishing.counters.last_undelivered
            self._calm.warning(f"{total} not handed over so far, the last one: {last}", "not handed over")
