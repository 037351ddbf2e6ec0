# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The diagnostics of both nodes on /diagnostics, where ROS tools look first."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node
from std_msgs.msg import Header

from remote_inference.monitoring.snapshot import ServerSnapshot
from remote_inference.msg import ClientState
from remote_inference.wire.qos import DIAGNOSTICS_QOS, DIAGNOSTICS_TOPIC

PERIOD_S = 0.9  # a little less than 1 s, the reports' period or a multiple of it
HIGH_LOAD = 0.8  # the load that `warmup.capacity` plans with


class Diagnostics:
    """Publishes a node's one status: once a second, and at once when level or message change."""

    def __init__(self, node: Node, task: str) -> None:
        """task: subject of the status; its name is the node's name and the task."""
        self._clock = node.get_clock()
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: {task}"
        self._publisher = node.create_publisher(DiagnosticArray, DIAGNOSTICS_TOPIC, DIAGNOSTICS_QOS)
        self._last: tuple[bytes, str] | None = None
        self._last_s = 0.0

    def report(self, status: DiagnosticStatus) -> None:
        """Publish the status if it changed or is due. Must be called by one thread."""
        now_s, key = time.monotonic(), (status.level, status.message)
        if key == self._last and now_s - self._last_s < PERIOD_S:
            return
        self._last, self._last_s = key, now_s
        status.name = self._name
        header = Header(stamp=self._clock.now().to_msg())
        self._publisher.publish(DiagnosticArray(header=header, status=[status]))


def server_diagnostic(snapshot: ServerSnapshot) -> DiagnosticStatus:
    """Return the server's status: ERROR when it fails, WARN when it refuses or fails robots or is busy."""
    failing = sum(session.state == "failing" for session in snapshot.sessions)
    if not snapshot.worker_alive:
        level, message = DiagnosticStatus.ERROR, "the inference thread has ended"
    elif snapshot.policy_unready:
        level, message = DiagnosticStatus.ERROR, snapshot.policy_unready
    elif not snapshot.accepting:
        level, message = DiagnosticStatus.WARN, f"{snapshot.lifecycle_state}, no robot is admitted"
    elif failing:
        level, message = DiagnosticStatus.WARN, f"{failing} of {len(snapshot.sessions)} sessions get errors"
    elif snapshot.load >= HIGH_LOAD:
        level, message = DiagnosticStatus.WARN, f"load is above {HIGH_LOAD:.0%}"
    elif snapshot.audit_lines_dropped:
        level, message = DiagnosticStatus.WARN, "lines of the request log have been dropped"
    elif snapshot.captures_dropped:
        level, message = DiagnosticStatus.WARN, "captures have been dropped"
    else:
        level, message = DiagnosticStatus.OK, "serving"
    values = {
        "lifecycle_state": snapshot.lifecycle_state,
        "policy": snapshot.policy,
        "policy_fingerprint": snapshot.policy_fingerprint,
        "device": snapshot.device,
        "sessions": f"{len(snapshot.sessions)} of {snapshot.max_sessions}",
        "load": f"{snapshot.load:.2f}",
        "inference_ms": _milliseconds(snapshot.inference_ms),
        "requests": str(snapshot.requests),
        "errors": str(snapshot.errors),
        "superseded": str(snapshot.superseded),
        "failed_batches_in_a_row": str(snapshot.failed_batches),
        "audit_lines_dropped": str(snapshot.audit_lines_dropped),
        "captures_dropped": str(snapshot.captures_dropped),
    }
    return _status(level, message, snapshot.server, values)


# RECONNECTING is an error only once the queue is drained.
ROBOT_LEVELS: Mapping[int, bytes] = {
    ClientState.CONNECTING: DiagnosticStatus.WARN,
    ClientState.STREAMING: DiagnosticStatus.OK,
    ClientState.DEGRADED: DiagnosticStatus.WARN,
    ClientState.STALLED: DiagnosticStatus.ERROR,
    ClientState.RECONNECTING: DiagnosticStatus.ERROR,
    ClientState.DEAD: DiagnosticStatus.ERROR,
}


def robot_diagnostic(
    state: ClientState,
    hardware_id: str,
    goals: Mapping[str, str] | None = None,
    absent: Iterable[str] = (),
) -> DiagnosticStatus:
    """Return the robot's status by its safety state: at least WARN when it is paused or lacks a sensor.

    goals: what became of those of each action server. absent: why controllers do not hear, in words.

    A robot that an operator has paused is an ERROR only when DEAD, for the pause is intended. One that a stop
    input stopped is an ERROR.
    """
    level, message = ROBOT_LEVELS[state.state], f"{state.state_name}: {state.cause}"
    if state.state == ClientState.RECONNECTING and state.queue_length:
        level = DiagnosticStatus.WARN
    if state.stale_sources:
        level = max(level, DiagnosticStatus.WARN)
        message += f"; waits for {', '.join(state.stale_sources)}"
    if state.implausible:
        level, message = max(level, DiagnosticStatus.WARN), f"{message}; not believed: {state.implausible}"
    for found in absent:
        level, message = max(level, DiagnosticStatus.WARN), f"{message}; {found}"
    if state.taken_over:
        level, message = max(level, DiagnosticStatus.WARN), f"taken over by a person; {message}"
    if state.injected_fault:
        level, message = max(level, DiagnosticStatus.WARN), f"drill ({state.injected_fault}); {message}"
    if state.shadow:
        message = f"shadow mode; {message}"
    if state.stop:
        level, message = DiagnosticStatus.ERROR, f"stopped by {state.stop}; {message}"
    elif state.paused and state.state != ClientState.DEAD:
        why = f": {state.pause_cause}" if state.pause_cause else ""
        level, message = DiagnosticStatus.WARN, f"paused{why}; {message}"
    guard_counts = zip(state.guard_names, state.guard_counts, strict=True)
    values = {
        "state": state.state_name,
        "cause": state.cause,
        "paused": str(state.paused).lower(),
        "pause_cause": state.pause_cause,
        "stop": state.stop,
        "taken_over": str(state.taken_over).lower(),
        "shadow": str(state.shadow).lower(),
        "injected_fault": state.injected_fault,
        "server": state.server,
        "session_id": state.session_id,
        "policy_version": state.policy_version,
        "latency_p50_ms": _milliseconds(state.latency_p50_ms),
        "latency_p95_ms": _milliseconds(state.latency_p95_ms),
        "playback_left_s": f"{state.playback_left_s:.2f}",
        "stale_sources": ", ".join(state.stale_sources),
        "implausible": state.implausible,
        "requests": str(state.requests),
        "request_timeouts": str(state.request_timeouts),
        "chunks_rejected": str(state.chunks_rejected),
        "reconnects": str(state.reconnects),
        "control_ticks": str(state.control_ticks),
        "late_ticks": str(state.late_ticks),
        **{f"guard_{name}": str(count) for name, count in guard_counts},
        **{
            f"shadow_error_{name}": f"mean {mean:.4f}, max {largest:.4f}"
            for name, mean, largest in zip(
                state.shadow_names, state.shadow_error_mean, state.shadow_error_max, strict=True
            )
        },
        **{f"goals_{name}": found for name, found in (goals or {}).items()},
    }
    return _status(level, message, hardware_id, values)


def _status(level: bytes, message: str, hardware_id: str, values: Mapping[str, str]) -> DiagnosticStatus:
    return DiagnosticStatus(
        level=level,
        message=message,
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=value) for key, value in values.items()],
    )


def _milliseconds(duration_ms: float | None) -> str:
    """Return a duration as text, empty before the first request (None or NaN)."""
    return "" if duration_ms is None or math.isnan(duration_ms) else f"{duration_ms:.1f}"
