# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Last stage of a tick: what leaves, when it is due, and what the controllers then execute by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from remote_inference.core.robot.command import CommandSource, Float64Array
from remote_inference.core.robot.motion.estimate import Estimate, follow, lag_left_ns
from remote_inference.core.robot.motion.limit import Limited
from remote_inference.core.robot.motion.rules import MotionRules
from remote_inference.core.robot.motion.select import Order
from remote_inference.core.robot.motion.state import LookAhead, MotionState
from remote_inference.core.robot.motion.stopping import Outcome, fall_back, stop, stop_others
from remote_inference.core.robot.safety.guard import Foreseen
from remote_inference.core.robot.tick import Tick

WAIT = Tick(None, CommandSource.NONE, in_force=True)  # of a late tick: the node hears first what happened


def emit(limited: Limited, estimate: Estimate, rules: MotionRules) -> Outcome:
    """Return the tick of a choice, and the state once its command has left."""
    choice = limited.choice
    outcome = _carry_out(limited, estimate, rules)
    counted = (*choice.counted, *outcome.counted)
    state, tick = time_command(outcome.state, outcome.tick, estimate, rules)
    return Outcome(note_tick(state, tick), tick, counted)


def note_tick(state: MotionState, tick: Tick) -> MotionState:
    """Return the state with what the next tick must know of this one."""
    commanded = tick.command is not None and not tick.in_force
    state = replace(state, timing=replace(state.timing, commanded=commanded)).send(may_wait=commanded)
    if tick.command is None:
        return state
    return replace(state, follows_person=tick.source is CommandSource.HUMAN)


def _carry_out(limited: Limited, estimate: Estimate, rules: MotionRules) -> Outcome:
    choice, command = limited.choice, limited.command
    state, refused = choice.state, choice.refused
    if command is None:
        return SILENT[choice.order](state, estimate, rules, refused)
    if choice.order is Order.LEAD_BACK:
        state = state.pend(rules.stops_in_all).send(command=command)
        return Outcome(state, Tick.alone(command, choice.source, refused))
    if choice.order is Order.GO_HOME:
        return _go_home(state, command, limited.altered, rules)
    return _lead(limited, command, estimate, rules)


def _wait(state: MotionState, *_: object) -> Outcome:
    return Outcome(state, WAIT)


def _stop_others(state: MotionState, _: Estimate, rules: MotionRules, refused: tuple[str, ...]) -> Outcome:
    return stop_others(state, rules, refused, in_force=True)


SILENT: Mapping[Order, Callable[[MotionState, Estimate, MotionRules, tuple[str, ...]], Outcome]] = {
    Order.FALL_BACK: fall_back,
    Order.STOP: stop,
    Order.STOP_OTHERS: _stop_others,
    Order.WAIT: _wait,
}


def _go_home(
    state: MotionState, command: Float64Array, altered: tuple[str, ...], rules: MotionRules
) -> Outcome:
    home = state.home
    assert home.path is not None, "the way home is planned"
    ticks = home.ticks + home.path.reached(command)
    has_ended = ticks >= rules.ticks_at_home
    state = follow(replace(state, home=replace(home, ticks=ticks, has_ended=has_ended)), command, rules)
    # Home was commanded at least as often as a stop is. Whoever ends the way before: a trajectory controller
    # is told to stay where its joints are.
    state = state.pend(0 if has_ended else rules.stops_in_all)
    return Outcome(state, Tick.alone(command, CommandSource.HOMING, altered))


def _lead(limited: Limited, command: Float64Array, estimate: Estimate, rules: MotionRules) -> Outcome:
    choice, now_ns = limited.choice, estimate.now_ns
    state = choice.state.pend(rules.stops_in_all)
    sent, is_switch = state.sent, rules.masks.is_switch
    changed = is_switch if sent.command is None else is_switch & (command != sent.command)
    state = state.send(settling_ns=np.where(changed, now_ns + rules.dwell_ns, sent.settling_ns))
    if choice.step is None:
        return Outcome(follow(state, command, rules), Tick.alone(command, choice.source, limited.altered))
    source = choice.step.action.source
    if sent.ramp_begins:
        state = state.send(ramp_begins=False, ramp_ns=now_ns)
    state, points = send_ahead(state, limited, command, estimate, rules)
    tick = Tick(
        command,
        choice.source,
        choice.step.action,
        age_s=(now_ns - source.capture_ns) / 1e9,
        interventions=limited.altered,
        horizon=points,
        row_fraction=choice.step.fraction,
    )
    return Outcome(follow(state, command, rules), tick)


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
    ahead = Foreseen.none()
    if not state.joints.stalled.any():  # what does not follow is tried by single steps: it may come back
        foresight = rules.interpolation.foresee(state.progress)
        due_ns = begin_ns + rules.period_ns * np.arange(1, 1 + len(foresight.points))
        is_old = due_ns - foresight.capture_ns > rules.max_action_age_ns
        fresh = int(np.argmax(is_old)) if is_old.any() else len(is_old)
        if fresh:
            ahead = rules.guard.foresee(foresight.points[:fresh], command, velocity_scale=limited.scale)
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
