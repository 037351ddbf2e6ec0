# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A motion and where it came from, as plain data.

Times `*_s` are seconds since the start of the bag, by the recorder's clock. What is not known is None, and
`Motion.missing` says why.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from remote_inference.bags.timeline.messages import RecordedChunk, RequestKey, to_robot_action
from remote_inference.base.contract.action_bounds import JointLimit
from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import OWN_SOURCE, CommandSource
from remote_inference.robot.safety import acceleration, guard
from remote_inference.robot.safety.guard import DWELL, JOINT_LIMIT, RATE_LIMITS, VELOCITY_LIMIT
from remote_inference.robot.safety.motion_bounds import ROUNDING
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.watchdog import WatchdogState


@dataclass(frozen=True)
class Command:
    """One control tick."""

    tick: int  # since the node's start
    t_s: float
    received_ns: int  # by the recorder
    source: str  # name of CommandSource
    action: tuple[float, ...]  # [action_dim] after the guard; empty when there was nothing to publish
    shadow: bool
    episode_id: int
    interventions: tuple[str, ...]
    session_id: str  # empty without a chunk
    seq_id: int
    row: int  # place of the action in the chunk
    age_ms: float | None  # since capture of the source observation
    policy_version: str
    row_fraction: float = 0.0  # part of the action's period that had passed
    earlier_seq_ids: tuple[int, ...] = ()  # requests whose chunks it is a mean of besides, oldest first

    @property
    def request(self) -> RequestKey | None:
        """The request behind the command; None without a chunk."""
        return (self.session_id, self.seq_id) if self.session_id else None


@dataclass(frozen=True)
class ImageFacts:
    """One image of an observation."""

    camera: str
    encoding: str  # of the image: jpeg, png, rgb8, ...
    width: int  # [px], 0 when the image cannot be read
    height: int
    bytes: int
    sha256: str
    stamp_ns: int | None  # by the camera's own clock


@dataclass(frozen=True)
class SensorArrival:
    """When the newest message of a sensor's topic reached the robot's node, before a request was made."""

    topic: str
    t_s: float
    before_request_ms: float


@dataclass(frozen=True)
class Request:
    """One observation that was sent."""

    session_id: str
    session_epoch: int
    seq_id: int
    episode_id: int
    episode_start: bool
    task: str
    sent_s: float
    received_ns: int
    mono_ns: int  # the robot's monotonic clock when sent
    delay_steps: int
    prefix_rows: int  # actions of the running chunk that the policy had to continue
    history_steps: int
    state: tuple[float, ...]
    images: tuple[ImageFacts, ...]
    capture_skew_ms: float = 0.0  # between the oldest and the newest content that it shows


@dataclass(frozen=True)
class ChunkUse:
    """What became of a chunk's actions, as far as the bag shows."""

    horizon: int
    first: int  # action that was executed first
    last: int  # action that was executed last
    executed: int
    dropped: int  # actions before the first: stale when the chunk arrived


@dataclass(frozen=True)
class Latency:
    """Where the age of a command came from [ms]; the parts add up to `age_ms`."""

    sensing_ms: float | None  # capture of the oldest sensor to request
    transport_ms: float | None  # both ways of the network, and the nodes' overhead
    queue_wait_ms: float | None
    inference_ms: float | None
    waiting_ms: float | None  # chunk's arrival to this tick
    age_ms: float | None


@dataclass(frozen=True)
class Correction:
    """What the guard did to one joint."""

    joint: str
    rule: str  # empty when it is not known which of the tick's rules
    before: float
    after: float


@dataclass(frozen=True)
class RobotStatus:
    """The robot's ClientState from an instant on, until the next change."""

    t_s: float
    state: str
    cause: str
    paused: bool
    paused_s: float | None  # since when; None while it is not
    pause_cause: str  # empty while it is not, and in bags of older releases
    stop: str
    taken_over: bool
    server: str
    task: str
    episode_id: int
    stale_sources: tuple[str, ...]
    injected_fault: str


@dataclass(frozen=True)
class WatchdogChange:
    """The command watchdog's state from an instant on, until the next change."""

    t_s: float
    state: str
    cause: str
    stops: tuple[str, ...]


@dataclass(frozen=True)
class Policy:
    """A server's policy."""

    fingerprint: str
    name: str
    revision: str
    server: str
    manifest_digest: str  # SHA-256 of the manifest that it was loaded from, empty when not known


@dataclass(frozen=True)
class ChunkSummary:
    """A chunk without its actions."""

    received_s: float
    status: str
    message: str
    horizon: int
    superseded: int
    server_load: float
    policy_version: str


@dataclass(frozen=True)
class Motion:
    """One command, and what it came from."""

    bag: str
    namespace: str
    time: str  # of the tick: UTC, ISO 8601
    command: Command
    joints: dict[str, float]
    units: dict[str, str]  # by joint, empty without a contract
    reasons: tuple[str, ...]  # why this was commanded and no row of a chunk; empty with one
    since_s: float  # begin of the ticks of this source in a row
    before: Command | None  # without a chunk: the last command before that had one
    standing: RobotStatus | None
    watchdog: WatchdogChange | None
    rows: ChunkUse | None
    request: Request | None
    sensors: tuple[SensorArrival, ...]
    answer: ChunkSummary | None
    latency: Latency | None
    corrections: tuple[Correction, ...]
    policy: Policy | None
    log_line: dict[str, Any] | None  # of the server's request log
    missing: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "found": "chunk" if self.command.request else "no_chunk"}


def find_corrections(
    command: Command, answer: RecordedChunk | None, joint_names: Sequence[str], contract: Contract | None
) -> tuple[Correction, ...]:
    """Return the joints whose command differs from the chunk's action, with the rule for each.

    Relative actions are not compared with the commands: they say how far, and not where to. Nor are the
    actions of a chunk of which the command is a mean.

    With a contract, an action beyond a joint's limit is known to have been clamped to it. Without one, the
    rule is known only where the tick names one alone, and the action is in the policy's units. Between two
    actions, no recording holds what the guard was given.
    """
    if answer is None or command.row_fraction or not command.action or command.row >= len(answer.actions):
        return ()
    if command.earlier_seq_ids or (contract is not None and contract.actions.is_relative):
        return ()
    given = answer.actions[command.row]
    after = np.array(command.action)
    if len(joint_names) != len(after):
        return ()
    if contract is not None and contract.actions.names == tuple(joint_names):
        row = to_robot_action(given, after, contract)
    else:
        row = given.astype(np.float64)
    if row is None or row.shape != after.shape:
        return ()
    changed = np.flatnonzero(np.abs(after - row) > ROUNDING)
    only = command.interventions[0] if len(command.interventions) == 1 else ""
    found = []
    for place in changed.tolist():
        name, rule = joint_names[place], only
        known = contract is not None and name in contract.actions.names
        limit = contract.actions.limit_of(name) if contract is not None and known else None
        if limit is not None and limit.kind == "switch":
            if DWELL not in command.interventions or not _waited(limit, row[place], after[place]):
                continue
            rule = DWELL
        elif limit is not None:
            is_beyond = abs(np.clip(row[place], limit.min, limit.max) - row[place]) > ROUNDING
            rates = (rule for rule in RATE_LIMITS if rule in command.interventions)
            is_at_end = is_beyond and JOINT_LIMIT in command.interventions
            rule = JOINT_LIMIT if is_at_end else next(rates, VELOCITY_LIMIT)
        found.append(Correction(name, rule, float(row[place]), float(after[place])))
    return tuple(found)


def _waited(limit: JointLimit, number: float, command: float) -> bool:
    """Return whether a switch is not where a number leads it; its command is never just the number."""
    closes = limit.closes_above is not None and number > limit.closes_above
    opens = limit.opens_below is not None and number < limit.opens_below
    return (closes and command < limit.max - ROUNDING) or (opens and command > limit.min + ROUNDING)


SOURCES: Mapping[str, str] = {
    CommandSource.NONE.name: "nothing was commanded: the controller keeps its last target",
    CommandSource.REPEAT_LAST.name: "the fallback repeated the last command",
    CommandSource.ZERO.name: "zeros, for velocities and efforts alone: a fallback or a stop",
    CommandSource.HOMING.name: "a point of the way home was commanded",
    CommandSource.HOLD.name: "the last command was held, to end the trajectory that its controller executes",
    CommandSource.HUMAN.name: "a person commanded, after a takeover",
}
RULES: Mapping[str, str] = {
    guard.AGE: "the queued actions were older than max_action_age_s",
    guard.NON_FINITE: "the action or its reference was not finite",
    guard.ORIENTATION: "a pose's quaternion was too short to say an orientation",
    guard.SENSOR_AGE: "a sensor had fallen silent, or no fresh joint position was known to step from",
    guard.FOLLOWING_ERROR: "a joint did not follow its commands",
    guard.JOINT_LIMIT: "the command was clamped to a joint's limits",
    guard.DWELL: "a switch that had changed a moment ago stayed as it was",
    guard.VELOCITY_LIMIT: "the command's step was cut to a joint's velocity limit",
    acceleration.ACCELERATION_LIMIT: "a joint's or a pose's velocity was to change faster than it may",
    acceleration.JERK_LIMIT: "a joint's or a pose's acceleration was to change faster than it may",
}
_TRIPPED = {WatchdogState.TRIPPED.name, WatchdogState.RETURNED.name}

Status = TypeVar("Status", RobotStatus, WatchdogChange)


def find_at(changes: Sequence[Status], t_s: float) -> Status | None:
    """Return the state at an instant. changes: in order of their instants."""
    place = bisect_right(changes, t_s, key=lambda one: one.t_s)
    return changes[place - 1] if place else None


def since_text(t_s: float | None) -> str:
    """Return since when something holds, in words: what is latched may be older than the bag."""
    return f"{t_s:.3f} s" if t_s is not None and t_s >= 0.0 else "before the recording"


def find_reasons(
    command: Command | None, standing: RobotStatus | None, watchdog: WatchdogChange | None
) -> tuple[str, ...]:
    """Return why a tick executed no action of a chunk, or, with None, why no tick came: the cause first."""
    found = [_name_source(command)] if command else []
    if watchdog is not None and watchdog.state in _TRIPPED:
        found.append(f"the command watchdog had stopped the controllers: {watchdog.cause}")
    if command is not None:
        found += [f"guard: {RULES.get(rule, rule)}" for rule in command.interventions]
    if standing is None:
        return tuple(found)
    if standing.stop:
        found.append(f"stopped: {standing.stop}")
    if standing.paused:
        why = f": {standing.pause_cause}" if standing.pause_cause else ""
        found.append(f"the robot was paused since {since_text(standing.paused_s)}{why}")
    if standing.taken_over:
        found.append("a person had taken over")
    if standing.stale_sources and not standing.paused:
        found.append(f"without fresh messages: {', '.join(standing.stale_sources)}")
    if standing.state != State.STREAMING.name:
        found.append(f"the node was {standing.state}: {standing.cause or 'no cause given'}")
    if standing.injected_fault:
        found.append(f"fault injection was active: {standing.injected_fault}")
    return tuple(found)


def _name_source(command: Command) -> str:
    unknown = f"the command's source is {command.source}"
    if command.source.startswith(OWN_SOURCE):
        unknown = f"the fallback commanded by a rule of its own ({command.source})"
    return SOURCES.get(command.source, unknown)
