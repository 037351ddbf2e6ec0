# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Traces one command back: action of a chunk, request, observation, sensors, latencies, guard, policy."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

from remote_inference.bags.provenance.motion import (
    ChunkSummary,
    ChunkUse,
    Command,
    Latency,
    Motion,
    Request,
    SensorArrival,
    find_at,
    find_corrections,
    find_reasons,
)
from remote_inference.bags.provenance.run_reader import WATCHDOG, Run, RunReader, read_command
from remote_inference.bags.storage.bag import BagReader, IncompleteBagError, OnProgress, no_progress
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import LATE_NS, RecordedChunk, RequestKey, from_message
from remote_inference.bags.timeline.robot_bag import RobotBag, open_robot
from remote_inference.base.contract.contract import Contract
from remote_inference.base.errors import UserError


def find_lines(path: Path, wanted: Collection[RequestKey]) -> dict[RequestKey, dict[str, Any]]:
    """Return the lines by request, of the file and of the rotated ones beside it, newest file first.

    What is no line of a request log is passed over: a server that was killed leaves half a line. Raises
    UserError when the file cannot be read; names it.
    """
    found: dict[RequestKey, dict[str, Any]] = {}
    for file in (path, *sorted(path.parent.glob(f"{path.name}.[1-9]"))):
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    _take(line, wanted, found)
        except OSError as error:
            raise UserError(f"--request-log: {file}: {error.strerror}") from error
        if len(found) == len(wanted):
            break
    return found


def _take(line: str, wanted: Collection[RequestKey], found: dict[RequestKey, dict[str, Any]]) -> None:
    try:
        fields = json.loads(line, parse_constant=lambda _: None)  # NaN is no JSON
        key = fields["session_id"], int(fields["seq_id"])
        if key in wanted:
            found.setdefault(key, fields)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return


EPOCH_FROM_S = 1e8  # numbers from here on are seconds since 1970: no recording lasts three years
EXPECTED = "seconds of the run, seconds since 1970, or a time as 2026-11-22T15:04:29.5Z"


def parse_moment(text: str, start_ns: int, option: str) -> int:
    """Return the instant [ns] since 1970 that a text names. start_ns: of the run.

    Raises UserError for a text that is no instant; it says what was found and expected.
    """
    try:
        seconds = float(text)
    except ValueError:
        return _parse_date(text, option)
    if not math.isfinite(seconds) or seconds < 0 or seconds > 1e11:
        raise UserError(f"{option}: found {text}, expected {EXPECTED}")
    if seconds < EPOCH_FROM_S:
        return start_ns + round(seconds * 1e9)
    return int(Decimal(text) * 10**9)  # a float of this size is exact to a fifth of a microsecond only


def _parse_date(text: str, option: str) -> int:
    tidy = text.strip()
    for zone in ("Z", " UTC"):  # as this package writes instants
        tidy = tidy[: -len(zone)] + "+00:00" if tidy.endswith(zone) else tidy
    try:
        moment = datetime.fromisoformat(tidy)
    except ValueError:
        raise UserError(f"{option}: found {text!r}, expected {EXPECTED}") from None
    if moment.tzinfo is None:
        raise UserError(f"{option}: found {text!r} without a time zone, expected one, as in {text}Z")
    since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000


def show_instant(t_ns: int) -> str:
    """Return an instant in UTC, ISO 8601 with milliseconds."""
    moment = datetime.fromtimestamp(t_ns // 10**9, timezone.utc)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{t_ns % 10**9 // 10**6:03d}Z"


@dataclass(frozen=True)
class FoundCommand:
    """A command, and what the ticks before it show. damage: what cannot be read of the bag behind it."""

    command: Command
    since_s: float  # begin of the ticks of its source in a row
    before: Command | None  # the last one before it that executed a row of a chunk
    damage: str = ""


def find_command(
    robot: RobotBag, reader: RunReader, tick: int | None, at_ns: int, on_progress: OnProgress
) -> FoundCommand:
    """Return the control tick of a number, or with None the newest one at `at_ns`.

    reader: is given the states of the node and the watchdog on the way, so that the bag is read once.

    Raises BagError when there is none, or several of the number: a restarted node counts from zero.
    """
    bag, executed = robot.bag, robot.topic("executed")
    topics = [executed, *robot.topics("state", WATCHDOG)]
    end_ns = at_ns + LATE_NS if tick is None else None
    found: list[FoundCommand] = []
    newest: Command | None = None
    chunked: Command | None = None
    first_s, since_s, damage = math.inf, 0.0, ""
    try:
        for topic, received_ns, message in bag.messages(topics, (None, end_ns), on_progress):
            if topic != executed:
                reader.add(topic, received_ns, message)
                continue
            command = read_command(received_ns, message, bag.start_ns)
            first_s = min(first_s, command.t_s)
            if tick is None and command.t_s > bag.seconds(at_ns):
                continue
            if newest is None or command.source != newest.source or command.tick <= newest.tick:
                since_s = command.t_s
            newest = command
            if tick is None:
                found = [FoundCommand(command, since_s, chunked)]
            elif command.tick == tick:
                found.append(FoundCommand(command, since_s, chunked))
            chunked = command if command.request else chunked
    except BagError as error:
        if not found:
            raise
        reader.run.missing.append(str(error))
        damage = "" if isinstance(error, IncompleteBagError) else str(error)  # messages that lack end no bag
    if not found:
        raise _not_found(bag, tick, at_ns, first_s, newest)
    if len(found) > 1:
        times = ", ".join(f"{one.command.t_s:.3f}" for one in found)
        several = f"control tick {tick} of several runs of the node, at {times} s"
        raise BagError(f"{bag.path}: --command: found {several}, expected one: name it by --at")
    return replace(found[0], damage=damage)


def _not_found(
    bag: BagReader, tick: int | None, at_ns: int, first_s: float, newest: Command | None
) -> BagError:
    at_s = bag.seconds(at_ns)
    if math.isinf(first_s) and tick is None and at_ns + LATE_NS < bag.start_ns:
        return BagError(f"{bag.path}: --at: found {-at_s:.3f} s before the bag, expected a time in it")
    if math.isinf(first_s):
        return BagError(f"{bag.path}: found no control tick in the bag, expected one to explain")
    if tick is None:
        found = f"no control tick by {at_s:.3f} s"
        return BagError(f"{bag.path}: --at: found {found}, expected {first_s:.3f} s or later")
    last = newest.tick if newest else 0
    return BagError(f"{bag.path}: --command: found no control tick {tick}; the bag's last one is {last}")


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
    on_progress: OnProgress = no_progress,
) -> Motion:
    """Trace the control tick of a number, or the newest one at an instant, back to its origin.

    namespace, contract: as of RobotBag. at: as `parse_moment` reads it. request_log: the server's file; its
    rotated files stand beside it.

    Raises BagError when the bag cannot be read or has no such tick, DocumentError for a damaged recorded
    contract, UserError for what is no instant of the bag and for a request log that cannot be read.
    """
    with open_robot(path, namespace, contract) as robot:
        bag = robot.bag
        at_ns = parse_moment(at, bag.start_ns, "--at") if tick is None else 0
        reader = RunReader(robot)
        found = find_command(robot, reader, tick, at_ns, on_progress)
        command = found.command
        if at_ns > bag.end_ns:
            late_s, end_s = bag.seconds(at_ns), bag.seconds(bag.end_ns)
            raise UserError(f"{path}: --at: found {late_s:.3f} s, expected {end_s:.3f} s at most, its end")
        age_ns = round((command.age_ms or 0.0) * 1e6)
        begin_ns = bag.start_ns + round(command.t_s * 1e9) - age_ns - BEFORE_NS
        end_ns = command.received_ns + (1 if found.damage else AFTER_NS)
        reader.read(("executed", "observation", "chunk", "decisions"), (begin_ns, end_ns))
        reader.read_policies([command])
        silent_s = bag.seconds(at_ns) - command.t_s if tick is None else 0.0
        motion = _make_motion(robot, found, reader.run, request_log)
        if silent_s <= FAR_S:
            return motion
        at_s = command.t_s + silent_s
        standing, watchdog = find_at(reader.run.standings, at_s), find_at(reader.run.watchdog, at_s)
        silence = f"no control tick for {silent_s:.1f} s before the instant: this is the last one before it"
        reasons = (silence, *find_reasons(None, standing, watchdog))
        return replace(motion, reasons=reasons, standing=standing, watchdog=watchdog)


def _make_motion(robot: RobotBag, found: FoundCommand, run: Run, request_log: Path | None) -> Motion:
    bag, contract, command = robot.bag, robot.contract, found.command
    key = command.request
    request = run.requests.get(key) if key else None
    answer = run.answers.get(key) if key else None
    standing, watchdog = find_at(run.standings, command.t_s), find_at(run.watchdog, command.t_s)
    motion = Motion(
        bag=str(bag.path),
        namespace=robot.namespace or "/",
        time=show_instant(bag.start_ns + round(command.t_s * 1e9)),
        command=command,
        joints=dict(zip(run.joint_names, command.action, strict=False)),
        units={name: contract.actions.unit(name) for name in contract.actions.names} if contract else {},
        reasons=() if key else find_reasons(command, standing, watchdog),
        since_s=found.since_s,
        before=None if key else found.before,
        standing=standing,
        watchdog=watchdog,
        rows=find_chunk_use(run, command, answer),
        request=request,
        sensors=find_sensors(run, request),
        answer=summarise_chunk(answer, bag.start_ns),
        latency=find_latency(run, command, request, answer, contract) if key else None,
        corrections=find_corrections(command, answer, run.joint_names, contract) if key else (),
        policy=run.policy_of(command) if key else None,
        log_line=find_lines(request_log, {key}).get(key) if key and request_log else None,
        missing=(),
    )
    missing = list(_find_missing(motion, robot, run, request_log))
    if key and contract is not None and contract.actions.is_relative:
        missing.append("what the guard changed: the policy's actions are relative to where the robot was")
    elif command.earlier_seq_ids:
        missing.append("what the guard changed: its action was a mean of several chunks")
    if found.damage:
        others = [text for text in missing if found.damage not in text]
        missing = [f"this is the last control tick before the damage: {found.damage}", *others]
    return replace(motion, missing=tuple(missing))


def _find_missing(motion: Motion, robot: RobotBag, run: Run, request_log: Path | None) -> Iterator[str]:
    """Yield what is not known of a motion, and why."""
    yield from dict.fromkeys([*run.damage, *run.missing])
    command = motion.command
    if command.request is None:
        return
    if motion.request is None and robot.topics("observation"):
        yield f"request {command.seq_id} is not among the observations in the bag"
    if motion.answer is None and robot.topics("chunk"):
        yield f"the chunk of request {command.seq_id} is not in the bag"
    if motion.request is not None and not motion.sensors and robot.topics("decisions"):
        why = run.times.problem or "its part of the journal is not in the bag"
        if motion.request.mono_ns in run.times.arrivals:
            why = "requests showed sets of messages that fit together, which the journal does not name"
        yield f"when each sensor's message had arrived is not known: {why}"
    if motion.policy is None:
        yield "the policy's name and revision are not in the bag"
    if request_log is not None and motion.log_line is None:
        yield f"{request_log}: found no line of session {command.session_id}, request {command.seq_id}"


def find_chunk_use(run: Run, command: Command, answer: RecordedChunk | None) -> ChunkUse | None:
    executed = run.rows.get(command.request) if command.request else None
    if executed is None or answer is None:
        return None
    first = min(executed)
    return ChunkUse(len(answer.actions), first, max(executed), len(executed), dropped=first)


def find_sensors(run: Run, request: Request | None) -> tuple[SensorArrival, ...]:
    """Return when the newest messages of the sensors had arrived at a request, oldest first."""
    if request is None:
        return ()
    ages_ms = sorted(((age_ms, topic) for topic, age_ms in _find_ages(run, request).items()), reverse=True)
    return tuple(SensorArrival(topic, request.sent_s - age_ms * 1e-3, age_ms) for age_ms, topic in ages_ms)


def _find_ages(run: Run, request: Request) -> dict[str, float]:
    """Return how long before a request [ms] each sensor's newest message had arrived, by topic."""
    arrivals = run.times.arrivals.get(request.mono_ns, {})
    return {topic: (request.mono_ns - at_ns) / 1e6 for topic, at_ns in arrivals.items()}


def find_latency(
    run: Run,
    command: Command,
    request: Request | None,
    answer: RecordedChunk | None,
    contract: Contract | None = None,
) -> Latency:
    """Return the parts of a command's age.

    The chunk's way is timed by the robot's clock where its journal has it, else by the recorder's receptions.
    """
    age_ms = command.age_ms
    if request is None or answer is None or age_ms is None:
        waited, inferred = (answer.queue_wait_ms, answer.inference_ms) if answer else (None, None)
        return Latency(None, None, waited, inferred, None, age_ms)
    since_request_ms = (command.t_s - request.sent_s) * 1e3
    taken_ns = run.times.chunk_ns.get((request.session_id, request.seq_id))
    trip_ns = answer.received_ns - request.received_ns if taken_ns is None else taken_ns - request.mono_ns
    sensing_ms = _find_sensing(run, request, contract, max(0.0, age_ms - since_request_ms))
    round_trip_ms = min(trip_ns * 1e-6, age_ms - sensing_ms)  # two clocks may differ by a little
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
    ages_ms = _find_ages(run, request)
    if contract and len(request.images) == len(contract.images) and ages_ms.keys() >= {*contract.topics}:
        return max(ages_ms[topic] for topic in contract.topics)
    return min(ages_ms.values(), key=lambda age: abs(age - measured_ms), default=measured_ms)


def summarise_chunk(answer: RecordedChunk | None, start_ns: int) -> ChunkSummary | None:
    if answer is None:
        return None
    received_s = (answer.received_ns - start_ns) * 1e-9
    return from_message(ChunkSummary, answer, received_s=received_s, horizon=len(answer.actions))
