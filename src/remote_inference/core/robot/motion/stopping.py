# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot is commanded that has nothing to execute: the fallback, and how what was in force ends.

Velocities and efforts get zero until their controllers have heard it often enough; trajectories end where
their joints are; positions, poses and switches stay by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from remote_inference.core.robot.command import BoolArray, CommandSource, Float64Array
from remote_inference.core.robot.motion.estimate import Estimate, find_place, find_start, follow, is_forgotten
from remote_inference.core.robot.motion.rules import MotionRules
from remote_inference.core.robot.motion.state import MotionState
from remote_inference.core.robot.safety.guard import SENSOR_AGE, Guarded
from remote_inference.core.robot.tick import Tick

MOST_LAG_S = 0.5  # by which a joint may be behind its command when it is found not to follow


@dataclass(frozen=True)
class Outcome:
    """A tick, the state after it, and the guard's rules that count."""

    state: MotionState
    tick: Tick
    counted: tuple[str, ...] = ()


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

    One that does not hear it, or whose joints may be anywhere, is tried again until its points end by
    themselves; the others do not wait for it. Points that have ended may have led an arm nowhere whose drives
    are off: it is told where its joints are, unless they are not measured for many ticks. Ticks, for a
    process that stood still has measured nothing meanwhile either. A robot that has given up waits for none.
    One that was told often enough is told no more: a person may move its arm.
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
    return found if near is None else np.where(led_back, near, found)


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
    return rules.guard.check(command, start)


def _count_stop(state: MotionState, rules: MotionRules) -> int:
    """Return the stops that are pending after one, unless a controller does not hear it: it may come back.

    Of velocities and efforts, which go on in silence. A robot that has given up waits for nobody.
    """
    stops = state.sent.stops
    if state.operator.halted or not (state.joints.unsubscribed & rules.masks.goes_on).any():
        return max(0, stops - 1)
    return stops


def _count_silent_stop(state: MotionState, rules: MotionRules) -> MotionState:
    """Count a stop that nothing but zeros is sent for: a position controller keeps its last target."""
    return state.send(stops=_count_stop(state, rules) if rules.has_others else 0)
