# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is asked of a robot whose sensors lie: no command is farther from where the arm is than it may be.

For each joint, with x where it truly is, q the first point that it is commanded, T the time until q is due (a
period; of a trajectory what the controller is given), v its `max_velocity`:

    |q - x| <= v T + v A + R

v T alone says "no faster than its limits". A joint that is led begins each step at its last command c. Its
drive does as told, so x = c, or x is on its way to c and arrives in time: a step of v T from c is one from
x. A lie that makes it seem not to follow changes c by no more than that: it is led to where it is measured.

A is how old the newest true message may be (two intervals, jitter and bursts). It counts where a step begins
at a measurement: in a hold, from the watchdog, and for a joint that is not led. The arm has gone on by v A.

R is the reach, the lie that no robot can see. From one trusted measurement to the next a joint moves at most
by `speed * elapsed`, and a sensor is off by a tolerance of its range; what is nearer is the truth for all
that anybody knows. `speed` is SPEEDING * v for a joint that is commanded, else at least a hand's. `elapsed`
is A for a single wrong message, at most LONGEST_S (two intervals of a slower sensor) for a stream, and
JITTER_S more. R counts for single wrong messages, and for joints that are not led: that is "its reach plus
one step". For a stream about a joint that is led it is zero, but for one that drifts: a hold follows it, and
what begins there is due by the age of what is measured.

Not led is a joint until CONFIRM_S after the first command that moves it after a hand-off (resume, takeover,
release, reset, the watchdog): it may still be on its way there. So is one that got none for
`max_action_age_s`. Whoever moves it by hand looks like a stream of
CONFIRM_S. Only a leap, which neither hand nor drive can do, is told from that; so of a stream that lasts as
long and has not leapt nothing is asked in the first command after a hand-off.

"After twice the time the robot stands": a joint that is measured farther away than it may lag behind, at each
message since SETTLED_S found the distance D, is commanded no further after 2 D / v + GRACE_S. A lie that the
arm catches up with, as a frozen value is, ends that time.

What a person has taken for the truth, who cleared the stop for it, is believed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import EARLY_TICK
from remote_inference.robot.motion.rules import LAG_S
from remote_inference.robot.motion.state import Tick
from support.builders import ns
from support.robot.command_judge import ROUNDING, TURN_ROUNDING
from support.robot.controllers import Controlled, Trajectory
from support.robot.lying_sensors import Lie, Restarted
from support.robot.simulation import MOVES

if TYPE_CHECKING:
    from support.robot.lying_world import LyingWorld

CONFIRM_S = 0.25  # so long the same contradiction becomes the truth
TOLERANCE = 0.01  # of the range
SPEEDING = 1.5  # times max_velocity, of a commanded joint
HAND, HAND_M = 3.0, 1.0  # rad/s and m/s, of another one
COMMANDED_S = 0.5  # so long a joint counts as commanded
LONGEST_S, JITTER_S = 0.3, 0.02  # a reach grows for so long, and messages come so much too early
LEAP, QUARTER_TURN = 10.0, math.pi / 2  # times max_velocity, and at least this far: neither hand nor drive
REMEMBERED_S = 1.0  # for so long after a lie it may still be believed
GRACE_S = 0.75  # until it is known that a joint does not follow
SETTLED_S = 0.5  # how far a joint seems to be astray is looked at for so long


class LieJudge:
    """Judges one lying world. It knows where the arm is, and nothing of what the engine believes."""

    def __init__(self, world: LyingWorld) -> None:
        self._world = world
        dim = len(world.position)
        limits = [world.contract.actions.limit_of(name) for name in world.contract.actions.names]
        self._range = np.array([limit.max - limit.min for limit in limits])
        self._astray_since_ns: list[int | None] = [None] * dim
        self._distance = np.zeros(dim)  # when a joint was found astray
        self._led_ns = np.full(dim, -ns(10))  # when each was moved by a command last ...
        self.accepted = False  # a person has cleared a stop for a measurement
        self._began_ns = np.full(dim, -ns(10))  # ... and first since the hand-off

    def see(self, columns: list[int]) -> None:
        """Look at what sensors say of some columns."""
        world = self._world
        off = np.abs(world.seen - world.position)
        for column in columns:
            lags = (LAG_S + world.late_ns / 1e9) * world.max_velocity[column] + self._tolerance(column)
            since_ns = self._astray_since_ns[column]
            if not world.is_position[column] or off[column] <= lags:
                self._astray_since_ns[column], self._distance[column] = None, 0.0
            elif since_ns is None:
                self._astray_since_ns[column], self._distance[column] = world.now_ns, off[column]
            elif world.now_ns - since_ns <= ns(SETTLED_S):
                self._distance[column] = max(self._distance[column], off[column])

    def judge_command(self, tick: Tick, arm: Controlled, rows: np.ndarray) -> None:
        """Judge the rows `[rows, joints]` that a tick commands to a controller of positions or of a pose."""
        world = self._world
        assert np.isfinite(rows).all()
        early = EARLY_TICK * arm.is_trajectory
        late_ns = tick.late_ns if arm.is_trajectory else 0
        due_s = (world.period_ns * (1.0 + early) + late_ns + (world.now_ns - world.decided_ns)) / 1e9
        ends = tick.source is CommandSource.HOLD
        said = f"{tick.source.name} to {arm.sink.type}, {self._told(arm)}"
        if arm.kind == "pose":
            self._judge_pose(arm, rows[0], due_s, said)
        else:
            step = world.max_step[arm.joints] + ROUNDING
            assert (np.abs(np.diff(rows, axis=0)) <= step).all(), "a jump within a trajectory"
            self._judge_joints(arm, rows[0], due_s, said, ends=ends)
            for column, value in zip(arm.joints, rows[0], strict=True):
                self._judge_standing(int(column), float(value))
        if tick.source in MOVES:
            begins = self._led_ns[arm.joints] <= world.handed_off_ns
            self._began_ns[arm.joints] = np.where(begins, world.now_ns, self._began_ns[arm.joints])
            self._led_ns[arm.joints] = world.now_ns

    def judge_request(self) -> None:
        """Judge that what contradicts is not shown to a policy, as long as it cannot have been confirmed."""
        world = self._world
        for column in np.flatnonzero(world.is_position):
            speed = world.max_velocity[column]
            off = abs(world.seen[column] - world.position[column])
            if self._lies(column) and not self._may_be_believed(column):
                bound = self._reach(column, speed) + speed * world.late_ns / 1e9
                assert off <= bound, (
                    f"a policy is shown a joint {off:.3f} from where it is: {self._lies(column)}"
                )

    def judge_watchdog(self, arm: Controlled, hold: np.ndarray) -> None:
        """Judge where the watchdog has just told a trajectory controller to end."""
        assert isinstance(arm.controller, Trajectory)
        due_s = (arm.controller.due_ns - self._world.now_ns) / 1e9
        self._judge_joints(arm, hold, due_s, f"the watchdog, {self._told(arm)}", ends=True)

    def _judge_joints(self, arm: Controlled, to: np.ndarray, due_s: float, said: str, *, ends: bool) -> None:
        world = self._world
        for column, goal in zip(arm.joints, to, strict=True):
            position, speed = world.position[column], world.max_velocity[column]
            is_led = self._is_led(column)
            bound = speed * due_s + ROUNDING
            if ends or not is_led:
                bound += speed * world.late_ns / 1e9
            if self._lies(column) and (not is_led or self._is_single(column) or self._drifts(column)):
                bound += self._reach(column, speed)
            if not is_led and self._may_be_believed(column):
                continue
            off = abs(goal - position)
            assert off <= bound, f"{off:.3f} off, bound {bound:.3f}: {said}, {'led' if is_led else 'not led'}"

    def _judge_pose(self, arm: Controlled, to: np.ndarray, due_s: float, said: str) -> None:
        world = self._world
        (pose,) = world.contract.actions.poses.values()
        assert (to[:3] >= np.array(pose.min) - ROUNDING).all(), "below its box"
        assert (to[:3] <= np.array(pose.max) + ROUNDING).all(), "above its box"
        column, at = int(arm.joints[0]), world.position[arm.joints]
        way = float(np.linalg.norm(to[:3] - at[:3]))
        turn = float(2.0 * np.arccos(np.clip(abs(np.dot(to[3:], at[3:])), 0.0, 1.0)))
        is_led = self._is_led(column)
        speeds = np.array([pose.max_velocity, pose.max_angular_velocity])
        bounds = speeds * due_s + np.array([ROUNDING, TURN_ROUNDING])
        if not is_led:
            bounds += speeds * world.late_ns / 1e9
        if self._lies(column) and (not is_led or self._is_single(column)):
            bounds += [self._reach(column, speeds[0], HAND_M), self._reach(column, speeds[1], span=math.pi)]
        if not is_led and self._may_be_believed(column):
            return
        assert way <= bounds[0], f"{way:.3f} m off, bound {bounds[0]:.3f}: {said}"
        assert turn <= bounds[1], f"{turn:.3f} rad off, bound {bounds[1]:.3f}: {said}"

    def _judge_standing(self, column: int, goal: float) -> None:
        world, since_ns = self._world, self._astray_since_ns[column]
        if (
            since_ns is None
            or np.isnan(world.commanded[column])
            or abs(goal - world.commanded[column]) <= ROUNDING
        ):
            return
        patience_s = 2.0 * self._distance[column] / world.max_velocity[column] + GRACE_S
        lasts_s = (world.now_ns - since_ns) / 1e9
        name = world.contract.actions.names[column]
        assert lasts_s <= patience_s, (
            f"{name} seems astray for {lasts_s:.1f} s and is led on: {self._lies(column)}"
        )

    def _is_led(self, column: int) -> bool:
        world = self._world
        at_ns = self._led_ns[column]
        is_recent = world.now_ns - at_ns <= ns(world.config.max_action_age_s)
        has_come = world.now_ns - self._began_ns[column] > ns(CONFIRM_S)
        return bool(at_ns > world.handed_off_ns and is_recent and has_come)

    def _recent(self, column: int) -> list[Lie]:
        """Return the lies about a column that are told now, or may still be believed."""
        now_ns, lies = self._world.now_ns, self._world.lies
        told = [lie for lie in lies if column in lie.columns and lie.begin_ns <= now_ns]
        return [lie for lie in told if now_ns < lie.end_ns + ns(REMEMBERED_S)]

    def _lies(self, column: int) -> list[str]:
        """Return the kinds of lies that may be believed of a column now."""
        return [type(lie).__name__ for lie in self._recent(column)]

    def _is_single(self, column: int) -> bool:
        """Return whether all that may be believed of a column are single messages."""
        return all(lie.end_ns - lie.begin_ns <= self._world.sensor_ns for lie in self._recent(column))

    def _may_be_believed(self, column: int) -> bool:
        """Return whether a stream has lasted as long as one that tells of a hand, and has not leapt."""
        world = self._world
        recent = self._recent(column)
        off = abs(world.seen[column] - world.position[column])
        silent_ns = max((lie.silent_ns for lie in recent if isinstance(lie, Restarted)), default=0)
        since_s = (world.sensor_ns + silent_ns) / 1e9  # from the last message before it
        leap = max(LEAP * world.max_velocity[column] * since_s, QUARTER_TURN)
        lasts_ns = max((min(world.now_ns, lie.end_ns) - lie.begin_ns for lie in recent), default=0)
        may_be_a_hand = self._drifts(column) or bool(off <= leap)
        return self.accepted or (lasts_ns >= ns(CONFIRM_S) and may_be_a_hand)

    def _drifts(self, column: int) -> bool:
        """Return whether a lie may be believed that goes away slowly: it never leaps."""
        return "Drifting" in self._lies(column)

    def _reach(self, column: int, speed: float, hand: float = HAND, span: float | None = None) -> float:
        world = self._world
        is_commanded = world.now_ns - world.commanded_ns[column] <= ns(COMMANDED_S)
        fastest = SPEEDING * speed if is_commanded else max(hand, SPEEDING * speed)
        longest_s = max(LONGEST_S, 2.0 * world.sensor_ns / 1e9)
        if self._is_single(column):
            longest_s = min(longest_s, world.late_ns / 1e9)
        return self._tolerance(column, span) + fastest * (longest_s + JITTER_S)

    def _tolerance(self, column: int, span: float | None = None) -> float:
        return TOLERANCE * (self._range[column] if span is None else span)

    def _told(self, arm: Controlled) -> str:
        return (
            ", ".join(sorted({kind for column in arm.joints for kind in self._lies(int(column))})) or "no lie"
        )
