# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a control tick may know, what comes of it, and what it leaves to the next: immutable values.

Times are monotonic [ns], arrays and masks are `[action_dim]`. A joint is the target of one action, also of
one that commands a velocity or an effort; the seven actions of a pose count as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.contract.actions import Actions, Home
from remote_inference.base.minimum_jerk import minimum_jerk
from remote_inference.robot.command import BoolArray, CommandSource, Float64Array
from remote_inference.robot.motion.command_mode import OperatorCommand
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.queue.plan import Plan, Progress, QueuedAction
from remote_inference.robot.safety.acceleration import Motion, find_bounds
from remote_inference.robot.safety.guard import Foreseen

Times = NDArray[np.int64]


@dataclass(frozen=True)
class TickInputs:
    """All that a tick may know beside the state.

    heard_ns: until then the executor has run what came. stop: what has stopped the robot, "" for nothing.
    unsubscribed: joints whose commands no active controller subscribes to. person: the newest command of a
    person who has taken over, None while they are silent. plan: the actions ahead. person_before: an earlier
    command of the person, and how long [s] before the newest it came; None: the person rests there.
    """

    now_ns: int
    heard_ns: int
    operator: OperatorCommand
    stop: str
    unsubscribed: BoolArray
    person: Float64Array | None
    plan: Plan
    person_before: tuple[Float64Array, float] | None = None


@dataclass(frozen=True)
class Tick:
    """The outcome of one control tick. `command` is `[action_dim]`, None when nothing is to be published.

    `horizon` `[rows, action_dim]` begins with the command; the other rows are what the next ticks will
    command if nothing new arrives, none of them beyond the age bound.

    `queued` is the row whose time it is, and `row_fraction` how much of that time has passed: 0.0 in the tick
    in which it begins, and always when a row takes one tick.

    `in_force`: nothing is commanded, or not to all, and what was commanded before goes on, so silence is not
    in order. `ends`: destinations of the trajectory controllers that a hold is for. `late_ns`: how long ago
    [ns] the joints were where it holds them: a moving arm is beyond, and may take as long to come back.
    """

    command: Float64Array | None
    source: CommandSource
    queued: QueuedAction | None = None
    age_s: float = math.nan
    interventions: tuple[str, ...] = ()
    horizon: Float64Array | None = None
    row_fraction: float = 0.0
    shadow: bool = False  # nothing is published: this is what would have been commanded
    in_force: bool = False
    ends: tuple[str, ...] = ()
    late_ns: int = 0

    @classmethod
    def alone(cls, command: Float64Array, source: CommandSource, interventions: tuple[str, ...]) -> Tick:
        """Return a tick whose command no other follows, also for trajectory controllers."""
        return cls(command, source, interventions=interventions, horizon=command[np.newaxis])

    @property
    def goal(self) -> Float64Array | None:
        """The command `[action_dim]` for action servers, None when they keep their last goal."""
        if self.horizon is None or self.shadow or not self.reaches("position", ""):
            return None
        first: Float64Array = self.horizon[0]
        return first

    def reaches(self, kind: str, destination: str) -> bool:
        """Return whether a controller gets the command. kind: of the actions that it takes.

        A hold ends horizons: of the controllers of positions, all but those that it is for get nothing. Zeros
        are a stop for velocities and efforts; all others would have them for a target. What stops others
        leaves a switch as it is.
        """
        if kind == "switch":
            return self.source not in (CommandSource.HOLD, CommandSource.ZERO)
        if kind not in ("position", "pose"):
            return True
        if self.source is CommandSource.HOLD:
            return destination in self.ends
        return self.source is not CommandSource.ZERO


@dataclass(frozen=True)
class LookAhead:
    """What trajectory controllers were sent, and execute by themselves if ticks fail to come."""

    ends_ns: Times  # when each joint's controller has executed all; 0: it was sent something else since
    end_ns: int = 0  # when all of them have
    points: Float64Array | None = None  # the last command, and the actions after it, a period apart
    foreseen: Foreseen = field(default_factory=Foreseen)  # the actions, as the guard passed them
    at_ns: int = 0  # a period before the command is due
    episode_id: int = 0  # of the actions
    executed: int = 0  # actions that are counted already

    def periods(self, now_ns: int, period_ns: int) -> float:
        """Return the periods that have passed since the command was due."""
        return (now_ns - self.at_ns) / period_ns - 1.0

    def point(self, periods: float) -> Float64Array:
        """Return where controllers are some periods after the command, on their way from point to point."""
        assert self.points is not None, "nothing was sent ahead"
        begin = min(int(periods), len(self.points) - 1)
        end = self.points[min(begin + 1, len(self.points) - 1)]
        found: Float64Array = self.points[begin] + (periods - begin) * (end - self.points[begin])
        return found

    def until_ns(self, joints: BoolArray) -> int:
        """Return until when controllers of these joints may go on along points that nothing replaced."""
        return int(self.ends_ns[joints].max(initial=0))


@dataclass(frozen=True)
class Sent:
    """What the controllers have, and what has to follow it. What did not leave changes none of it."""

    look_ahead: LookAhead
    settling_ns: Times  # until when each switch must not change
    holds: Mapping[str, int]  # pending stop commands of each trajectory controller, by destination
    motion: Motion  # of the last command; what was stopped, or may have been, stands still
    command: Float64Array | None = None  # the last one, None before the first
    stops: int = 0  # pending stop commands for velocities and efforts
    ramp_begins: bool = False  # the next action of the policy begins a ramp of the velocity limits
    ramp_ns: int | None = None  # when the last ramp began
    may_wait: bool = False  # the last tick commanded, and left nothing in force that was commanded before

    @property
    def must_stop(self) -> bool:
        """Whether anything that was commanded has still to be ended."""
        return bool(self.stops) or any(self.holds.values())


@dataclass(frozen=True)
class JointEstimate:
    """Where the joints may be, from tick to tick. Masks and arrays `[action_dim]`."""

    unknown: BoolArray  # not at the last command: a step begins where they are measured
    led_back: BoolArray  # of these, those that do not follow the last command, which their controllers have
    rests: BoolArray  # of these, those that a stop leaves at the last command, whatever is measured
    stalled: BoolArray  # have not followed, and not moved since ...
    stalled_at: Float64Array  # ... they were found here
    unsubscribed: BoolArray  # no active controller takes their commands
    led_to: Float64Array  # the last command that moved a joint, NaN before the first ...
    due_ns: int = 0  # ... and when it is due
    is_forgotten: bool = False  # another may have moved any of them since the last command
    retry_ns: int = 0  # until then what is stalled gets nothing
    commanded_ns: int = 0  # time of the last command ...
    lag_ns: int = 0  # ... and how much later than a period after it that one is due
    moved_ns: int = 0  # until then a joint may have been on its way whose command is forgotten
    heard_ns: int = 0  # until then one may have been whose controller has gone


@dataclass(frozen=True)
class Timing:
    """When ticks came, and whether this one waits for what the executor has not run yet."""

    ticked_ns: int | None = None  # the last one
    commanded: bool = False  # it did, and left nothing in force that was commanded before
    waits: bool = False  # this one does ...
    wait_ns: int = 0  # ... until then
    stuck_ns: int = 0  # without a tick before this one, if a command watchdog may have acted in it, else 0


class Homing:
    """The way home of a robot that gives up: from where it was commanded last to the contract's home.

    Targets along a minimum-jerk path (Flash and Hogan 1985); the guard bounds the steps between them. A pose
    goes along the straight line, and its orientation along the shortest arc.
    """

    def __init__(self, start: Float64Array, home: Home, begin_ns: int, masks: ActionMasks) -> None:
        """Plan the way from a point `[action_dim]`.

        Positions and poses go home, a switch stays as it is, others are zero.
        """
        self._poses = masks.poses
        self._start = np.where(masks.holds | masks.is_switch, start, 0.0)
        goal = self._start.copy()
        goal[masks.is_position] = home.positions
        for name, columns in zip(self._poses.names, self._poses.columns, strict=True):
            goal[columns] = home.poses[name]
        self._goal = self._unify(goal, None)
        self._begin_ns = begin_ns
        self._duration_ns = home.duration_s * 1e9

    def _unify(self, goal: Float64Array, reference: Float64Array | None) -> Float64Array:
        unified = self._poses.unify(goal, reference)
        assert unified is not None, "the contract has looked at the length of each quaternion"
        return unified

    def target(self, now_ns: int) -> Float64Array:
        """Return the point of the path `[action_dim]` at an instant."""
        progress = minimum_jerk((now_ns - self._begin_ns) / self._duration_ns)
        point = self._start + progress * (self._goal - self._start)
        return self._poses.turn(point, self._start, self._goal, progress)

    @staticmethod
    def longest_s(home: Home, actions: Actions) -> float:
        """Return the time [s] in which the way ends from anywhere within the limits.

        Steps that the guard makes shorter are made up for after the planned time, at most the whole way.
        """
        limits = [actions.limits[name] for name in actions.positions]
        joints_s = [(limit.max - limit.min) / limit.fastest for limit in limits]
        lines_s = [math.dist(pose.min, pose.max) / pose.max_velocity for pose in actions.poses.values()]
        arcs_s = [math.pi / pose.max_angular_velocity for pose in actions.poses.values()]
        starts_s = [axis.starting_s for axis in find_bounds(actions)]
        return home.duration_s + max(0.0, *joints_s, *lines_s, *arcs_s) + max(starts_s, default=0.0)

    def reached(self, command: Float64Array) -> bool:
        """Return whether a command is home. The guard may have made the way longer than planned."""
        goal = self._unify(self._goal, command)
        return bool(np.allclose(command, goal, rtol=0.0, atol=1e-6))


@dataclass(frozen=True)
class WayHome:
    """The one way home of a robot that gives up."""

    path: Homing | None = None
    ticks: int = 0  # that commanded home
    has_ended: bool = False  # it is home, or must not be moved there ...
    stranded: str = ""  # ... for why, in words

    def goes_on(self, operator: OperatorCommand) -> bool:
        """Return whether a robot that has given up is on its way."""
        return operator.wants_home and not operator.paused and not self.has_ended


@dataclass(frozen=True)
class AlteredCommands:
    """Which of the last commands of the policy the guard altered.

    total: commands since the window began. altered: number and rules of each altered one, oldest first.
    """

    total: int = 0
    altered: tuple[tuple[int, tuple[str, ...]], ...] = ()

    def add(self, rules: tuple[str, ...], size: int) -> AlteredCommands:
        """Return the window of `size` commands after another one, which these rules altered."""
        total, altered = self.total + 1, self.altered
        if altered and altered[0][0] <= total - size:
            altered = altered[1:]
        if rules:
            altered = (*altered, (total, rules))
        return AlteredCommands(total, altered)


@dataclass(frozen=True)
class MotionState:
    """All that control ticks remember."""

    sent: Sent
    before: Sent  # what the controllers had before the last decision
    joints: JointEstimate
    operator: OperatorCommand = field(default_factory=OperatorCommand)  # of the last tick
    timing: Timing = field(default_factory=Timing)
    progress: Progress = field(default_factory=Progress)
    home: WayHome = field(default_factory=WayHome)
    starved: str = ""  # why the last tick had no action to execute, "" when it had one
    follows_person: bool = False  # the last command is a person's
    misses_controller: bool = False  # some controller was absent in the last tick
    goes_back: bool = False  # the last tick led something back that does not follow
    back_ns: int = 0  # time on such ways, less what made up for it ...
    most_back_ns: int = 0  # ... and what may be at most
    unseen: Mapping[str, int] = field(default_factory=dict)  # ticks in a row, by trajectory controller, ...
    # ... in which it had executed all and waited for a measurement
    window: AlteredCommands = field(default_factory=AlteredCommands)

    @classmethod
    def first(cls, action_dim: int, trajectories: Mapping[str, BoolArray]) -> MotionState:
        """Return the state before the first tick. trajectories: the joints of these controllers."""
        none, never = np.zeros(action_dim, bool), np.zeros(action_dim, np.int64)
        sent = Sent(LookAhead(never), never, dict.fromkeys(trajectories, 0), Motion.rest(action_dim))
        nowhere = np.full(action_dim, np.nan)
        joints = JointEstimate(none, none, none, none, np.zeros(action_dim), none, nowhere)
        return cls(sent, sent, joints)

    def send(self, **changes: Any) -> MotionState:
        """Return the state once the controllers have something else. A command without a motion is a stop."""
        if "command" in changes:
            changes = {"motion": None, **changes}
            changes["motion"] = changes["motion"] or Motion.rest(len(changes["command"]))
        return replace(self, sent=replace(self.sent, **changes))

    def pend(self, stops: int) -> MotionState:
        """Return the state with so many stop commands pending for all that was commanded."""
        return replace(self.send(stops=stops, holds=dict.fromkeys(self.sent.holds, stops)), unseen={})
