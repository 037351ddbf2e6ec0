# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Judges robots by what their nodes say, when what keeps them from moving was looked for already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.doctor.findings import Finding, Level


def judge_robots(
    robots: Mapping[str, Any],
    *,
    wanted: str = "",
    servers: Sequence[Finding] = (),
    sensors: Mapping[str, Sequence[Finding]] | None = None,
) -> Iterator[Finding]:
    """Judge robots by their newest state, by namespace; None: in the graph, but silent.

    wanted: namespace of a robot that must be there. servers, sensors: what was found of them before, of
    sensors by the robot's namespace; where that explains a state, it stands in the place of general advice.
    """
    start = "start 'remote-inference robot', on the same middleware and domain"
    if wanted and wanted not in robots:
        others = ", ".join(robots) or "no robot"
        advice = f"{start}, or mend --namespace; the log of a node that has ended says why"
        found = f"no node {in_namespace(wanted, 'remote_inference')}, found {others}"
        yield Finding(Level.ERROR, f"robot {wanted}", found, "the robot of the contract", advice)
    elif not robots:
        yield Finding(Level.ERROR, "robots", "none", "at least one", start)
    for name, state in robots.items():
        if state is None:
            advice = "look whether it hangs"
            yield Finding(Level.ERROR, f"robot {name}", "no state", "two a second", advice)
        else:
            yield _judge_robot(name, state, servers, (sensors or {}).get(name, ()))


def _judge_robot(name: str, state: Any, servers: Sequence[Finding], sensors: Sequence[Finding]) -> Finding:
    subject, short = f"robot {name}", name.strip("/")
    found = f"{state.state_name}: {state.cause}" if state.cause else str(state.state_name)
    if state.state == state.DEAD:
        advice = "mend the cause and start its node again"
        return Finding(Level.ERROR, subject, found, "STREAMING", advice)
    if not state.session_id:
        advice = _see(servers if _all_bad(servers) else ()) or "look at its log and the servers'"
        return Finding(Level.ERROR, subject, f"no session, {found}", "a session", advice)
    if state.stop:
        advice = f"make it good, then 'remote-inference clear-stop {short}' and resume"
        return Finding(Level.ERROR, subject, f"stopped by {state.stop}", "no stop", advice)
    if state.paused:
        why = f" ({state.pause_cause})" if state.pause_cause else ""
        advice = f"when that is in order, 'remote-inference resume {short}' lets it move"
        return Finding(Level.WARNING, subject, f"paused{why}, {found}", "resumed", advice)
    if state.state in {state.STALLED, state.DEGRADED, state.RECONNECTING}:
        its_server = [finding for finding in servers if finding.subject == f"server {state.server}"]
        errors = [finding for finding in (*sensors, *its_server) if finding.level is Level.ERROR]
        advice = _see(errors) or "look at its latencies and server"
        return Finding(Level.WARNING, subject, found, "STREAMING", advice)
    return Finding(Level.OK, subject, found)


def _all_bad(findings: Sequence[Finding]) -> bool:
    return all(finding.level is not Level.OK for finding in findings)


def _see(findings: Sequence[Finding]) -> str:
    """Return where the cause stands, empty where there is none."""
    subjects = ", ".join(dict.fromkeys(finding.subject for finding in findings))
    return f"because of {subjects}, above" if subjects else ""
