# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The judge: decides from an arm's own records and clock alone whether its commands were safe.

Each command says from which capture of the arm's state it was computed (arm.py explains how), so the judge
needs no statement of the node itself, but for the times of its ticks: when it was stuck.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

FPS = 30.0
PERIOD_S = 1.0 / FPS
GAP_S = 0.5  # a longer gap between commands is a hold and no late tick
LIMITS = {"shoulder": (-2.0, 2.0), "elbow": (-1.0, 1.0)}  # [rad]
MAX_VELOCITY = {"shoulder": 3.0, "elbow": 6.0}  # [rad/s]
MAX_ACTION_AGE_S = 1.5

TRANSPORT_S = 0.5  # capture to the node plus command to the arm, on a loaded machine
UNDER_WAY_S = 0.1  # a command may be on its way while an operator's service answers
JITTER_S = 0.5  # two arrivals may be closer together than their ticks by this
STUCK_S = 0.2 + PERIOD_S  # without a tick: a watchdog has stopped the controllers by then, if there is one
SENSED_S = 0.2  # maximum age of the measurement by which a node finds that a joint does not follow
FORGETTING = {"reset", "resume", "takeover", "release"}  # calls after which a node trusts measurements only
FRESH_S = 1.0  # maximum age of the measured position from which a node steps after a reset
ROUNDING = 1e-5


@dataclass(frozen=True)
class Capture:
    """One published state of the arm; its number is its index in Record.captures."""

    time_ns: int
    positions: tuple[float, ...]  # order of LIMITS
    episode: int


@dataclass(frozen=True)
class Command:
    """One received command."""

    time_ns: int  # arrival
    number: int  # the publisher's count of messages, whose gaps show lost ones
    positions: tuple[float, ...]  # order of LIMITS
    capture: float  # number of the capture behind it
    episode: float  # of that capture, as it came back
    ahead: tuple[tuple[float, ...], ...] = ()  # a trajectory's other points, one per period


@dataclass(frozen=True)
class OperatorCall:
    """One call of an operator's service."""

    name: str  # reset, pause, resume, takeover or release
    called_ns: int
    returned_ns: int
    next_capture: int  # number of the first capture published after the call


@dataclass(frozen=True)
class Outage:
    """A time in which no command moved the arm: its drives were off, or its controller was gone."""

    what: str  # drives or controller
    began_ns: int
    ended_ns: int | None = None  # None: not yet


@dataclass(frozen=True)
class ControlTick:
    """One control tick of the node, as it says itself. A number that lacks is of one that sent nothing."""

    time_ns: int
    number: int


@dataclass
class Record:
    """Everything that happened to one arm, in order."""

    captures: list[Capture] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    calls: list[OperatorCall] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    ticks: list[ControlTick] = field(default_factory=list)  # of the node, rising
    # A joint farther from its command [rad] does not follow it. The default lets one jump between its limits.
    max_following_error: float = 10.0

    def end_outage(self, time_ns: int) -> None:
        """Note that the last outage is over."""
        self.outages[-1] = replace(self.outages[-1], ended_ns=time_ns)


def number_by_arrival(commands: Sequence[Command], time_ns: int) -> int:
    """Return the number of the command after `commands`, for middlewares that do not number messages.

    Each period of the last GAP_S without a command counts as a lost command, as late ones cannot be told
    apart. These numbers always rise, so they do not reveal a second publisher.
    """
    if not commands:
        return 1
    recent_ns = [command.time_ns for command in commands if time_ns - command.time_ns <= GAP_S * 1e9]
    periods = round((time_ns - recent_ns[0]) / 1e9 / PERIOD_S) if recent_ns else 0
    return commands[-1].number + max(1, periods - len(recent_ns) + 1)


def find_violations(record: Record) -> list[str]:
    """Return the violations, one line per command and rule; empty for a safe run."""
    problems = []
    for rule in (_sources, _ages, _limits, _steps, _pace, _episodes, _pauses, _publishers):
        problems += [f"{rule.__name__.strip('_')}: {text}" for text in rule(record)]
    return problems


def _sources(record: Record) -> Iterator[str]:
    """Each command is computed from a published state of the arm, and never from an older one than before."""
    newest = -1.0
    for command in record.commands:
        if not _is_known(record, command):
            yield f"{command} comes from no capture of this arm"
            continue
        capture = record.captures[int(command.capture)]
        if command.episode != capture.episode:
            yield f"{command} mixes capture {command.capture} with episode {command.episode}"
        if command.capture < newest:
            yield f"{command} follows one of capture {newest}"
        newest = max(newest, command.capture)


def _ages(record: Record) -> Iterator[str]:
    for command in record.commands:
        if _is_known(record, command):
            age_s = (command.time_ns - record.captures[int(command.capture)].time_ns) / 1e9
            if age_s > MAX_ACTION_AGE_S + TRANSPORT_S:
                yield f"{command} is {age_s:.2f} s old"


def _limits(record: Record) -> Iterator[str]:
    for command in record.commands:
        for position, (joint, (lower, upper)) in zip(command.positions, LIMITS.items(), strict=True):
            if not lower - ROUNDING <= position <= upper + ROUNDING:  # false for NaN, too
                yield f"{command}: {joint} at {position}"


def _steps(record: Record) -> Iterator[str]:
    """Each joint is sent at most one period's way from its last command, if it heard and followed that one.

    After a controller's absence or a call such as reset, and while the drives are off, that counts from where
    it is measured. A trajectory controller goes on along its points when the next command is late: there it
    counts from where it is by then. It holds for every source of commands: for what a fallback repeats and
    for a person, too.
    """
    before: Command | None = None
    forgetting = _Forgetting(record)
    for command in record.commands:
        # Commands before the first received one had no subscriber: an arm is discovered late.
        periods = max(1, command.number - (before.number if before else 0))
        unheard = before is not None and _absence_between(record, before, command)
        if unheard:
            # Those that nobody heard began where the arm was measured; the node may know of the
            # controller a little before the first command comes through.
            since_s = (command.time_ns - unheard.ended_ns) / 1e9 if unheard.ended_ns else 0.0
            periods = min(periods, 1 + math.ceil(max(0.0, since_s) / PERIOD_S))
        for index, joint in enumerate(LIMITS):
            heard = None if unheard else before
            references = _find_references(record, forgetting, heard, command, index, periods)
            way = MAX_VELOCITY[joint] * PERIOD_S * periods + ROUNDING
            position = command.positions[index]
            if not any(lower - way <= position <= upper + way for lower, upper in references):
                yield f"{command}: {joint} is more than {periods} steps away from {before}"
        before = command


def _find_references(
    record: Record,
    forgetting: _Forgetting,
    before: Command | None,
    command: Command,
    index: int,
    periods: int,
) -> list[tuple[float, float]]:
    """Return the ranges in which a joint's step to a command may begin.

    before: the command that it heard last, if any.
    """
    oldest_ns = command.time_ns - round((FRESH_S + periods * PERIOD_S) * 1e9)
    first = bisect_left(record.captures, oldest_ns, key=_time_ns)
    last_seen = bisect_right(record.captures, command.time_ns, key=_time_ns)
    measured = [(capture.positions[index],) * 2 for capture in record.captures[first:last_seen]]
    if before is None:
        return measured
    last = before.positions[index]
    bound = record.max_following_error + SENSED_S * list(MAX_VELOCITY.values())[index]
    follows = any(abs(last - position) <= bound for position, _ in measured)
    may_be_measured = forgetting.lies_between(before, command) or _lacks_drives(record, command)
    on_its_way = _range_of_way(before, command.time_ns, index)
    return [*(measured if may_be_measured else []), *([on_its_way] if follows or not measured else [])]


def _range_of_way(command: Command, time_ns: int, index: int) -> tuple[float, float]:
    """Return where a joint may be by a time, once it has reached a command that it was sent.

    With nothing ahead it stays there. Two arrivals may be a period closer together than their ticks.
    """
    periods = min((time_ns - command.time_ns) / 1e9 / PERIOD_S, len(command.ahead))
    rows = [command.positions, *command.ahead]
    whole = int(periods)
    passed = [row[index] for row in rows[: whole + 1]]
    if whole < len(command.ahead):
        passed.append(passed[-1] + (periods - whole) * (rows[whole + 1][index] - passed[-1]))
    return min(passed), max(passed)


def _absence_between(record: Record, before: Command, command: Command) -> Outage | None:
    """Return the controller's last absence between two commands."""
    return next(
        (
            outage
            for outage in reversed(record.outages)
            if outage.what == "controller" and before.time_ns <= outage.began_ns <= command.time_ns
        ),
        None,
    )


def _lacks_drives(record: Record, command: Command) -> bool:
    """Return whether the drives are off, or were until so lately that the node may not know better."""
    return any(
        outage.what == "drives"
        and outage.began_ns <= command.time_ns
        and (outage.ended_ns is None or command.time_ns - outage.ended_ns <= FRESH_S * 1e9)
        for outage in record.outages
    )


def _pace(record: Record) -> Iterator[str]:
    """No joint is sent farther than its maximum velocity allows in the time, however commands are bunched."""
    forgetting = _Forgetting(record)
    for index, (joint, velocity) in enumerate(MAX_VELOCITY.items()):
        for direction in (1.0, -1.0):
            least, before = math.inf, None
            for command in record.commands:
                if before is not None and forgetting.lies_between(before, command):
                    least = math.inf
                surplus = direction * command.positions[index] - velocity * command.time_ns / 1e9
                if surplus - least > velocity * JITTER_S:
                    yield f"{command}: {joint} is {(surplus - least) / velocity:.2f} s ahead"
                least, before = min(least, surplus), command


def _episodes(record: Record) -> Iterator[str]:
    """After `reset` has answered, no action from before the call is commanded."""
    for call in (call for call in record.calls if call.name == "reset"):
        after = [command for command in record.commands if command.time_ns > call.returned_ns]
        # The last capture before the call may have reached the node after the reset.
        old = [command for command in after if command.capture < call.next_capture - 1]
        if old and old[0] is after[0] and old[0].time_ns - call.returned_ns < UNDER_WAY_S * 1e9:
            del old[0]
        for command in old:
            yield f"{command} belongs to the episode before {call}"


def _pauses(record: Record) -> Iterator[str]:
    """Between `pause` and `resume` nothing is commanded."""
    paused_ns: float = math.inf
    for call in record.calls:
        if call.name == "pause":
            paused_ns = call.returned_ns + UNDER_WAY_S * 1e9
        elif call.name == "resume":
            for command in record.commands:
                if paused_ns < command.time_ns < call.called_ns:
                    yield f"{command} during a pause"
            paused_ns = math.inf


def _publishers(record: Record) -> Iterator[str]:
    """One publisher numbers its messages in rising order; a second one breaks it."""
    for before, command in zip(record.commands, record.commands[1:], strict=False):
        if command.number <= before.number:
            yield f"{command} follows number {before.number}"


def _is_known(record: Record, command: Command) -> bool:
    number = command.capture
    return 0 <= number < len(record.captures) and number == int(number)


def _time_ns(event: Capture | Command) -> int:
    return event.time_ns


class _Forgetting:
    """The times of calls and stalls that may have made the measured position the node's reference."""

    def __init__(self, record: Record) -> None:
        """A node that was stuck, or had to withhold a command, steps from where it is measured, too."""
        calls = [(call.called_ns, call.returned_ns) for call in record.calls if call.name in FORGETTING]
        stuck = [
            (tick.time_ns, tick.time_ns)
            for before, tick in pairwise(record.ticks)
            if tick.time_ns - before.time_ns > STUCK_S * 1e9 or tick.number > before.number + 1
        ]
        times = sorted([*calls, *stuck])
        self._begins_ns = [begin_ns for begin_ns, _ in times]
        self._latest_ends_ns = list(accumulate((end_ns for _, end_ns in times), max))

    def lies_between(self, before: Command, command: Command) -> bool:
        """Return whether one of them, or a long silence, lies between two commands.

        `before` may come only after it, together with `command`.
        """
        silence_s = (command.time_ns - before.time_ns) / 1e9
        if silence_s > MAX_ACTION_AGE_S - TRANSPORT_S:
            return True
        begun = bisect_right(self._begins_ns, command.time_ns)
        return begun > 0 and before.time_ns <= self._latest_ends_ns[begun - 1] + UNDER_WAY_S * 1e9
