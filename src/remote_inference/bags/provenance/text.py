# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A motion as lines of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from remote_inference.bags.provenance.motion import Motion, Request, since_text

WIDTH = 80
_LABEL = 11
_GLUE = "\xa0"  # a blank at which no line is broken
_BAR = 28  # characters of the longest part of the latency


def motion_lines(motion: Motion) -> list[str]:
    parts = {
        "": [f"{motion.bag}, {motion.namespace}"],
        "tick": [_tick(motion)],
        "command": _command(motion),
        "why": _why(motion),
    }
    if motion.command.request:
        parts |= {"guard": _guard(motion), "chunk": _chunk(motion), "latency": _latency(motion)}
        if motion.request:
            parts |= {"request": _request(motion.request), "images": _images(motion.request)}
        parts |= {"sensors": _sensors(motion), "server log": _log(motion), "policy": _policy(motion)}
    parts |= {"state": _state(motion), "missing": list(motion.missing)}
    return [line for label, texts in parts.items() for line in _labelled(label, texts)]


def _labelled(label: str, texts: Sequence[str]) -> Iterator[str]:
    indent = " " * _LABEL
    for place, text in enumerate(texts):
        head = f"{'' if place else label:<{_LABEL}}" if label else ""
        further = f"{indent}  " if label else "  "
        for line in textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=further):
            yield line.replace(_GLUE, " ")


def _tick(motion: Motion) -> str:
    command = motion.command
    shadow = ", shadow mode: nothing was published" if command.shadow else ""
    return f"{command.tick} at {command.t_s:.3f} s, {motion.time}, episode {command.episode_id}{shadow}"


def _command(motion: Motion) -> list[str]:
    values = [
        f"{name}{_GLUE}{value:+.4f}{_GLUE}{motion.units.get(name, '')}".rstrip(_GLUE)
        for name, value in motion.joints.items()
    ]
    return [", ".join(values) or "none"]


def _why(motion: Motion) -> list[str]:
    if not motion.reasons or motion.command.request:  # of the silence that followed a row
        return list(motion.reasons)
    lines = [
        *motion.reasons,
        f"so since {motion.since_s:.3f} s, for {max(0.0, motion.command.t_s - motion.since_s):.3f} s",
    ]
    before = motion.before
    if before is None:
        return [*lines, "no action of a chunk was executed before in the bag"]
    origin = f"action {before.row} of request {before.seq_id}"
    last = f"the last action of a chunk was tick {before.tick} at {before.t_s:.3f} s: {origin}"
    return [*lines, last]


def _guard(motion: Motion) -> list[str]:
    rules = ", ".join(motion.command.interventions)
    if not rules and not motion.corrections:
        return ["changed nothing"]
    named = [(one, f" ({one.rule})" if one.rule else "") for one in motion.corrections]
    changes = [f"{one.joint}: {one.before:+.4f} -> {one.after:+.4f}{rule}" for one, rule in named]
    return [rules or "no rule is named", *changes]


def _chunk(motion: Motion) -> list[str]:
    command, rows, answer = motion.command, motion.rows, motion.answer
    lines = [f"action {command.row} of the answer to request {command.seq_id}"]
    if answer is not None:
        status = "" if answer.status == "OK" else f", status {answer.status}: {answer.message}"
        lines = [
            f"{lines[0]}, which has {answer.horizon} actions and came at {answer.received_s:.3f} s{status}"
        ]
        if answer.superseded:
            lines.append(f"{answer.superseded} requests before it were superseded at the server")
    if earlier := command.earlier_seq_ids:
        lines.append(f"a mean with {len(earlier)} earlier chunks, of requests {earlier[0]} to {earlier[-1]}")
    if command.row_fraction:
        lines.append(f"{command.row_fraction:.0%} of the action's period had passed")
    if rows is not None:
        lines.append(
            f"actions 0 to {rows.dropped - 1} were stale when it came, and were skipped"
            if rows.dropped
            else "no action was stale when it came"
        )
        lines.append(f"actions {rows.first} to {rows.last} were executed, {rows.executed} of {rows.horizon}")
    return lines


def _latency(motion: Motion) -> list[str]:
    latency = motion.latency
    if latency is None or latency.age_ms is None:
        return []
    parts = (
        ("sensing", latency.sensing_ms, "capture of the oldest sensor to request"),
        ("transport", latency.transport_ms, "both ways"),
        ("queue wait", latency.queue_wait_ms, "at the server"),
        ("inference", latency.inference_ms, ""),
        ("waiting", latency.waiting_ms, "from the chunk's arrival to this tick"),
    )
    longest = max([ms for _, ms, _ in parts if ms is not None], default=0.0) or 1.0
    lines = [f"{latency.age_ms:.1f} ms from capture to command"]
    for name, ms, what in parts:
        if ms is None:
            lines.append(f"{name:<10}  not known")
        else:
            lines.append(f"{name:<10}{ms:>8.1f} ms {'#' * round(_BAR * ms / longest)} {what}".rstrip())
    return lines


def _request(request: Request) -> list[str]:
    start = ", first of the episode" if request.episode_start else ""
    lines = [
        f"{request.seq_id} of session {request.session_id} (epoch {request.session_epoch}), sent at "
        f"{request.sent_s:.3f} s, episode {request.episode_id}{start}",
        f"task {request.task!r}, delay hint {request.delay_steps} ticks, "
        + (f"{request.prefix_rows} actions to continue" if request.prefix_rows else "no actions to continue"),
        f"its sensors are {request.capture_skew_ms:.1f} ms apart",
    ]
    if request.state:
        lines.append("state " + ", ".join(f"{value:+.4f}" for value in request.state))
    return lines


def _images(request: Request) -> list[str]:
    lines = []
    for image in request.images:
        stamp = f", stamped {_camera_time(image.stamp_ns)} by its camera" if image.stamp_ns else ""
        lines.append(
            f"{image.camera}: {image.encoding} {image.width}x{image.height}, {image.bytes} bytes{stamp}, "
            f"sha256 {image.sha256[:12]}"
        )
    return lines or ["none"]


def _camera_time(stamp_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(stamp_ns / 1e9, timezone.utc):%H:%M:%S.%f}"[:-3]
    except (OverflowError, ValueError, OSError):
        return f"{stamp_ns} ns"


def _sensors(motion: Motion) -> list[str]:
    return [
        f"{one.topic}: arrived at {one.t_s:.3f} s, {one.before_request_ms:.1f} ms before the request"
        for one in motion.sensors
    ]


def _log(motion: Motion) -> list[str]:
    command, line = motion.command, motion.log_line
    if line is not None:
        return [", ".join(f"{name} {value}" for name, value in line.items())]
    return [f"the line with session_id {command.session_id} and seq_id {command.seq_id}"]


def _policy(motion: Motion) -> list[str]:
    policy, version = motion.policy, motion.command.policy_version
    if policy is None:
        return [f"weights {version}"]
    lines = [f"{policy.name} {policy.revision}, served by {policy.server}", f"weights {version}"]
    return [*lines, f"manifest {policy.manifest_digest[:16]}"] if policy.manifest_digest else lines


def _state(motion: Motion) -> list[str]:
    standing, watchdog = motion.standing, motion.watchdog
    lines = []
    if standing is not None:
        lines.append(f"{standing.state} since {standing.t_s:.3f} s: {standing.cause or 'no cause given'}")
        if standing.paused:
            since = since_text(standing.paused_s)
            lines.append(f"paused since {since}: {standing.pause_cause or 'no cause given'}")
    if watchdog is not None:
        lines.append(f"command watchdog {watchdog.state} since {watchdog.t_s:.3f} s: {watchdog.cause}")
    return lines
