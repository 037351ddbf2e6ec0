# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""First stage of a tick: where may each joint be, by its last command and by what is measured.

What was measured before a joint was on its way says nothing of where it is by now: each command, each
controller that goes or is back and each stall moves the instant from which on a measurement counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from remote_inference.robot.command import BoolArray, Float64Array
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.state import (
    AlteredCommands,
    JointEstimate,
    MotionState,
    TickInputs,
    Times,
    Timing,
)
from remote_inference.robot.safety.acceleration import Motion
from remote_inference.robot.safety.motion_bounds import SETTLED
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS

EARLY_TICK = 0.1  # fraction of a period by which a tick may come too early
WAIT_NS = 30_000_000  # of ticks faster than this, until the executor has run what waited
RECENT_NS = 50_000_000  # age of a measurement that says where a moving arm is: two rounds of the worker
BY_HAND_NS = 100_000_000  # age of one that says where an arm is that a hand may have moved until now
CATCH_UP_SCALE = 0.5  # of the velocity limits, while controllers have farther to go than a step
RETRY_NS = 1_000_000_000  # pause before a joint that does not follow is offered single steps


@dataclass(frozen=True)
class Estimate:
    """What one tick knows of the joints, arrays `[action_dim]`.

    measured: where they are, None when one of them may be anywhere. positions, times_ns: where each was
    measured last, and when; None: nobody knows. since_ns: an earlier measurement says nothing of where a
    joint is. oldest_ns: nor does one from before. may_lead: each joint follows, or is tried again. lag_ns:
    time that trajectory controllers need beyond a period for this tick's step: it begins where a moving arm
    was measured so long ago, or at a last command that needs more, too. velocity_scale: fraction of the
    velocity limits that the step may use.
    """

    now_ns: int
    measured: Float64Array | None
    positions: Float64Array | None
    times_ns: Times
    since_ns: int
    oldest_ns: int
    may_lead: bool
    lag_ns: int
    velocity_scale: float

    @property
    def ages_ns(self) -> Times:
        """How long ago each joint was measured."""
        return self.now_ns - self.times_ns

    @property
    def found(self) -> Float64Array | None:
        """Where each joint is, NaN of one that may be anywhere."""
        return _measured_since(self.positions, self.times_ns, max(self.since_ns, self.oldest_ns))

    @property
    def seen(self) -> Float64Array | None:
        """Where each joint was lately, NaN of one that was not measured."""
        return _measured_since(self.positions, self.times_ns, self.oldest_ns)


def estimate(
    state: MotionState, inputs: TickInputs, rules: MotionRules
) -> tuple[MotionState, Estimate, list[str]]:
    """Return the state of this tick, where its joints may be, and the guard's rules that count."""
    operator, before, last = inputs.operator, state.operator, state.timing
    was_led, commanded_ns = state.joints.led_back, state.joints.commanded_ns
    was_stopped = operator.losses != before.losses
    if operator.withheld != before.withheld:
        state = replace(state, sent=state.before)
    timing = _update_timing(state, inputs, rules, was_stopped=was_stopped)
    is_lost = was_stopped or timing.stuck_ns > 0  # a command watchdog may have stopped the controllers
    state = replace(state, operator=operator, timing=timing, progress=state.progress.go_on(inputs.plan))
    state, counted = _catch_up(state, inputs.now_ns, rules)
    joints = _update_subscribed(state, inputs.unsubscribed, rules)
    if operator.forgets != before.forgets:
        joints = forget(joints, inputs.now_ns, rules)
        state = replace(state, window=AlteredCommands(), progress=state.progress.end_action())
    if operator.blend_ins != before.blend_ins:
        state = state.send(ramp_begins=rules.ramp_ns > 0)
    state = _lose_command(replace(state, joints=joints), inputs.now_ns, rules, is_lost=is_lost)
    state, found = _measure(state, inputs.now_ns, rules)
    is_absent = bool(state.joints.unsubscribed.any())
    if state.joints.stalled.any() or (state.misses_controller and not is_absent):
        state = state.send(ramp_begins=rules.ramp_ns > 0)  # what is back begins as gently as it was tried
    state = replace(state, misses_controller=is_absent)
    if rules.guard.bounds.exist:
        goes_on = (last.commanded or last.waits) and operator.withheld == before.withheld
        goes_on &= inputs.now_ns - commanded_ns <= rules.moves_for_ns
        state = state.send(motion=state.sent.motion.where(_find_moving(state, rules, was_led, goes_on)))
    return replace(state, before=state.sent), found, counted


def _find_moving(state: MotionState, rules: MotionRules, was_led: BoolArray, goes_on: bool) -> BoolArray:
    """Return the mask `[action_dim]` of what still moves as its last command did.

    In silence drives stop, but trajectory controllers go on along their points. What is led back begins at
    rest: was_led: before this tick.
    """
    joints, moving = state.joints, np.full(len(rules.names), goes_on)
    if state.sent.look_ahead.points is not None:
        moving |= rules.is_led_ahead
    return moving & ((joints.led_back & was_led) | ~joints.unknown) & (not is_forgotten(state))


def forget(joints: JointEstimate, now_ns: int, rules: MotionRules) -> JointEstimate:
    """Forget that joints are at their last commands: another may have moved them, by hand until now."""
    moved_ns = max(joints.moved_ns, joints.commanded_ns + rules.period_ns, now_ns - BY_HAND_NS)
    stalled = np.zeros_like(joints.stalled)
    return replace(joints, is_forgotten=True, moved_ns=moved_ns, stalled=stalled)


# -- ticks that came late ------------------------------------------------------------------------------------


def _update_timing(
    state: MotionState, inputs: TickInputs, rules: MotionRules, *, was_stopped: bool
) -> Timing:
    """Return whether a tick waits for what was not received, and may come after a stop of the watchdog.

    A command watchdog stops a robot whose node is silent, and its word of that may be on the way: a tick that
    comes late must not lead the robot on before the node has heard what came meanwhile. Once, and not for
    long: where every tick is late, what was commanded before would go on.
    """
    timing, now_ns = state.timing, inputs.now_ns
    gap_ns = 0 if timing.ticked_ns is None else now_ns - timing.ticked_ns
    stuck_ns = gap_ns if gap_ns > rules.given_up_after_ns else 0
    is_stale = now_ns - inputs.heard_ns > EXECUTOR_STALE_NS
    is_late = gap_ns > rules.late_after_ns
    begins = (timing.commanded and is_late) or (state.sent.may_wait and is_stale)
    wait_ns = timing.wait_ns
    if begins:
        wait_ns = now_ns + WAIT_NS
    elif timing.waits and is_late:  # time in which nothing ran does not count
        wait_ns += gap_ns
    goes_on = timing.waits and is_stale and now_ns < wait_ns
    waits = (begins or goes_on) and rules.can_go_on and not was_stopped and not stuck_ns
    return replace(timing, ticked_ns=now_ns, wait_ns=wait_ns, waits=waits, stuck_ns=stuck_ns)


def _catch_up(state: MotionState, now_ns: int, rules: MotionRules) -> tuple[MotionState, list[str]]:
    """Skip the actions that controllers executed by themselves since the last tick; return their clamps, too.

    They go on as long as nothing else is commanded. When another may have stopped them, the actions' time has
    passed all the same.
    """
    ahead = state.sent.look_ahead
    if ahead.points is None:
        return state, []
    periods = ahead.periods(now_ns, rules.period_ns)
    # Rounded down: no action counts before the controller has reached it.
    executed = max(0, min(int(periods + EARLY_TICK), len(ahead.points) - 1))
    ticks_ns = [ahead.at_ns + tick * rules.period_ns for tick in range(ahead.executed + 1, executed + 1)]
    progress = rules.interpolation.skip(state.progress, ticks_ns, ahead.episode_id)
    state = replace(state, progress=progress).send(look_ahead=replace(ahead, executed=executed))
    if state.timing.stuck_ns:
        return state, []
    if periods > 0.0:
        last = state.sent.command
        assert last is not None, "a controller is led before it goes on by itself"
        command = np.where(rules.is_led_ahead, ahead.point(max(periods, executed)), last)
        begin, motion = max(0, executed + 1 - SETTLED), Motion.rest(len(last))
        if periods < len(ahead.points) - 1:  # on its way to the next point
            under_way = ahead.points[begin : executed + 2]
            motion = rules.guard.bounds.motion_of(under_way, None if begin else state.sent.motion)
        state = state.send(command=command, motion=motion)
    return state, ahead.foreseen.rules_of(ahead.executed, executed)


# -- joints --------------------------------------------------------------------------------------------------


def _update_subscribed(state: MotionState, unsubscribed: BoolArray, rules: MotionRules) -> JointEstimate:
    """Return the joints with the controllers that subscribe; one that went may have the last command.

    An arm without a controller is anywhere but at its last command. Its joints' steps begin where they are
    measured until a controller has a command again, so that one that starts late or comes back does not jump.
    """
    joints = state.joints
    if state.sent.command is not None and (unsubscribed & ~joints.unsubscribed).any():
        joints = replace(joints, heard_ns=joints.commanded_ns + rules.period_ns)
    unknown = joints.unknown | rules.masks.poses.whole(unsubscribed)
    return replace(joints, unsubscribed=unsubscribed, unknown=unknown)


def _lose_command(state: MotionState, now_ns: int, rules: MotionRules, *, is_lost: bool) -> MotionState:
    """Mark joints that another may have moved: the last command says nothing of them."""
    joints = state.joints
    if is_lost:
        joints = _lose(joints, now_ns)
    if now_ns - joints.commanded_ns > rules.max_action_age_ns:  # another node may have moved the robot
        joints = _lose(joints, joints.commanded_ns + rules.period_ns)
    state = replace(state, joints=joints)
    if not is_forgotten(state):
        return state
    # As long as a trajectory goes on, it moves the joints.
    moved_ns = max(joints.moved_ns, min(_recent_ns(now_ns, rules), state.sent.look_ahead.end_ns))
    return replace(state, joints=replace(joints, moved_ns=moved_ns))


def _lose(joints: JointEstimate, moved_ns: int) -> JointEstimate:
    """Mark each joint as unknown: until an instant [ns] another may have moved it."""
    everywhere, nowhere = np.ones_like(joints.unknown), np.zeros_like(joints.unknown)
    return replace(
        joints,
        is_forgotten=True,
        unknown=everywhere,
        led_back=nowhere,
        rests=nowhere,
        moved_ns=max(joints.moved_ns, moved_ns),
    )


def is_forgotten(state: MotionState) -> bool:
    """Return whether another may have moved the robot since its last command, or there was none."""
    return state.joints.is_forgotten or state.sent.command is None


def find_start(state: MotionState, measured: Float64Array | None, rules: MotionRules) -> Float64Array | None:
    """Return where the next step of each joint begins, None when some joint may be anywhere.

    At its last command, or where it is measured. A switch begins at NaN before its first command.
    """
    return find_place(state, state.joints.unknown | is_forgotten(state), measured, rules)


def find_place(
    state: MotionState, elsewhere: BoolArray, measured: Float64Array | None, rules: MotionRules
) -> Float64Array | None:
    """Return where joints are: at the last command, but those `elsewhere` where they are measured.

    None when one of these may be anywhere. Velocities and efforts that are elsewhere begin at zero.
    """
    last, holds, is_switch = state.sent.command, rules.masks.holds, rules.masks.is_switch
    elsewhere = elsewhere & ~is_switch
    if last is not None and not elsewhere.any():
        return last
    if measured is not None:
        found = np.where(holds, measured, 0.0)
    elif (holds if last is None else holds & elsewhere).any():
        return None
    else:
        found = np.zeros(len(elsewhere))
    if last is None:
        return np.where(is_switch, np.nan, found)
    return np.where(elsewhere, found, last)


def follow(
    state: MotionState, command: Float64Array, rules: MotionRules, motion: Motion | None = None
) -> MotionState:
    """Return the state once joints follow a command from now on, but those whose controller is absent."""
    joints = state.joints
    unknown = rules.masks.poses.whole(joints.unsubscribed)
    nowhere = np.zeros_like(unknown)
    joints = replace(joints, is_forgotten=False, unknown=unknown, led_back=nowhere, rests=nowhere)
    return replace(state, joints=joints).send(command=command, motion=motion)


def _recent_ns(now_ns: int, rules: MotionRules) -> int:
    return now_ns - max(rules.period_ns, RECENT_NS)


def _measure(state: MotionState, now_ns: int, rules: MotionRules) -> tuple[MotionState, Estimate]:
    """Return where the joints are measured, and the state with those that do not follow."""
    joints, operator, command = state.joints, state.operator, state.sent.command
    forgotten = is_forgotten(state)
    look_ahead = state.sent.look_ahead
    age_ns = operator.measured_age_ns(now_ns)
    measured = _of_one_sign(operator.measured, command, rules)
    if age_ns > rules.max_sensor_age_ns:
        measured = None
    positions = operator.measured if operator.positions is None else operator.positions
    positions = _of_one_sign(positions, command, rules)
    times_ns = operator.positions_ns
    if times_ns is None:
        times_ns = np.full(len(joints.unknown), now_ns - age_ns)
    oldest_ns = now_ns - rules.max_sensor_age_ns
    seen = _measured_since(positions, times_ns, oldest_ns)
    lost = blocked = np.zeros_like(joints.unknown)
    if operator.paused or rules.is_shadow:  # nothing that is commanded moves the arm
        joints = replace(joints, stalled=lost)
    elif command is not None and seen is not None and rules.guard.needs_position:
        led = lost if forgotten else rules.masks.holds & ~joints.unknown
        joints, lost = judge_following(
            joints, command, seen, rules, led=led, ages_s=(now_ns - times_ns) / 1e9, now_ns=now_ns
        )
        blocked = joints.stalled & (now_ns < joints.retry_ns)
    # A command that is forgotten, or lost, may have moved the joints since they were measured.
    since_ns = joints.moved_ns if forgotten else 0
    recent_ns = _recent_ns(now_ns, rules)
    subscribed = joints.unknown & ~joints.unsubscribed
    if joints.unknown.any():
        # A trajectory controller that is back has gone on all the while.
        since_ns = max(since_ns, joints.heard_ns, min(recent_ns, look_ahead.until_ns(subscribed)))
    if lost.any():  # nor does an old position say where those are that did not follow: they may by now
        since_ns = max(since_ns, min(recent_ns, joints.commanded_ns + rules.period_ns))
    if now_ns - age_ns < since_ns:
        measured = None
    state = replace(state, joints=joints)
    lag_ns = _find_lag_ns(state, measured, age_ns, now_ns, rules)
    found = Estimate(
        now_ns,
        measured,
        positions,
        times_ns,
        since_ns,
        oldest_ns,
        # Whether a joint that did not follow has moved, nobody knows who does not measure it.
        not joints.stalled.any() if measured is None else not blocked.any(),
        lag_ns,
        # No controller is faster than a limit v, and the lag of each tick is shorter by a part f of a period:
        # a command with the lag L leaves at most v L to go when the next tick comes, which adds
        # (1 - f) v period to it and gives L - f period for it, beyond a period.
        CATCH_UP_SCALE if lag_ns or joints.lag_ns else 1.0,
    )
    return state, found


def judge_following(
    joints: JointEstimate,
    command: Float64Array,
    measured: Float64Array,
    rules: MotionRules,
    *,
    led: BoolArray,
    ages_s: Float64Array,
    now_ns: int,
) -> tuple[JointEstimate, BoolArray]:
    """Return the joints, and the mask of those whose last command does not hold any more.

    Steps that are bounded against the last command alone would lead away from an arm that stands still, and
    the arm would jump when its drives come back. After a pause a joint is led on by single steps, from where
    it is measured in each tick: a controller that holds its joint moves it only when commanded. What has
    moved by a step follows again.
    """
    bounds = rules.following
    lost = bounds.find_lost(command, measured, led, ages_s)
    stalled, stalled_at, retry_ns = joints.stalled, joints.stalled_at, joints.retry_ns
    if lost.any():
        stalled_at = np.where(lost & ~stalled, measured, stalled_at)
        stalled, retry_ns = stalled | lost, now_ns + RETRY_NS
    lost = stalled
    stalled = lost & ~bounds.find_moved(stalled_at, measured)
    led_back = rules.masks.poses.whole(lost & ~joints.unsubscribed)
    joints = replace(
        joints,
        stalled=stalled,
        stalled_at=stalled_at,
        retry_ns=retry_ns,
        led_back=joints.led_back | led_back,
        unknown=joints.unknown | rules.masks.poses.whole(lost),
    )
    return joints, lost


def _find_lag_ns(
    state: MotionState, measured: Float64Array | None, age_ns: int, now_ns: int, rules: MotionRules
) -> int:
    if not rules.trajectories:  # other controllers are at their last command
        return 0
    joints = state.joints
    lag_ns = lag_left_ns(joints, now_ns)
    begin_where_measured = (joints.unknown | is_forgotten(state)) & ~joints.unsubscribed
    if measured is None or not begin_where_measured.any():
        return lag_ns
    moved_ns = max(joints.due_ns, state.sent.look_ahead.until_ns(begin_where_measured))
    return max(lag_ns, age_ns) if now_ns - age_ns < moved_ns else lag_ns


def lag_left_ns(joints: JointEstimate, now_ns: int) -> int:
    """Return the time [ns] beyond a period that controllers still need for the last command."""
    caught_up_ns = round((1.0 - CATCH_UP_SCALE) * (now_ns - joints.commanded_ns))
    return max(0, joints.lag_ns - caught_up_ns)


def _measured_since(positions: Float64Array | None, times_ns: Times, oldest_ns: int) -> Float64Array | None:
    """Return positions, NaN of joints that were measured before an instant; None: nobody knows any."""
    return None if positions is None else np.where(times_ns >= oldest_ns, positions, np.nan)


def _of_one_sign(
    measured: Float64Array | None, command: Float64Array | None, rules: MotionRules
) -> Float64Array | None:
    """Return what is measured, poses with the sign of the last command's; None without an orientation."""
    poses = rules.masks.poses
    return measured if measured is None or not poses.exist else poses.unify(measured, command)
