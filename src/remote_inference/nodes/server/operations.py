# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The observers of a policy server: health port, metrics, request log and diagnostics."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence

from rclpy.impl.logging_severity import LoggingSeverity
from rclpy.node import Node

from remote_inference.core.server.manifest.manifest import Manifest
from remote_inference.core.server.requests.request_record import RequestRecord
from remote_inference.core.server.requests.worker import Worker
from remote_inference.core.server.sessions.session import Session
from remote_inference.monitoring.diagnostics import Diagnostics, server_diagnostic
from remote_inference.monitoring.health import HealthServer
from remote_inference.monitoring.metrics import ServerMetrics
from remote_inference.monitoring.snapshot import SHOWN_LOADS, Journal, ServerSnapshot
from remote_inference.msg import ServerStatus
from remote_inference.nodes.runtime import StartupError
from remote_inference.nodes.schedule import Schedule
from remote_inference.nodes.server.executor_lag import ExecutorLag
from remote_inference.nodes.server.serving import Serving
from remote_inference.recording.requests.request_log import RequestLog
from remote_inference.weights.live import CLOSED

LOAD_PERIOD_S = 0.9  # a little less than the status period: skips the updates between


class Operations:
    """A policy server's observers. The worker's thread calls `record`; the executor's calls the rest."""

    def __init__(self, node: Node, schedule: Schedule, instance_id: str) -> None:
        self._server = node.get_fully_qualified_name()
        self._instance_id = instance_id
        self._logger = node.get_logger()
        self._record_logger = self._logger.get_child("requests")
        self._lag = ExecutorLag(schedule)
        self._journal = Journal()
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
        self._journal.record(record, time.monotonic_ns())
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
        self._journal.keep(sessions)
        self._metrics.keep({session.offer.robot_namespace: session.offer.tags for session in sessions})
        now_s = time.monotonic()
        if now_s - self._last_load_s >= LOAD_PERIOD_S:
            self._last_load_s = now_s
            self._loads.append(round(status.load, 3))
        now_ns = time.monotonic_ns()
        self._snapshot = ServerSnapshot(
            server=self._server,
            instance_id=self._instance_id,
            lifecycle_state=status.lifecycle_state,
            made_s=now_s,
            accepting=status.accepting,
            worker_alive=serving.alive if serving else True,
            policy_unready=serving.watch.unready_reason(now_ns) if serving else "",
            policy_unhealthy=serving.watch.unhealthy_reason(now_ns) if serving else "",
            failed_batches=serving.watch.failed_batches if serving else 0,
            policy=f"{status.policy_name} {status.policy_revision}".strip(),
            policy_fingerprint=status.policy_fingerprint,
            device=serving.device if serving else "",
            serving_mode=status.serving_mode,
            max_sessions=status.max_sessions,
            load=round(status.load, 3),
            loads=tuple(self._loads),
            inference_ms=None if math.isnan(status.inference_ms) else round(status.inference_ms, 3),
            requests=status.requests,
            errors=status.errors,
            superseded=status.superseded,
            refused_sessions=refused,
            audit_lines_dropped=self._request_log.dropped if self._request_log else 0,
            captures_dropped=serving.captures_dropped if serving else 0,
            weights=serving.weights.view if serving and serving.weights else CLOSED,
            sessions=self._journal.views(now_ns),
        )
        self._diagnostics.report(server_diagnostic(self._snapshot))
        self._metrics.executor_lag_s.set(self._lag.longest_s)
        self._tell_undelivered(serving.worker if serving else None)

    def _tell_undelivered(self, worker: Worker | None) -> None:
        total = worker.counters.undelivered if worker else 0
        new, self._undelivered = total - self._undelivered, total
        if worker is not None and new > 0:
            self._metrics.undelivered.inc(new)
            self._logger.warning(f"{new} not handed over, the last one: {worker.counters.last_undelivered}")
