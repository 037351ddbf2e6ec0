# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Third stage of a tick: what was chosen, within the limits of the contract."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from remote_inference.robot.command import BoolArray, CommandSource, Float64Array
from remote_inference.robot.motion.estimate import Estimate
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.select import Choice, Order, end_way_home
from remote_inference.robot.motion.state import AlteredCommands, MotionState, TickInputs
from remote_inference.robot.safety.acceleration import Motion


@dataclass(frozen=True)
class Limited:
    """A choice whose command `[action_dim]` passes; None where nothing is led.

    scale: fraction of the velocity limits that was allowed. altered: rules of the guard that altered it.
    motion: how the command moves, None where it stops.
    """

    choice: Choice
    command: Float64Array | None = None
    altered: tuple[str, ...] = ()
    scale: float = 1.0
    motion: Motion | None = None


def limit(choice: Choice, estimate: Estimate, inputs: TickInputs, rules: MotionRules) -> Limited:
    """Return a choice with its command within the limits. One that cannot pass becomes another choice."""
    if choice.order is Order.LEAD_BACK:
        return Limited(choice, choice.target, motion=choice.motion)
    if choice.target is None:
        return _slow_down(choice, rules) if choice.order is Order.FALL_BACK else Limited(choice)
    state, settling = choice.state, None
    is_policy = choice.source is CommandSource.CHUNK
    ramp = ramp_scale(state, rules, inputs.now_ns) if is_policy else 1.0
    scale = min(ramp, estimate.velocity_scale)
    if choice.order is Order.LEAD:
        settling = find_settling(state, inputs.now_ns)
    guarded = rules.guard.check(
        choice.target,
        choice.start,
        velocity_scale=scale,
        settling=settling,
        motion=state.sent.motion.where(~state.joints.unknown),
        onward=choice.onward,
    )
    altered = guarded.interventions
    choice = replace(choice, counted=(*choice.counted, *altered))
    if is_policy and ramp == 1.0:
        choice = watch(choice, altered, rules)
    if guarded.action is None:
        return Limited(_refuse(choice, altered))
    command, motion = guarded.action, guarded.motion
    if choice.order is Order.LEAD:
        command, motion = _lead_back(_without_others(command, state, rules), motion, state, rules, scale)
    return Limited(choice, command, altered, scale, motion)


def _slow_down(choice: Choice, rules: MotionRules) -> Limited:
    """Return a fallback; while something slows down that must not stop at once, a step of that."""
    sent, bounds = choice.state.sent, rules.guard.bounds
    if (
        not bounds.brakes
        or sent.command is None
        or (slower := bounds.stop(sent.command, sent.motion)) is None
    ):
        return Limited(choice)
    command, motion, slows = slower
    command = np.where(rules.masks.goes_on & ~slows, 0.0, command)
    choice = replace(choice, order=Order.SLOW_DOWN, source=CommandSource.REPEAT_LAST)
    return Limited(choice, command, choice.refused, motion=motion)


def find_settling(state: MotionState, now_ns: int) -> BoolArray:
    """Return the mask `[action_dim]` of switches that must not change: they have a moment ago."""
    settling: BoolArray = state.sent.settling_ns > now_ns
    return settling


def ramp_scale(state: MotionState, rules: MotionRules, now_ns: int) -> float:
    """Return the fraction of the velocity limits that a ramp allows now: it begins gently after a stop."""
    sent = state.sent
    if sent.ramp_begins:
        return rules.ramp_begin
    if sent.ramp_ns is None:
        return 1.0
    progress = (now_ns - sent.ramp_ns) / rules.ramp_ns
    return 1.0 if progress >= 1.0 else rules.ramp_begin + progress * (1.0 - rules.ramp_begin)


def _refuse(choice: Choice, refused: tuple[str, ...]) -> Choice:
    if choice.order is Order.GO_HOME:  # only when the last command is not finite
        ended = end_way_home(choice.state, "its last command is no number", *refused)
        return replace(ended, counted=choice.counted)
    return Choice(choice.state, Order.FALL_BACK, refused=refused, counted=choice.counted, latch=choice.latch)


def watch(choice: Choice, altered: tuple[str, ...], rules: MotionRules) -> Choice:
    """Count a command of the policy and the rules that altered it; too many altered ones stop the robot.

    A window that stops the robot is forgotten: after `resume` the next one must fill first.
    """
    if not rules.max_changed:
        return choice
    window = choice.state.window.add(altered, rules.window)
    changed = len(window.altered)
    if window.total < rules.window or changed <= rules.max_changed * rules.window:
        return replace(choice, state=replace(choice.state, window=window))
    counts = Counter(rule for _, interventions in window.altered for rule in interventions)
    named = ", ".join(f"{rule} {count}" for rule, count in sorted(counts.items()))
    reason = (
        f"guard: it changed {changed} of the last {rules.window} commands ({named}), "
        f"max_clamped_ratio is {rules.max_changed:g}"
    )
    return replace(choice, state=replace(choice.state, window=AlteredCommands()), latch=reason)


def _without_others(action: Float64Array, state: MotionState, rules: MotionRules) -> Float64Array:
    """Return an action; while a joint does not follow its commands, one that leads the others nowhere.

    Velocities and efforts get zero, and switches stay.
    """
    joints, masks, last = state.joints, rules.masks, state.sent.command
    if not joints.stalled.any() and not (joints.unsubscribed & masks.holds).any():
        return action
    action = action if last is None else np.where(masks.is_switch, last, action)
    return np.where(masks.goes_on, 0.0, action)


def _lead_back(
    command: Float64Array, motion: Motion | None, state: MotionState, rules: MotionRules, scale: float
) -> tuple[Float64Array, Motion | None]:
    """Return a command, one step from the last one at most also where it begins at a measurement."""
    joints, last = state.joints, state.sent.command
    if last is None or joints.is_forgotten or not joints.led_back.any():
        return command, motion
    led_back = joints.led_back
    before = state.sent.motion.where(led_back)
    step = rules.guard.approach(command, np.where(led_back, last, command), scale, before)
    if step is None or step.action is None:
        return command, motion
    return step.action, step.motion and step.motion.where(led_back, motion)
