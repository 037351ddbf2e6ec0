# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The judge of a watched world: each command by where the arm is, each silence by what stays in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from remote_inference.base.contract.controller_stop import count_stops
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import EARLY_TICK, WAIT_NS
from remote_inference.robot.motion.rules import LAG_S, LATE_PERIODS
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.safety.acceleration import find_axes
from remote_inference.robot.safety.fault_injection import Target
from remote_inference.robot.safety.guard import SENSOR_AGE
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS, Watchdog
from support.builders import LIMIT, ns
from support.robot.controllers import Controlled, Forward
from support.robot.simulation import MOVES, SENSOR_NS, TIMER_NS

if TYPE_CHECKING:
    from support.robot.watched_world import WatchedWorld

HAND_OFF_NS = ns(1.0)  # after the hand was taken off, the first step may begin where the arm was measured
WATCHDOG_NS = ns(0.03)  # three looks at the clock
BEAT_NS = ns(0.01)  # beats come no faster
RECENT_NS = ns(0.05)
ROUNDING = 1e-6
TURN_ROUNDING = 1e-5  # rad: an arc cosine near 1


def judge_source(world: WatchedWorld, tick: Tick, *, paused: bool, taken_over: bool, dead: bool) -> None:
    """Whoever may not move the robot does not. paused, taken_over, dead: before the tick."""
    if paused:
        assert tick.source not in MOVES, "a paused or stopped robot is not moved"
    assert not taken_over or tick.source is not CommandSource.CHUNK, "a person commands"
    assert not dead or tick.source not in MOVES - {CommandSource.HOMING}, "nothing but the way home"
    assert dead or tick.source is not CommandSource.HOMING
    if tick.source is CommandSource.CHUNK:
        assert tick.queued is not None
        assert world.now_ns - tick.queued.source.capture_ns <= ns(world.config.max_action_age_s)


def judge_command(
    world: WatchedWorld, tick: Tick, arm: Controlled, rows: np.ndarray, astray: np.ndarray
) -> None:
    """Each point `[rows, joints]` is a step from the one before, the first from where its joints are.

    astray: joints that did not follow before the tick.
    """
    assert np.isfinite(rows).all()
    if arm.kind == "switch":
        judge_switch(world, tick, arm, rows[0])
        return
    if arm.kind == "pose":
        judge_pose(world, tick, arm, rows[0], is_astray=bool(astray[arm.joints].any()))
        return
    if arm.kind == "velocity":
        bound = np.minimum(world.max_velocity[arm.joints], LIMIT)
        assert (np.abs(rows) <= bound + ROUNDING).all()
        return
    step = world.max_step[arm.joints] + ROUNDING
    assert (np.abs(np.diff(rows, axis=0)) <= step).all(), "a jump within a trajectory"
    judge = _judge_effort if arm.kind == "effort" else _judge_position
    off = judge(world, tick, arm, rows[0], step, astray[arm.joints])
    assert not off.any(), f"{tick.source.name} is {off.max():.3f} off: {arm.sink.type}"


def judge_holds(world: WatchedWorld, tick: Tick, arm: Controlled) -> None:
    """An arm that was told to hold is told no more: a person may move it."""
    arm.holds = arm.holds + 1 if tick.source is CommandSource.HOLD and arm.is_trajectory else 0
    assert arm.holds <= count_stops(world.contract.period_s), f"{arm.sink.topic} is held for ever"


def judge_switch(world: WatchedWorld, tick: Tick, arm: Controlled, first: np.ndarray) -> None:
    """A switch has one of two values; policy and person alone change it, by their numbers and in time."""
    (place,) = arm.joints
    limit = world.contract.actions.limits[world.contract.actions.names[place]]
    value, last = first[0], world.commanded[place]
    assert value in (limit.min, limit.max), "a switch is closed or open"
    if np.isnan(last) or value == last:
        return
    assert tick.source in (CommandSource.CHUNK, CommandSource.HUMAN), "nothing else changes a switch"
    assert not world.engine.playback.not_following, "nothing is switched while the arm does not follow"
    assert world.now_ns - world.switched_ns >= ns(limit.dwell_s or 0.0), "it is switched too often"
    if tick.source is CommandSource.CHUNK and tick.queued is not None:
        number = float(world.contract.action_units.to_robot(tick.queued.robot)[place])
        assert number > limit.closes_above if value == limit.max else number < limit.opens_below


def judge_pose(
    world: WatchedWorld, tick: Tick, arm: Controlled, first: np.ndarray, *, is_astray: bool
) -> None:
    """A pose is a unit quaternion in its box, a step of its line and its arc from where the robot may be."""
    assert np.abs(np.linalg.norm(first[3:]) - 1.0) <= ROUNDING, "no unit quaternion"
    (pose,) = world.contract.actions.poses.values()
    assert (first[:3] >= np.array(pose.min) - ROUNDING).all(), "below its box"
    assert (first[:3] <= np.array(pose.max) + ROUNDING).all(), "above its box"
    period_s = world.period_ns / 1e9
    position, last = world.position[arm.joints], world.commanded[arm.joints]
    measured, measured_ns = world.measured[0][arm.joints], world.measured[1]
    age_ns = world.now_ns - measured_ns

    def is_step_from(start: np.ndarray) -> bool:
        return are_near(world, first, start, period_s)

    near = is_step_from(position)
    if any(world.now_ns - at_ns < world.period_ns for at_ns in (*world.ticked, world.sent_ns)):
        near |= is_step_from(last)  # the limit holds for each tick, and this one followed a late one
    is_believed = is_astray and is_later(world, arm)
    if is_believed or (world.now_ns - world.handed_off_ns < HAND_OFF_NS and age_ns <= fresh_ns(world)):
        near |= is_step_from(measured)
    if world.lags[arm.joints].any():
        led = are_near(world, last, position, lag_s(world)[arm.joints].max())
        if is_exempt(world):
            led |= tick.source is CommandSource.CHUNK  # until its age bound a policy may move the arm blind
        is_fresh = age_ns <= ns(world.config.max_sensor_age_s)
        near |= led and (is_step_from(last) or (is_fresh and is_step_from(measured)))
    assert near, f"{tick.source.name} jumps: {first} from {position}, after {last}, measured {measured}"


def is_later(world: WatchedWorld, arm: Controlled) -> bool:
    """Return whether what is measured is of now, or of after the joints' last command.

    Joints that did not follow may have obeyed since: an older position would lead them back.
    """
    measured_ns = world.measured[1]
    is_recent = world.now_ns - measured_ns <= max(world.period_ns, RECENT_NS)
    return is_recent or measured_ns >= world.commanded_ns[arm.joints].max() + world.period_ns


def are_near(world: WatchedWorld, one: np.ndarray, other: np.ndarray, time_s: float) -> bool:
    """Return whether two poses `[7]` are no farther apart than it can go and turn in a time."""
    (pose,) = world.contract.actions.poses.values()
    way = np.linalg.norm(one[:3] - other[:3])
    # By the trace of the rotation between them: not as the guard finds it.
    turn = 2.0 * np.arccos(np.clip(abs(np.dot(one[3:], other[3:])), 0.0, 1.0))
    is_near = way <= pose.max_velocity * time_s + ROUNDING
    return bool(is_near and turn <= pose.max_angular_velocity * time_s + TURN_ROUNDING)


def find_jumps(world: WatchedWorld, before: np.ndarray) -> list[str]:
    """Return the poses that have moved farther than drives lag behind. before: `[action_dim]`."""
    columns = world.poses.columns
    return [
        name
        for name, place in zip(world.poses.names, columns, strict=True)
        if not are_near(world, world.position[place], before[place], lag_s(world)[place].max())
    ]


def judge_what_stays(world: WatchedWorld, tick: Tick) -> None:
    """A tick without a command leaves no motion in force, unless it waits for a measurement to end it.

    The first tick after some that were missed, or while nothing is heard, may wait, too; others only within
    WAIT_NS of it. A command that did not leave ends no wait; after time in which nothing ran one begins anew.
    """
    late = world.now_ns - world.ticked[-1] > LATE_PERIODS * world.period_ns
    late |= world.now_ns - world.heard_ns > EXECUTOR_STALE_NS
    gap_ns = world.now_ns - world.ticked[-1]
    if world.waits_since_ns is not None and gap_ns > LATE_PERIODS * world.period_ns:
        # Time in which nothing ran does not count.
        world.waits_since_ns = None if world.has_withheld else world.waits_since_ns + gap_ns
    world.has_withheld = False
    if not (tick.in_force and late):
        world.waits_since_ns = None
    elif world.waits_since_ns is None or world.now_ns - world.waits_since_ns < WAIT_NS:
        world.waits_since_ns = world.waits_since_ns or world.now_ns
        return
    for arm in world.arms:
        silent = tick.horizon is None or not tick.reaches(arm.kind, arm.sink.destination)
        waits = arm.is_trajectory and SENSOR_AGE in tick.interventions
        if is_reached(arm) and silent and not waits and not world.engine.dead:
            assert not arm.controller.is_moving(world.now_ns), f"{arm.sink.topic} goes on in silence"


def judge_silence(world: WatchedWorld, watchdog: Watchdog) -> None:
    """A control thread that fell silent while it commanded leaves nothing in force longer than promised."""
    spoke_ns = max(world.ticked[-1], world.beaten_ns)  # a tick may beat long after it began
    if world.now_ns - spoke_ns <= patience_ns(world) or world.beaten_ns < world.ticked[-1] - BEAT_NS:
        return
    failed = {topic for topic, stop in world.stops.items() if stop.failed}
    for arm in world.arms:
        if is_reached(arm) and arm.sink.topic not in failed and not arm.has_missed_a_stop:
            assert not arm.controller.is_moving(world.now_ns), f"{arm.sink.topic} goes on: {watchdog.state}"


def is_reached(arm: Controlled) -> bool:
    """Return whether a controller takes what it is sent, as far as the robot knows."""
    return arm.is_heard and arm.controller.is_active and not arm.is_withdrawn


def patience_ns(world: WatchedWorld) -> int:
    """Return how long a motion stays in force at most after the control thread has fallen silent."""
    return ns(world.beats.deadline_s) + WATCHDOG_NS + world.period_ns


def is_exempt(world: WatchedWorld) -> bool:
    """Return whether nobody can bound how far drives that are off lag behind."""
    unmeasured = world.now_ns - world.measured[1] > ns(world.config.max_sensor_age_s)
    unwatched = world.watchdog is None or world.beats_are_lost
    return unmeasured or (unwatched and world.stuck)


def lag_bound(world: WatchedWorld) -> np.ndarray:
    """Return how far from their command joints may be that could not follow it."""
    return lag_s(world) * world.max_velocity


def stall_bound(world: WatchedWorld) -> np.ndarray:
    """Return how much farther trajectory controllers have gone on while the control thread stood still.

    The watchdog ends it; without one `is_exempt` says so.
    """
    gap_ns = min(world.now_ns - world.ticked[-1], patience_ns(world))
    is_led = np.zeros(len(world.position), dtype=bool)
    for arm in world.arms:
        is_led[arm.joints] = arm.is_trajectory
    return np.where(world.stuck & is_led, gap_ns / 1e9 * world.max_velocity, 0.0)


def fresh_ns(world: WatchedWorld) -> int:
    """Return how old a measurement is at most while the sensors deliver, or a drill delays them."""
    fault = world.injection.fault
    delay_s = fault.delay_s if fault is not None and fault.target is Target.SENSORS else 0.0
    return 2 * max(SENSOR_NS, world.sensor_ns) + TIMER_NS + ns(delay_s)


def lag_s(world: WatchedWorld) -> np.ndarray:
    """Return the time at full speed by which each joint may be behind its command.

    What it may have moved since it was measured counts: now, or when its last command was decided.
    """
    age_ns = np.maximum(world.now_ns - world.measured[1], world.blind_ns)
    return LAG_S + (age_ns + fresh_ns(world) + 3 * world.period_ns) / 1e9


def _judge_effort(
    world: WatchedWorld, tick: Tick, arm: Controlled, first: np.ndarray, step: np.ndarray, _: np.ndarray
) -> np.ndarray:
    """Return by how much each effort changes too fast: from zero, or from what is in force."""
    assert isinstance(arm.controller, Forward)
    target = arm.controller.target
    off = np.zeros_like(first) if target is None else np.abs(first - target)
    near = (np.abs(first) <= step) | ((off <= step) if target is not None else False)
    unheard = world.beaten_ns < world.ticked[-1] - BEAT_NS
    # The watchdog sends its stops in between, or the controller went after the tick was decided.
    if world.beats_are_lost or unheard or not arm.is_heard:
        near |= np.abs(first - world.commanded[arm.joints]) <= step
    return np.where(near, 0.0, np.maximum(off, np.abs(first)))


def _judge_position(
    world: WatchedWorld, tick: Tick, arm: Controlled, first: np.ndarray, step: np.ndarray, astray: np.ndarray
) -> np.ndarray:
    """Return how far each joint's command is off where it may be: zero for one that is a step from it."""
    position, last = world.position[arm.joints], world.commanded[arm.joints]
    off = np.abs(first - position)
    early = 1.0 + EARLY_TICK * arm.is_trajectory
    late = tick.late_ns / world.period_ns if arm.is_trajectory else 0.0  # it is no faster than its limit
    way_s = 2.0 * LIMIT / world.max_velocity[arm.joints].min()  # of a hold, from one limit to the other
    way_s += max((axis.starting_s for axis in find_axes(world.contract.actions)), default=0.0)
    longest_s = max(world.config.max_sensor_age_s, way_s if tick.source is CommandSource.HOLD else 0.0)
    # What follows a hold begins where that one leads.
    longest_ns = max(ns(longest_s), world.due_late_ns)
    assert tick.late_ns <= longest_ns, "it is due later than it can have been measured, or needs"
    near = off <= (early + late) * step
    if any(world.now_ns - at_ns < world.period_ns for at_ns in (*world.ticked, world.sent_ns)):
        near |= (
            np.abs(first - last) <= step
        )  # the limit holds for each tick, and this one followed a late one
    if arm.is_trajectory:  # it has gone on while the command, a step from the one before, was late
        on_its_way = world.max_velocity[arm.joints] * (world.now_ns - world.decided_ns) / 1e9
        near |= (np.abs(first - last) <= step) & (off <= (early + late) * step + on_its_way)
        behind = world.max_velocity[arm.joints] * world.left_late_ns / 1e9
        near |= off <= (early + late) * step + behind  # the command before left as late
    measured, measured_ns = world.measured
    from_measured = np.abs(first - measured[arm.joints]) <= step
    age_ns = world.now_ns - measured_ns
    if world.now_ns - world.handed_off_ns < HAND_OFF_NS and age_ns <= fresh_ns(world):
        near |= from_measured
    near |= astray & from_measured & is_later(world, arm)
    commanded = last
    if arm.is_trajectory and arm.is_heard:  # it goes on by itself, also with drives that are off
        last = arm.controller.lead(last, world.now_ns, world.now_ns)
    led = np.abs(last - position) <= lag_bound(world)[arm.joints]
    if is_exempt(world):
        led |= tick.source is CommandSource.CHUNK  # until its age bound a policy may move the arm blind
    steps = np.abs(first - last) <= (early + late) * step
    if age_ns <= ns(world.config.max_sensor_age_s):
        steps |= from_measured
    # The watchdog's stops come in between, or the controller is still on its way to the last tick's command.
    follows = world.now_ns - world.commanded_ns[arm.joints].max() <= LATE_PERIODS * world.period_ns
    if follows or (world.resumed and world.beats_are_lost):
        steps |= np.abs(first - commanded) <= step
    near |= world.lags[arm.joints] & led & steps
    # What does not follow is led back to where it was measured, one step in each tick.
    is_back = np.abs(first - measured[arm.joints]) <= np.abs(commanded - measured[arm.joints])
    near |= astray & is_back & (np.abs(first - commanded) <= step)
    # The drives were back before the node could see that they had been off: the controller leads the arm to
    # its target meanwhile, each hold is of where the arm was measured on its way, and the policy goes on from
    # the command that began there.
    if arm.is_trajectory and world.driven_ns >= world.ticked[-3]:
        returning = world.lags[arm.joints] | (tick.source is CommandSource.HOLD)
        returning |= np.abs(first - commanded) <= step
        near |= returning & (off <= lag_bound(world)[arm.joints] + step)
    return np.where(near, 0.0, off)
