# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Second stage of a tick: who commands. An ordered table of rules, of which the first that applies wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property

import numpy as np

from remote_inference.robot.command import CommandSource, Float64Array
from remote_inference.robot.motion.estimate import Estimate, find_start
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.state import Homing, JointEstimate, MotionState, TickInputs
from remote_inference.robot.queue.plan import Step
from remote_inference.robot.safety.acceleration import Motion
from remote_inference.robot.safety.guard import AGE, FOLLOWING_ERROR, SENSOR_AGE, Guarded

AGED_OUT = "actions older than max_action_age_s"
QUEUE_EMPTY = "queue empty"
PERSON_SILENT = "takeover topic silent"
UNMEASURED = "no fresh joint positions to step from"
NOT_FOLLOWED = "{}: the arm does not follow"
MOST_WAYS, MARGIN_S = 2.0, 0.5  # times the time of the way back, and beyond: for ticks without a measurement
LEAK = 0.1  # of the time without a way back, which makes up for as much time on one


def names_not_following(joints: JointEstimate, rules: MotionRules) -> tuple[str, ...]:
    """Return the joints and poses that did not follow their commands, and have not moved since."""
    if not joints.stalled.any():
        return ()
    masks = rules.masks
    names = zip(rules.names, joints.stalled & ~masks.is_pose, strict=True)
    poses = zip(masks.poses.names, masks.poses.any_of(joints.stalled), strict=True)
    return tuple(name for name, is_stalled in (*names, *poses) if is_stalled)


class Order(Enum):
    """What a tick is to do."""

    LEAD = auto()  # command a target, within the limits
    SLOW_DOWN = auto()  # a step of what has nothing to execute, and must not stop at once
    LEAD_BACK = auto()  # a step of what does not follow, to where it is measured
    GO_HOME = auto()
    FALL_BACK = auto()  # command what the fallback says, or stop
    STOP = auto()  # command nothing, once what was commanded has ended
    WAIT = auto()  # command nothing, and leave in force what was commanded
    STOP_OTHERS = auto()  # the same, but velocities and efforts get zero


@dataclass(frozen=True)
class Choice:
    """What a rule has chosen, and the state that follows.

    target `[action_dim]`, of whom `source` says; start: where its step begins. onward `[ticks, action_dim]`:
    where the plan goes on, at the ticks of `MotionBounds.ahead`; None: it rests at the target. motion: of a
    target within the limits. step: of the plan. refused: rules of the guard for which nothing is led. latch:
    why the robot is stopped from the next tick on, "" for nothing.
    """

    state: MotionState
    order: Order
    target: Float64Array | None = None
    start: Float64Array | None = None
    source: CommandSource = CommandSource.NONE
    step: Step | None = None
    onward: Float64Array | None = None
    motion: Motion | None = None
    refused: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    latch: str = ""


@dataclass(frozen=True)
class Situation:
    """What the rules choose by. expired: actions that were too old to be executed."""

    state: MotionState
    estimate: Estimate
    inputs: TickInputs
    rules: MotionRules
    expired: int = 0

    @property
    def is_stopped(self) -> bool:
        operator = self.state.operator
        if self.inputs.stop:
            return True
        return (operator.halted or operator.paused) and not self.goes_home

    @property
    def goes_home(self) -> bool:
        operator = self.state.operator
        return operator.halted and self.state.home.goes_on(operator)

    @cached_property
    def start(self) -> Float64Array | None:
        """Where the next step of each joint begins, None when some joint may be anywhere."""
        return find_start(self.state, self.estimate.measured, self.rules)

    @property
    def can_step(self) -> bool:
        return self.rules.interpolation.can_step(self.state.progress)

    @cached_property
    def way_back(self) -> tuple[Float64Array, Float64Array] | None:
        """Begin and end of the way on which joints that do not follow are led back; others stay.

        From the last command to where they are measured. None when each follows, or when nobody knows.
        """
        joints, last, measured = self.state.joints, self.state.sent.command, self.estimate.measured
        if last is None or measured is None or joints.is_forgotten or not joints.led_back.any():
            return None
        unknown = joints.unknown & self.rules.masks.holds
        return np.where(unknown & ~joints.led_back, measured, last), np.where(unknown, measured, last)

    @cached_property
    def step_back(self) -> Guarded | None:
        """The next step of the way back, None when there is none, or when it ends with a step."""
        if self.way_back is None:
            return None
        begin, end = self.way_back
        motion = self.state.sent.motion
        return self.rules.guard.approach(end, begin, self.estimate.velocity_scale, motion)

    @property
    def onward(self) -> MotionState:
        """The state of a tick that leads nothing back."""
        leak_ns = round(LEAK * self.rules.period_ns)
        return replace(self.state, back_ns=max(0, self.state.back_ns - leak_ns), goes_back=False)


Rule = Callable[[Situation], Choice | None]


def select(state: MotionState, estimate: Estimate, inputs: TickInputs, rules: MotionRules) -> Choice:
    """Return what the first rule of the table chooses that applies."""
    situation = _drop_old_actions(Situation(state, estimate, inputs, rules))
    expired = situation.expired * (AGE,)
    for rule in TABLE:
        choice = rule(situation)
        if choice is not None:
            return replace(choice, counted=(*expired, *choice.counted)) if expired else choice
    raise AssertionError("the last rule applies always")


def _drop_old_actions(situation: Situation) -> Situation:
    """Return the situation without actions that are too old. A robot that is stopped keeps its plan."""
    if situation.is_stopped or situation.goes_home or situation.state.operator.taken_over:
        return situation
    oldest_ns = situation.inputs.now_ns - situation.rules.max_action_age_ns
    interpolation = situation.rules.interpolation
    progress, expired = interpolation.drop_captured_before(situation.state.progress, oldest_ns)
    return replace(situation, state=replace(situation.state, progress=progress), expired=expired)


# -- the rules -----------------------------------------------------------------------------------------------


def _stopped(situation: Situation) -> Choice | None:
    """Command nothing to a robot that is paused, stopped or has given up."""
    if not situation.is_stopped:
        return None
    return Choice(replace(situation.state, starved=""), Order.STOP)


def _going_home_late(situation: Situation) -> Choice | None:
    """Send no robot home that the command watchdog may have stopped."""
    if not (situation.goes_home and situation.state.timing.waits):
        return None
    return Choice(replace(situation.state, starved=""), Order.STOP_OTHERS)


def _going_home(situation: Situation) -> Choice | None:
    """Command the next point of the way home, or end the way for good.

    It ends when there is no home or no controller listens, and for an arm that is not measured any more, or
    does not follow: nobody is there to look at it.
    """
    if not situation.goes_home:
        return None
    state, rules = replace(situation.state, starved=""), situation.rules
    home, start, measured = rules.contract.home, situation.start, situation.estimate.measured
    if home is None:
        return end_way_home(state, "")
    if state.sent.command is None:
        return end_way_home(state, "this node never commanded it")
    if (state.joints.unsubscribed & rules.masks.holds).any():
        return end_way_home(state, "no controller hears its commands")
    if measured is None or start is None:
        stuck_ns = state.timing.stuck_ns
        # It may have moved since, or one message is wrong.
        if not stuck_ns and (state.operator.doubted or _is_measured_lately(situation)):
            return Choice(state, Order.STOP, refused=(SENSOR_AGE,), counted=(SENSOR_AGE,))
        stuck = f"since its control thread stood still for {stuck_ns / 1e9:.2f} s"
        return end_way_home(state, f"it has not been measured {stuck if stuck_ns else 'lately'}", SENSOR_AGE)
    if state.joints.stalled.any() or state.joints.led_back.any():
        # What does not follow, or has moved since, while its last command is elsewhere.
        stalled = ", ".join(names_not_following(state.joints, rules) or _names_led_back(state, rules))
        return end_way_home(state, f"{stalled}: it does not follow its commands", FOLLOWING_ERROR)
    path = state.home.path or Homing(start, home, situation.inputs.now_ns, rules.masks)
    state = replace(state, home=replace(state.home, path=path))
    target, begin = path.target(situation.inputs.now_ns), np.where(rules.masks.holds, start, 0.0)
    now_ns, ahead = situation.inputs.now_ns, rules.guard.bounds.ahead
    onward = np.stack([path.target(now_ns + ticks * rules.period_ns) for ticks in ahead])
    return Choice(state, Order.GO_HOME, target, begin, CommandSource.HOMING, onward=onward)


def end_way_home(state: MotionState, why: str, *refused: str) -> Choice:
    """Return the end of a way home, for good. why: in words; empty for a robot without a home."""
    home = replace(state.home, has_ended=True, stranded=why)
    return Choice(replace(state, home=home), Order.STOP, refused=refused, counted=refused)


def _names_led_back(state: MotionState, rules: MotionRules) -> tuple[str, ...]:
    led_back = zip(rules.names, state.joints.led_back.tolist(), strict=True)
    return tuple(name for name, is_led in led_back if is_led)


def _is_measured_lately(situation: Situation) -> bool:
    seen = situation.estimate.seen
    return seen is not None and bool(np.isfinite(seen[situation.rules.masks.holds]).all())


def _late(situation: Situation) -> Choice | None:
    """Command nothing new to a robot that the watchdog may have stopped; the last command stays.

    Neither the policy goes on where a person has led, nor a person who is silent.
    """
    if not situation.state.timing.waits:
        return None
    state = situation.state
    if situation.state.operator.taken_over:
        goes_on = situation.inputs.person is not None and state.follows_person
        return Choice(state, Order.WAIT if goes_on else Order.STOP_OTHERS)
    if situation.can_step and not state.follows_person:
        if not situation.rules.trajectories:  # what was commanded before goes on in this action's time
            progress, _ = situation.rules.interpolation.step(state.progress, situation.inputs.now_ns)
            state = replace(state, progress=progress)
        return Choice(state, Order.WAIT)
    starved = AGED_OUT if situation.expired else state.starved or QUEUE_EMPTY
    return Choice(replace(state, starved=starved), Order.STOP_OTHERS)


def _led_back(situation: Situation) -> Choice | None:
    """Step what does not follow to where it is measured, in each tick.

    A measurement that is wrong, and within reach, then throws no arm there. One that drifts, or jumps to and
    fro, takes the arm along at the velocity limit: a robot that is led back for much longer than the way
    needs stops, and what was led back stays where it is.
    """
    step, way = situation.step_back, situation.way_back
    if step is None or step.action is None or way is None:
        return None
    state, rules = situation.state, situation.rules
    most_ns = state.most_back_ns
    if not state.goes_back:
        longest_ns = round((MOST_WAYS * rules.guard.way_s(*way) + MARGIN_S) * 1e9)
        most_ns = max(longest_ns, most_ns if state.back_ns else 0)
    back_ns, joints, latch = state.back_ns + rules.period_ns, state.joints, ""
    if back_ns > most_ns:
        latch = f"following: {', '.join(_names_led_back(state, rules))}: led back for too long"
        back_ns, joints = 0, replace(joints, rests=joints.rests | joints.led_back)
    state = replace(
        state,
        joints=joints,
        starved=_not_followed(situation),
        back_ns=back_ns,
        most_back_ns=most_ns,
        goes_back=True,
    )
    target = np.where(rules.masks.goes_on, 0.0, step.action)
    refused = (FOLLOWING_ERROR,)
    return Choice(
        state,
        Order.LEAD_BACK,
        target,
        source=CommandSource.REPEAT_LAST,
        motion=step.motion,
        refused=refused,
        counted=refused,
        latch=latch,
    )


def _silent_person(situation: Situation) -> Choice | None:
    """Fall back while a person who has taken over sends nothing."""
    if not situation.state.operator.taken_over or situation.inputs.person is not None:
        return None
    return Choice(replace(situation.onward, starved=PERSON_SILENT), Order.FALL_BACK)


def _not_followed(situation: Situation) -> str:
    return NOT_FOLLOWED.format(", ".join(names_not_following(situation.state.joints, situation.rules)))


def _not_following(situation: Situation) -> Choice | None:
    """Fall back for an arm that does not follow."""
    if situation.estimate.may_lead:
        return None
    state = replace(situation.onward, starved=_not_followed(situation))
    return Choice(state, Order.FALL_BACK, refused=(FOLLOWING_ERROR,), counted=(FOLLOWING_ERROR,))


def _not_measured(situation: Situation) -> Choice | None:
    """Fall back for an arm whose position is unknown."""
    if not situation.rules.guard.needs_position:
        return None
    if situation.state.operator.taken_over:  # no age bound ends a person's commands
        is_known = situation.estimate.measured is not None
    else:
        is_known = situation.start is not None or not situation.can_step
    if is_known:
        return None
    state = replace(situation.onward, starved=UNMEASURED)
    return Choice(state, Order.FALL_BACK, refused=(SENSOR_AGE,), counted=(SENSOR_AGE,))


def _person(situation: Situation) -> Choice | None:
    """Command what a person sends who has taken over."""
    if not situation.state.operator.taken_over:
        return None
    state, person = replace(situation.onward, starved=""), situation.inputs.person
    onward = _person_onward(situation)
    return Choice(state, Order.LEAD, person, situation.start, CommandSource.HUMAN, onward=onward)


def _person_onward(situation: Situation) -> Float64Array | None:
    """Return where a person goes on as in the last messages `[ticks, action_dim]`; None: nobody knows."""
    inputs, rules = situation.inputs, situation.rules
    person, before, bounds = inputs.person, inputs.person_before, rules.guard.bounds
    if person is None or before is None or not bounds.exist:
        return None
    begin = rules.masks.poses.unify(before[0], person) if rules.masks.poses.exist else before[0]
    if begin is None or not np.isfinite(person - begin).all():
        return None
    ticks_s = rules.period_ns / 1e9 * np.array(bounds.ahead)
    onward: Float64Array = person + ticks_s[:, np.newaxis] * (person - begin) / before[1]
    return onward


def _plan(situation: Situation) -> Choice | None:
    """Command the next point of the plan, or fall back where it has none."""
    rules, now_ns = situation.rules, situation.inputs.now_ns
    progress, step = rules.interpolation.step(situation.state.progress, now_ns)
    state, expired = replace(situation.onward, progress=progress), situation.expired > 0
    if step is None:
        starved = AGED_OUT if expired else state.starved or QUEUE_EMPTY
        refused = (AGE,) if expired else ()
        return Choice(replace(state, starved=starved), Order.FALL_BACK, refused=refused)
    return Choice(
        replace(state, starved=""),
        Order.LEAD,
        step.point,
        situation.start,
        CommandSource.CHUNK,
        step,
        rules.interpolation.points_after(situation.state.progress, progress, rules.guard.bounds.ahead)
        if rules.guard.bounds.exist
        else None,
    )


TABLE: tuple[Rule, ...] = (
    _stopped,
    _going_home_late,
    _going_home,
    _late,
    _led_back,
    _silent_person,
    _not_following,
    _not_measured,
    _person,
    _plan,
)
