# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Last stage of a tick: what leaves, when it is due, and what the controllers then execute by themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from remote_inference.robot.command import BoolArray, CommandSource, Float64Array
from remote_inference.robot.motion.estimate import (
    Estimate,
    find_place,
    find_start,
    follow,
    is_forgotten,
    lag_left_ns,
)
from remote_inference.robot.motion.limit import Limited
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.select import Choice, Order
from remote_inference.robot.motion.state import LookAhead, MotionState, Tick
from remote_inference.robot.safety.acceleration import Motion
from remote_inference.robot.safety.guard import SENSOR_AGE, Foreseen, Guarded

# -- What a robot is commanded that has nothing to execute: the fallback, and how what was in force ends
#
# Velocities and efforts get zero until their controllers have heard it often enough; trajectories end where
# their joints are; positions, poses and switches stay by themselves.

MOST_LAG_S = 0.5  # by which a joint may be behind its command when it is found not to follow


@dataclass(frozen=True)
class Outcome:
    """A tick, the state after it, and what it says to others.

    counted: rules of the guard that altered or refused something. latch: why the robot is stopped from the
    next tick on, "" for nothing. measured: where the joints were `[action_dim]`, None when nobody knows.
    """

    state: MotionState
    tick: Tick
    counted: tuple[str, ...] = ()
    latch: str = ""
    measured: Float64Array | None = None


def fall_back(
    state: MotionState, estimate: Estimate, rules: MotionRules, refused: tuple[str, ...]
) -> Outcome:
    """Return what the fallback commands in place of an action. refused: rules for which there is none."""
    last = state.sent.command
    if last is None:  # before the first action another node may drive the robot
        return stop(state, estimate, rules, refused)
    start = find_start(state, estimate.measured, rules)
    command = rules.fallback.command(last, None if is_forgotten(state) else start)
    if command is None:
        return stop(state, estimate, rules, refused)
    return _stand_in(state, rules, command, start, refused)


def stop(
    state: MotionState, estimate: Estimate, rules: MotionRules, refused: tuple[str, ...] = ()
) -> Outcome:
    """Command nothing; a robot that goes on without commands first gets stop commands for a while."""
    if not state.sent.must_stop:
        return Outcome(state, Tick(None, CommandSource.NONE, interventions=refused))
    last = state.sent.command
    assert last is not None, "stops follow a command"
    command = rules.fallback.stop(last)
    if command is not None:
        state = state.pend(_count_stop(state, rules))
        start = find_start(state, estimate.measured, rules)
        return _stand_in(state, rules, command, start, refused)
    if any(state.sent.holds.values()):
        return _hold(state, estimate, rules, refused)
    return stop_others(_count_silent_stop(state, rules), rules, refused)


def stop_others(
    state: MotionState, rules: MotionRules, refused: tuple[str, ...], *, in_force: bool = False
) -> Outcome:
    """Command zeros to controllers of velocities and efforts, if there are any, and nothing else.

    in_force: the positions' controllers go on.
    """
    if not rules.has_others:
        return Outcome(state, Tick(None, CommandSource.NONE, interventions=refused, in_force=in_force))
    last = state.sent.command
    assert last is not None, "stops follow a command"
    zeros = np.where(rules.masks.holds | rules.masks.is_switch, last, 0.0)
    tick = Tick.alone(zeros, CommandSource.ZERO, refused)
    return Outcome(state.send(command=zeros), replace(tick, in_force=in_force))


def _hold(state: MotionState, estimate: Estimate, rules: MotionRules, refused: tuple[str, ...]) -> Outcome:
    """End what trajectory controllers execute, each where its joints are by now.

    One that is not subscribed, or whose joints are unknown, is tried again until its points end by
    themselves; the others do not wait for it. Points that have ended may have led an arm nowhere whose drives
    are off: it gets where its joints are, unless they are not measured for many ticks. Ticks, for a
    process that stood still has measured nothing meanwhile either. A robot that has given up waits for none.
    One that got it often enough gets it no more: a person may move its arm.
    """
    if state.timing.waits:
        return stop_others(state, rules, refused, in_force=True)
    state = _count_silent_stop(state, rules)
    joints, sent = state.joints, state.sent
    counted: tuple[str, ...] = ()
    last = sent.command
    assert last is not None, "stops follow a command"
    is_halted = state.operator.halted
    holds, unseen = dict(sent.holds), dict(state.unseen)
    rest, moves, ends, late_ns = last, rules.masks.goes_on, [], 0
    for destination, places in rules.trajectories.items():
        if not holds[destination]:
            continue
        found = _find_rest(state, places, estimate.found, estimate.seen, rules)
        if found is None and SENSOR_AGE not in refused:
            refused, counted = (*refused, SENSOR_AGE), (SENSOR_AGE,)
        if found is not None and (is_halted or not (joints.unsubscribed & places).any()):
            holds[destination] -= 1
            found = _find_near(state, found, places, rules)
            rest, moves = np.where(places, found, rest), moves | places
            ends.append(destination)
            late_ns = int(estimate.ages_ns[joints.unknown & places].max(initial=late_ns))
        elif estimate.now_ns >= sent.look_ahead.until_ns(places):
            seen = _find_rest(state, places, estimate.seen, estimate.seen, rules)
            unseen[destination] = 0 if seen is not None else unseen.get(destination, 0) + 1
            patience = 1 if is_halted else rules.unseen_in_all
            if found is not None or unseen[destination] >= patience:
                holds[destination] = 0
    state = replace(state.send(holds=holds), unseen=unseen)
    in_force = any(left for destination, left in holds.items() if destination not in ends)
    if not ends:
        outcome = stop_others(state, rules, refused, in_force=in_force)
        return replace(outcome, counted=counted)
    # Where they are, also outside their limits: a stop leads no arm anywhere. Other joints get nothing, and
    # so their next step begins where it would have.
    command = np.where(moves, np.where(rules.masks.goes_on, 0.0, rest), last)
    hold = Tick.alone(command, CommandSource.HOLD, refused)
    hold = replace(hold, ends=tuple(ends), in_force=in_force, late_ns=late_ns)
    # A measurement that goes on and on would take the arm along, stop after stop.
    joints = replace(joints, rests=joints.rests | (joints.led_back & moves))
    return Outcome(replace(state, joints=joints).send(command=command), hold, counted)


def _find_near(
    state: MotionState, found: Float64Array, places: BoolArray, rules: MotionRules
) -> Float64Array:
    """Return where joints are held, of which those that do not follow go no farther than they may lag.

    Their drives are off, and they stay where they are measured, or what is measured is wrong.
    """
    led_back, last = state.joints.led_back & places, state.sent.command
    if not led_back.any() or last is None:
        return found
    lag_periods = MOST_LAG_S / rules.contract.period_s
    near = rules.guard.approach(np.where(led_back, found, last), last, lag_periods)
    return found if near is None or near.action is None else np.where(led_back, near.action, found)


def _find_rest(
    state: MotionState,
    places: BoolArray,
    found: Float64Array | None,
    seen: Float64Array | None,
    rules: MotionRules,
) -> Float64Array | None:
    """Return where joints rest if nothing moves them any more, None when one of them may be anywhere.

    places: mask; nothing is said of others. found, seen: NaN for joints that may be anywhere. Unlike
    `find_start`, it trusts a forgotten command: controllers that followed it are still there. For joints
    whose controller is absent, which nothing moves, it is enough that they were seen lately.
    """
    unknown = state.joints.unknown & places & ~state.joints.rests
    moving = unknown & rules.masks.holds
    measured = found if (moving & ~state.joints.unsubscribed).any() else seen
    if measured is not None and np.isnan(measured[moving]).any():
        measured = None
    return find_place(state, unknown, measured, rules)


def _stand_in(
    state: MotionState,
    rules: MotionRules,
    command: Float64Array,
    start: Float64Array | None,
    refused: tuple[str, ...],
) -> Outcome:
    """Command what the fallback returned, within the guard; kinds that it is not for get zeros, a stop.

    Switches stay at their last command.
    """
    last = state.sent.command
    assert last is not None, "a fallback stands in after a command"
    is_stood_in = rules.is_stood_in
    command = np.where(rules.masks.is_switch, last, np.where(is_stood_in, command, 0.0))
    # From where zeros are no step: a stop is never limited.
    start = None if start is None else np.where(is_stood_in, start, 0.0)
    guarded = _check(command, start, rules)
    refused = (*refused, *guarded.interventions)
    if guarded.action is None:
        outcome = stop_others(state, rules, refused)
        return replace(outcome, counted=guarded.interventions)
    state = follow(state, guarded.action, rules)
    return Outcome(state, Tick.alone(guarded.action, rules.fallback.source, refused), guarded.interventions)


def _check(command: Float64Array, start: Float64Array | None, rules: MotionRules) -> Guarded:
    """Return a command within the guard; one that leads no joint anywhere passes outside limits, too."""
    masks = rules.masks
    if start is not None and not command[masks.goes_on].any():
        held = command[masks.holds]
        if np.isfinite(held).all() and np.array_equal(held, start[masks.holds]):
            return Guarded(command)
    return rules.guard.check(command, start, motion=Motion.rest(len(command)))


def _count_stop(state: MotionState, rules: MotionRules) -> int:
    """Return the stops that are pending after one, unless a controller is absent: it may come back.

    Of velocities and efforts, which go on in silence. A robot that has given up waits for nobody.
    """
    stops = state.sent.stops
    if state.operator.halted or not (state.joints.unsubscribed & rules.masks.goes_on).any():
        return max(0, stops - 1)
    return stops


def _count_silent_stop(state: MotionState, rules: MotionRules) -> MotionState:
    """Count a stop that nothing but zeros is sent for: a position controller keeps its last target."""
    return state.send(stops=_count_stop(state, rules) if rules.has_others else 0)


WAIT = Tick(None, CommandSource.NONE, in_force=True)  # of a late tick: the node hears first what happened


def emit(limited: Limited, estimate: Estimate, rules: MotionRules) -> Outcome:
    """Return the tick of a choice, and the state once its command has left."""
    outcome = _carry_out(limited, estimate, rules)
    counted = (*limited.choice.counted, *outcome.counted)
    state, tick = time_command(outcome.state, outcome.tick, estimate, rules)
    return Outcome(note_tick(state, tick), tick, counted)


def note_tick(state: MotionState, tick: Tick) -> MotionState:
    """Return the state with what the next tick must know of this one."""
    commanded = tick.command is not None and not tick.in_force
    state = replace(state, timing=replace(state.timing, commanded=commanded)).send(may_wait=commanded)
    follows_person = tick.source is CommandSource.HUMAN if tick.command is not None else state.follows_person
    return replace(state, follows_person=follows_person)


def _carry_out(limited: Limited, estimate: Estimate, rules: MotionRules) -> Outcome:
    choice, command = limited.choice, limited.command
    state, refused = choice.state, choice.refused
    if command is None:
        return _command_nothing(choice, estimate, rules)
    if choice.order in (Order.LEAD_BACK, Order.SLOW_DOWN):
        state = state.pend(rules.stops_in_all).send(command=command, motion=limited.motion)
        return Outcome(state, Tick.alone(command, choice.source, refused))
    if choice.order is Order.GO_HOME:
        return _go_home(state, command, limited, rules)
    return _lead(limited, command, estimate, rules)


def _command_nothing(choice: Choice, estimate: Estimate, rules: MotionRules) -> Outcome:
    state, refused = choice.state, choice.refused
    match choice.order:
        case Order.WAIT:
            return Outcome(state, WAIT)
        case Order.STOP_OTHERS:
            return stop_others(state, rules, refused, in_force=True)
        case Order.STOP:
            return stop(state, estimate, rules, refused)
        case Order.FALL_BACK:
            return fall_back(state, estimate, rules, refused)
    raise AssertionError(f"{choice.order} is for a command, which is missing")


def _go_home(state: MotionState, command: Float64Array, limited: Limited, rules: MotionRules) -> Outcome:
    home = state.home
    assert home.path is not None, "the way home is planned"
    ticks = home.ticks + home.path.reached(command)
    has_ended = ticks >= rules.ticks_at_home
    state = replace(state, home=replace(home, ticks=ticks, has_ended=has_ended))
    state = follow(state, command, rules, limited.motion)
    # Home was commanded at least as often as a stop is. Whoever ends the way before: a trajectory controller
    # gets the positions of its joints.
    state = state.pend(0 if has_ended else rules.stops_in_all)
    return Outcome(state, Tick.alone(command, CommandSource.HOMING, limited.altered))


def _lead(limited: Limited, command: Float64Array, estimate: Estimate, rules: MotionRules) -> Outcome:
    choice, now_ns = limited.choice, estimate.now_ns
    state = choice.state.pend(rules.stops_in_all)
    sent, is_switch = state.sent, rules.masks.is_switch
    changed = is_switch if sent.command is None else is_switch & (command != sent.command)
    state = state.send(settling_ns=np.where(changed, now_ns + rules.dwell_ns, sent.settling_ns))
    if choice.step is None:
        state = follow(state, command, rules, limited.motion)
        return Outcome(state, Tick.alone(command, choice.source, limited.altered))
    if sent.ramp_begins:
        state = state.send(ramp_begins=False, ramp_ns=now_ns)
    state, points = send_ahead(state, limited, command, estimate, rules)
    tick = Tick(
        command,
        choice.source,
        choice.step.action,
        age_s=(now_ns - choice.step.action.source.capture_ns) / 1e9,
        interventions=limited.altered,
        horizon=points,
        row_fraction=choice.step.fraction,
    )
    return Outcome(follow(state, command, rules, limited.motion), tick)


def send_ahead(
    state: MotionState, limited: Limited, command: Float64Array, estimate: Estimate, rules: MotionRules
) -> tuple[MotionState, Float64Array]:
    """Return a command and the guarded actions after it, `[points, action_dim]`, and who has them by now.

    None of them beyond the age bound. Without trajectory controllers, the command alone.
    """
    if not rules.trajectories:
        return state, command[np.newaxis]
    assert limited.choice.step is not None, "only the policy's actions are sent ahead"
    episode_id = limited.choice.step.action.source.episode_id
    begin_ns = estimate.now_ns + estimate.lag_ns
    ahead = Foreseen()
    if not state.joints.stalled.any():  # what does not follow is tried by single steps: it may come back
        foresight = rules.interpolation.foresee(state.progress)
        due_ns = begin_ns + rules.period_ns * np.arange(1, 1 + len(foresight.points))
        is_old = due_ns - foresight.capture_ns > rules.max_action_age_ns
        fresh = int(np.argmax(is_old)) if is_old.any() else len(is_old)
        if fresh:
            ahead = rules.guard.foresee(
                foresight.points[:fresh],
                command,
                velocity_scale=limited.scale,
                known=state.sent.look_ahead.foreseen,
                motion=limited.motion,
            )
    points = np.concatenate([command[np.newaxis], ahead.actions.reshape(-1, len(command))])
    end_ns = begin_ns + len(points) * rules.period_ns
    has_it = rules.is_led_ahead & ~state.joints.unsubscribed
    ends_ns = np.where(has_it, end_ns, state.sent.look_ahead.ends_ns)
    look_ahead = LookAhead(ends_ns, end_ns, points, ahead, begin_ns, episode_id)
    return state.send(look_ahead=look_ahead), points


def time_command(
    state: MotionState, tick: Tick, estimate: Estimate, rules: MotionRules
) -> tuple[MotionState, Tick]:
    """Return a tick with the time that its command needs; from now on its joints move."""
    command, now_ns = tick.command, estimate.now_ns
    spares_positions = tick.source is CommandSource.ZERO and rules.guard.needs_position
    if command is None or spares_positions:
        return state, tick
    joints, late_ns = state.joints, max(tick.late_ns, estimate.lag_ns)
    if tick.source is CommandSource.HOLD:  # it knows itself how old each measurement is
        late_ns = max(
            tick.late_ns,
            lag_left_ns(joints, now_ns),
            _way_ns(state, command, now_ns, rules) - rules.period_ns,
        )
    joints = replace(joints, commanded_ns=now_ns, lag_ns=late_ns)
    if rules.trajectories and not np.array_equal(command, joints.led_to):
        joints = replace(joints, led_to=command, due_ns=now_ns + rules.period_ns + late_ns)
    if tick.source is not CommandSource.CHUNK:  # until now its controllers went on
        ahead = state.sent.look_ahead
        joints = replace(joints, moved_ns=max(joints.moved_ns, min(now_ns, ahead.end_ns)))
        state = state.send(look_ahead=_end_look_ahead(state, tick, rules))
    return replace(state, joints=joints), replace(tick, late_ns=late_ns)


def _way_ns(state: MotionState, goal: Float64Array, now_ns: int, rules: MotionRules) -> int:
    """Return the time [ns] that joints need, within limits, from where they are led to a goal."""
    if not rules.trajectories:
        return 0
    ahead, joints = state.sent.look_ahead, state.joints
    if ahead.points is None:
        way_s = rules.guard.way_s(joints.led_to, goal)
        return max(0, joints.due_ns - now_ns) + round(way_s * 1e9)
    led_to = ahead.point(max(0.0, ahead.periods(now_ns, rules.period_ns)))
    return round(rules.guard.way_s(led_to, goal) * 1e9)


def _end_look_ahead(state: MotionState, tick: Tick, rules: MotionRules) -> LookAhead:
    """Return what is left to execute once a command has replaced it: at whom it reaches."""
    ahead, unsubscribed = state.sent.look_ahead, state.joints.unsubscribed
    ends_ns = ahead.ends_ns
    for destination, places in rules.trajectories.items():
        if tick.source is not CommandSource.HOLD or destination in tick.ends:
            ends_ns = np.where(places & ~unsubscribed, 0, ends_ns)
    is_whole = not tick.in_force and not (rules.is_led_ahead & unsubscribed).any()
    return replace(ahead, points=None, ends_ns=ends_ns, end_ns=0 if is_whole else ahead.end_ns)
