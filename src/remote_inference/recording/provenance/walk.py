# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Walks one motion back: command, row of a chunk, request, observation, sensors, latencies, guard, policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from remote_inference.core.contract.contract import Contract, parse_contract
from remote_inference.recording.bags.bag import BagReader, open_bag
from remote_inference.recording.provenance.corrections import find_corrections
from remote_inference.recording.provenance.moment import MomentError, parse_moment, show_instant
from remote_inference.recording.provenance.motion import (
    Answered,
    Command,
    Latency,
    Motion,
    Request,
    Rows,
    SensorArrival,
)
from remote_inference.recording.provenance.reasons import find_at, find_reasons
from remote_inference.recording.provenance.recorded_command import (
    FoundCommand,
    Tell,
    find_command,
)
from remote_inference.recording.provenance.request_lines import find_lines
from remote_inference.recording.provenance.run_reader import OWN, Run, RunReader
from remote_inference.recording.timeline.answers import Answer
from remote_inference.recording.timeline.timeline_reader import find_namespace

BEFORE_NS = 3_000_000_000  # a request is sent, and recorded, within this time of its observation's capture
AFTER_NS = 5_000_000_000  # what the chunk's last rows became
FAR_S = 1.0  # a tick that is older than this at the instant asked for is not what happened then


def explain_motion(
    path: Path,
    namespace: str | None = None,
    contract: Contract | None = None,
    *,
    tick: int | None = None,
    at: str = "",
    request_log: Path | None = None,
    tell: Tell = lambda _: None,
) -> Motion:
    """Walk back the control tick of a number, or the newest one at an instant.

    namespace: of the robot, None: the only one's in the bag. contract: the robot's, None: the recorded one,
    if there is one. at: as `parse_moment` reads it. request_log: the server's file; its rotated files stand
    beside it.

    Raises BagError when the bag cannot be read or has no such tick, DocumentError for a damaged recorded
    contract, MomentError for what is no instant of the bag.
    """
    with open_bag(path) as bag:
        ns = find_namespace(bag, namespace)
        if contract is None and bag.contract:
            contract = parse_contract(bag.contract, f"{path}: recorded contract")
        at_ns = parse_moment(at, bag.start_ns, "--at") if tick is None else 0
        reader = RunReader(bag, ns, contract)
        found = find_command(
            bag, ns, tick=tick, at_ns=at_ns, others=reader.said, take_other=reader.take, tell=tell
        )
        if at_ns > bag.end_ns:
            late_s, end_s = ((ns - bag.start_ns) * 1e-9 for ns in (at_ns, bag.end_ns))
            raise MomentError(f"{path}: --at: found {late_s:.3f} s, expected {end_s:.3f} s at most, its end")
        _read_around(bag, reader, found)
        silent_s = (at_ns - bag.start_ns) * 1e-9 - found.command.t_s if tick is None else 0.0
        motion = _tell_motion(bag, ns, contract, found, reader.run, request_log=request_log)
        if silent_s > FAR_S:
            motion = _tell_silence(motion, reader.run, silent_s)
    return motion


def _tell_silence(motion: Motion, run: Run, silent_s: float) -> Motion:
    """Return a motion that says why no control tick followed it until an instant, as far as it is known."""
    at_s = motion.command.t_s + silent_s
    standing, watchdog = find_at(run.standings, at_s), find_at(run.watchdog, at_s)
    silence = f"no control tick for {silent_s:.1f} s before the instant: this is the last one before it"
    return replace(
        motion,
        reasons=(silence, *find_reasons(None, standing, watchdog)),
        standing=standing,
        watchdog=watchdog,
    )


def _read_around(bag: BagReader, reader: RunReader, found: FoundCommand) -> None:
    """Read what a command came from."""
    command = found.command
    age_ns = round((command.age_ms or 0.0) * 1e6)
    begin_ns = bag.start_ns + round(command.t_s * 1e9) - age_ns - BEFORE_NS
    end_ns = command.received_ns + 1 if found.damage else command.received_ns + AFTER_NS
    reader.read(("executed", "observation", "chunk", "decisions"), (begin_ns, end_ns))
    reader.read_policies([command])


def _tell_motion(
    bag: BagReader,
    namespace: str,
    contract: Contract | None,
    found: FoundCommand,
    run: Run,
    *,
    request_log: Path | None,
) -> Motion:
    """Return a command's motion from what was read around it."""
    command = found.command
    key = command.request
    request = run.requests.get(key) if key else None
    answer = run.answers.get(key) if key else None
    standing, watchdog = find_at(run.standings, command.t_s), find_at(run.watchdog, command.t_s)
    motion = Motion(
        bag=str(bag.path),
        namespace=namespace or "/",
        time=show_instant(bag.start_ns + round(command.t_s * 1e9)),
        command=command,
        joints=dict(zip(run.joint_names, command.action, strict=False)),
        units={name: contract.actions.unit(name) for name in contract.actions.names} if contract else {},
        reasons=() if key else find_reasons(command, standing, watchdog),
        since_s=found.since_s,
        before=None if key else found.before,
        standing=standing,
        watchdog=watchdog,
        rows=find_rows(run, command, answer),
        request=request,
        sensors=find_sensors(run, request),
        answer=_answered(answer, bag.start_ns),
        latency=find_latency(run, command, request, answer, contract) if key else None,
        corrections=find_corrections(command, answer, run.joint_names, contract) if key else (),
        policy=run.policy_of(command) if key else None,
        log_line=find_lines(request_log, {key}).get(key) if key and request_log else None,
        missing=(),
    )
    missing = list(_find_missing(motion, bag, run, request_log))
    if key and contract is not None and contract.actions.is_relative:
        missing.append("what the guard changed: the policy's rows are relative to where the robot was")
    if found.damage:
        others = [text for text in missing if found.damage not in text]
        missing = [f"this is the last control tick before the damage: {found.damage}", *others]
    return replace(motion, missing=tuple(missing))


def _find_missing(motion: Motion, bag: BagReader, run: Run, request_log: Path | None) -> Iterator[str]:
    """Yield what cannot be told of a motion, and why."""
    yield from dict.fromkeys([*run.damage, *run.missing])
    command = motion.command
    if command.request is None:
        return
    own = f"{motion.namespace.rstrip('/')}/{OWN}"
    if motion.request is None and f"{own}/observation" in bag.topics:
        yield f"request {command.seq_id} is not among the observations in the bag"
    if motion.answer is None and f"{own}/chunk" in bag.topics:
        yield f"the chunk of request {command.seq_id} is not in the bag"
    if motion.request is not None and not motion.sensors and f"{own}/decisions" in bag.topics:
        why = run.times.problem or "its part of the journal is not in the bag"
        yield f"when each sensor's message had arrived is not known: {why}"
    if motion.policy is None:
        yield "the policy's name and revision are not in the bag"
    if request_log is not None and motion.log_line is None:
        yield f"{request_log}: found no line of session {command.session_id}, request {command.seq_id}"


def find_rows(run: Run, command: Command, answer: Answer | None) -> Rows | None:
    """Return what became of the rows of a command's chunk."""
    executed = run.rows.get(command.request) if command.request else None
    if executed is None or answer is None:
        return None
    return Rows(len(answer.rows), executed.first, executed.last, executed.count, dropped=executed.first)


def find_sensors(run: Run, request: Request | None) -> tuple[SensorArrival, ...]:
    """Return when the newest messages of the sensors had arrived at a request, oldest first."""
    arrivals = run.times.arrivals.get(request.mono_ns, {}) if request else {}
    if request is None:
        return ()
    ages_ms = sorted(((request.mono_ns - at_ns) / 1e6, topic) for topic, at_ns in arrivals.items())
    return tuple(
        SensorArrival(topic, request.sent_s - age_ms * 1e-3, age_ms) for age_ms, topic in reversed(ages_ms)
    )


def find_latency(
    run: Run,
    command: Command,
    request: Request | None,
    answer: Answer | None,
    contract: Contract | None = None,
) -> Latency:
    """Return the parts of a command's age.

    The chunk's way is timed by the robot's own clock where its journal has it, otherwise by the recorder's
    receptions.
    """
    age_ms = command.age_ms
    if request is None or answer is None or age_ms is None:
        waited, inferred = (answer.queue_wait_ms, answer.inference_ms) if answer else (None, None)
        return Latency(None, None, waited, inferred, None, age_ms)
    since_request_ms = (command.t_s - request.sent_s) * 1e3
    taken_ns = run.times.chunk_ns.get((request.session_id, request.seq_id))
    if taken_ns is None:
        round_trip_ms = (answer.received_ns - request.received_ns) * 1e-6
    else:
        round_trip_ms = (taken_ns - request.mono_ns) * 1e-6
    sensing_ms = _find_sensing(run, request, contract, max(0.0, age_ms - since_request_ms))
    round_trip_ms = min(round_trip_ms, age_ms - sensing_ms)  # two clocks may differ by a little
    return Latency(
        sensing_ms=sensing_ms,
        transport_ms=max(0.0, round_trip_ms - answer.queue_wait_ms - answer.inference_ms),
        queue_wait_ms=answer.queue_wait_ms,
        inference_ms=answer.inference_ms,
        waiting_ms=age_ms - sensing_ms - round_trip_ms,
        age_ms=age_ms,
    )


def _find_sensing(run: Run, request: Request, contract: Contract | None, measured_ms: float) -> float:
    """Return how long before a request its oldest sensor was captured, which is when its message arrived.

    measured_ms: the same by two clocks. Of a camera that the policy does not see the arrival does not count.
    """
    arrivals = run.times.arrivals.get(request.mono_ns, {})
    ages_ms = {topic: (request.mono_ns - at_ns) / 1e6 for topic, at_ns in arrivals.items()}
    if contract and len(request.images) == len(contract.images) and ages_ms.keys() >= {*contract.topics}:
        return max(ages_ms[topic] for topic in contract.topics)
    return min(ages_ms.values(), key=lambda age: abs(age - measured_ms), default=measured_ms)


def _answered(answer: Answer | None, start_ns: int) -> Answered | None:
    if answer is None:
        return None
    return Answered(
        received_s=(answer.received_ns - start_ns) * 1e-9,
        status=answer.status,
        message=answer.message,
        horizon=len(answer.rows),
        superseded=answer.superseded,
        server_load=answer.server_load,
        policy_version=answer.policy_version,
    )
