# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds of motion where something else happens too: stops, late ticks, limits, a person who leads."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.safety.acceleration import Motion
from remote_inference.robot.safety.jerk import end_braking, peak, span_until_rest
from support.builders import JOINT_TRAJECTORY
from support.robot.bounded import (
    ACCELERATION,
    JERK,
    LIMIT,
    ROUNDING,
    VELOCITY,
    differences,
    follow,
    make_contract,
    make_guard,
    play,
    pose_guard,
    spin,
)
from support.robot.fed_playback import FedPlayback

PERIOD_S = 0.05


def commands_of(arm: FedPlayback, ticks: int) -> list[np.ndarray]:
    return [tick.command for tick in (arm.tick() for _ in range(ticks)) if tick.command is not None]


# -- motions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_a_motion_spans_as_much_as_it_does_step_by_step(seed: int):
    """Also one that brakes so hard that it turns: its turning point may be farther than where it rests."""
    rng = random.Random(seed)
    velocity, acceleration = rng.uniform(-1.0, 1.0), rng.uniform(-ACCELERATION, ACCELERATION)
    found = span_until_rest(velocity, acceleration, ACCELERATION, JERK)
    place, places, step_s, speed, now = 0.0, [0.0], 1e-5, velocity, acceleration
    left = velocity + 0.5 * acceleration * abs(acceleration) / JERK
    brakes = velocity * left > 0.0 > velocity * acceleration
    while abs(now) > JERK * step_s and not brakes:  # its acceleration ends first
        now -= math.copysign(JERK * step_s, now)
        speed += step_s * now
        place += step_s * speed
        places.append(place)
    sign = math.copysign(1.0, speed)
    while sign * speed > 1e-3:  # then it brakes, and eases its braking off to rest
        must_ease = sign * speed <= 0.5 * now * now / JERK
        change = JERK * step_s if must_ease else -JERK * step_s
        now = sign * max(-ACCELERATION, min(0.0, sign * now + change)) if sign * now <= 0.0 else 0.0
        speed += step_s * now
        place += step_s * speed
        places.append(place)
    assert found == pytest.approx((min(places), max(places)), abs=2e-3)


def test_a_braking_can_end_before_it_turns():
    assert end_braking(0.0, 4.0, 2.0) == 0.0
    for velocity, deceleration in [(1.0, 3.0), (-0.1, 50.0), (1e-6, 50.0)]:
        found = end_braking(velocity, deceleration, JERK)
        assert abs(found) <= deceleration
        assert velocity * (velocity + 0.5 * found * abs(found) / JERK) >= -1e-12
        assert peak(velocity, found, JERK) == pytest.approx(abs(velocity))


# -- stops ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jerk", [None, JERK])
@pytest.mark.parametrize("deceleration", [4.0, 8.0, 20.0])
@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_chunk_that_ends_a_slow_down_finds_the_arm_as_it_moves(
    jerk: float | None, deceleration: float, ticks: int
):
    """Also at a limit: what slows down there moves no more than it is commanded to."""
    bounds = {"max_deceleration": deceleration, **({} if jerk is None else {"max_jerk": jerk})}
    arm = FedPlayback(make_contract(max_acceleration=8.0, **bounds))
    arm.measure([0.7, -0.7])
    rows = 0.7 + np.cumsum(np.minimum(0.02 * np.arange(1, 13), 0.09))
    arm.replace(np.stack([rows, -rows], axis=1))
    commands = commands_of(arm, 12 + ticks)
    arm.replace(np.stack([np.full(30, LIMIT), np.full(30, -LIMIT)], axis=1))
    commands += commands_of(arm, 30)
    found = np.array(commands)
    assert np.abs(found).max() <= LIMIT + ROUNDING
    changes = np.abs(differences(np.vstack([[[0.7, -0.7]], found]), PERIOD_S, 2))[1:]
    assert changes[:12].max() <= 8.0 + 1e-5
    assert changes[12 : 12 + ticks].max() <= max(8.0, deceleration) + 1e-5
    assert changes[12 + ticks :].max() <= 8.0 + 1e-5


@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_velocity_that_slows_down_goes_on_without_turning(ticks: int):
    arm = FedPlayback(make_contract("velocity", max_jerk=JERK, max_deceleration=8.0), "zero")
    arm.replace(np.full((12, 2), 1.0))
    commands = commands_of(arm, 12 + ticks)
    arm.replace(np.full((20, 2), 1.0))
    commands += commands_of(arm, 20)
    found = np.array(commands)[12:, 0]
    assert found[:ticks].tolist() == pytest.approx(
        [max(0.0, 1.0 - 0.4 * (tick + 1)) for tick in range(ticks)]
    )
    assert found.min() >= 0.0
    assert np.abs(np.diff(found)).max() <= ACCELERATION * PERIOD_S + ROUNDING


# -- limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_velocity_with_a_bound_of_jerk_stays_below_its_limit(seed: int):
    """The limit of the velocity is narrower than what the contract calls its range."""
    guard = make_guard(0.02, "velocity", max_jerk=40.0, max_velocity=1.0)
    rng = np.random.default_rng(seed)

    def targets() -> Iterator[tuple[np.ndarray, np.ndarray | None, float]]:
        while True:
            target, onward = rng.uniform(-2.0, 2.0, 2), rng.uniform(-2.0, 2.0, 2)
            for _ in range(rng.integers(40)):
                yield target, onward, 1.0

    assert np.abs(play(guard, targets())).max() <= 1.0 + ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_into_a_limit_leads_no_farther_than_there(seed: int):
    rng = np.random.default_rng(seed)
    guard = make_guard(0.02, max_jerk=rng.choice([40.0, JERK]))
    walk = np.cumsum(0.03 * rng.normal(size=(400, 2)), axis=0)
    commands, _ = follow(guard, np.clip(4.0 * np.sin(walk), -LIMIT, LIMIT), np.zeros(2))
    assert np.abs(commands).max() <= LIMIT + 1e-5


# -- poses ---------------------------------------------------------------------------------------------------

JERKS = {"max_jerk": 40.0, "max_angular_jerk": 160.0}
UPRIGHT = [0.0, 0.0, 0.0, 1.0]


def lead_pose(guard, plan: np.ndarray) -> tuple[np.ndarray, list[tuple[str, ...]]]:
    """Return the commands for a plan `[ticks + 1, 7]`, and what altered each."""
    ahead = guard.bounds.look_ahead(plan)
    command, motion, commands, altered = plan[0], Motion.rest(7), [], []
    for target, onward in zip(plan[:-1], ahead[:-1], strict=True):
        guarded = guard.check(target, command, motion=motion, onward=onward)
        command, motion = guarded.action, guarded.motion
        commands.append(command)
        altered.append(guarded.interventions)
    return np.array(commands), altered


@pytest.mark.parametrize("fraction", [0.5, 0.8])
@pytest.mark.parametrize("jerks", [{}, JERKS])
def test_a_pose_along_one_axis_may_be_nearly_as_fast_as_along_all(fraction: float, jerks: dict[str, float]):
    guard = pose_guard(0.02, **jerks)
    along = -0.45 + 0.02 * 0.4 * fraction * np.arange(130)
    plan = np.stack([along, 0 * along, 0 * along, *(np.full(130, one) for one in UPRIGHT)], axis=1)
    commands, altered = lead_pose(guard, plan)
    assert altered[0]
    assert commands[90:] == pytest.approx(plan[90:-1], abs=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_a_pose_keeps_its_bounds_wherever_it_is_led(seed: int):
    period_s, rng = 0.02, np.random.default_rng(seed)
    guard = pose_guard(period_s, **JERKS)
    plan, at = [], np.array([0.0, 0.0, 0.0, *UPRIGHT])
    for _ in range(12):
        speed = np.concatenate([rng.normal(size=3) * rng.choice([0.1, 0.4, 1.0]), rng.normal(size=4)])
        at = at + np.concatenate([rng.uniform(-0.1, 0.1, 3), np.zeros(4)])
        for _ in range(rng.integers(5, 40)):
            at = np.clip(at + period_s * speed, -0.8, 0.8)
            plan.append(at)
    commands, _ = lead_pose(guard, np.array(plan))
    commands = np.vstack([commands[:1], commands])
    spins = [spin(before[3:], after[3:]) / period_s for before, after in itertools.pairwise(commands)]
    lines = np.diff(commands[:, :3], axis=0) / period_s
    for speeds, fastest, most in ((lines, 0.4, 2.0), (np.array(spins), 2.0, 8.0)):
        assert np.linalg.norm(speeds, axis=1).max() <= fastest * (1.0 + 1e-3)
        assert np.linalg.norm(np.diff(speeds, axis=0) / period_s, axis=1).max() <= most * (1.0 + 1e-3)
    assert np.abs(commands[:, :3]).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("speed", [0.2, 0.38])
def test_a_pose_that_slides_along_its_box_is_slowed_down_towards_the_wall_alone(speed: float):
    step, wall = 0.02 * speed, 0.5
    aside = np.minimum(step / math.sqrt(2.0) * np.arange(300), wall)
    ways = np.where(aside < wall, step / math.sqrt(2.0), step)
    along = -0.45 + np.cumsum(ways)
    plan = np.stack([aside, along, 0 * along, *(0 * along + one for one in UPRIGHT)], axis=1)
    plan = plan[along < 0.45]
    commands, _ = lead_pose(pose_guard(0.02), plan)
    late = np.abs(commands - plan[:-1])[plan[:-1, 0] == wall, 1]
    assert late.max() <= 0.03 * speed
    assert commands[:, 0].max() <= wall + ROUNDING


# -- ticks that come late ------------------------------------------------------------------------------------


def braking_plan(period_s: float) -> np.ndarray:
    """Return the places of ticks on the way to the limit, at the bounds."""
    speeds = [VELOCITY]
    while speeds[-1] > 0.0:
        speeds.append(max(0.0, speeds[-1] - ACCELERATION * period_s))
    way = np.cumsum(period_s * np.array([*10 * [VELOCITY], *speeds]))
    return LIMIT - way[-1] + way


@pytest.mark.parametrize("late", [0.3, 0.6, 1.4, 2.2])
@pytest.mark.parametrize("at", range(9, 14))
def test_a_trajectory_that_brakes_to_a_limit_stays_within_when_a_tick_is_late(late: float, at: int):
    """Its controller has gone on, and moves as it does there by now, no more as the last command did."""
    arm = FedPlayback(make_contract(command=JOINT_TRAJECTORY))
    plan = braking_plan(PERIOD_S)
    arm.measure([plan[0], -plan[0]])
    arm.replace(np.stack([plan, -plan], axis=1))
    commands_of(arm, at)
    arm.now_ns += round(late * arm.period_ns)
    ahead = arm.playback._state.sent.look_ahead
    begin = ahead.point(max(0.0, ahead.periods(arm.now_ns, arm.period_ns)))
    arm.replace(np.full((40, 2), [LIMIT, -LIMIT]))
    found = np.array([begin, *commands_of(arm, 30)])
    assert np.abs(found).max() <= LIMIT + 1e-5
    assert np.abs(np.diff(found, n=2, axis=0)).max() <= ACCELERATION * PERIOD_S**2 + ROUNDING


def test_a_trajectory_that_has_executed_all_begins_at_rest():
    arm = FedPlayback(make_contract(command=JOINT_TRAJECTORY, max_acceleration=2.0))
    arm.measure([0.0, 0.0])
    arm.replace(np.cumsum(np.full((8, 2), 0.005), axis=0))
    commands_of(arm, 2)
    arm.now_ns += 7 * arm.period_ns
    arm.replace(np.full((8, 2), 1.0))
    (first,) = commands_of(arm, 1)
    assert first == pytest.approx(np.full(2, 0.04 + 2.0 * PERIOD_S**2), abs=1e-6)


def test_a_command_goes_on_where_a_tick_was_a_little_late():
    """At 100 Hz: a drive has not stopped by then, and a step from rest would be a kick."""
    contract = make_contract(max_acceleration=2.0)
    contract = contract.model_copy(update={"fps": 100.0})
    arm = FedPlayback(contract, late_after_ns=round(1.5e9 * contract.period_s))
    arm.measure([0.0, 0.0])
    plan = np.cumsum(np.minimum(0.0002 * np.arange(1, 200), 0.01))
    arm.replace(np.stack([plan, plan], axis=1))
    before = commands_of(arm, 60)
    arm.now_ns += round(0.6 * arm.period_ns)
    after = commands_of(arm, 3)
    found = np.array([*before[-3:], *after])
    assert np.abs(np.diff(found, n=2, axis=0)).max() / contract.period_s**2 <= 2.0 + 1e-5


# -- people --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [10.0, 20.0, 100.0])
def test_a_person_who_moves_on_is_followed_at_their_speed(rate_hz: float):
    human, speed = HumanCommands(0.5), 0.6
    arm = FedPlayback(make_contract(max_acceleration=4.0), human=human)
    arm.measure([0.0, 0.0])
    arm.playback.control.change(taken_over=True)
    late, said_ns = [], 0
    for _ in range(40):
        while said_ns <= arm.now_ns:
            human.deposit(np.full(2, speed * said_ns / 1e9), said_ns)
            said_ns += round(1e9 / rate_hz)
        wanted = speed * arm.now_ns / 1e9
        arm.measure(arm.playback._state.sent.command if late else [0.0, 0.0])
        tick = arm.tick()
        assert tick.source is CommandSource.HUMAN
        late.append(wanted - tick.command[0])
    assert abs(np.mean(late[20:])) <= 0.5 * speed / rate_hz + 0.2 * speed * PERIOD_S


def test_a_person_who_stops_is_stopped_with():
    human = HumanCommands(0.5)
    arm = FedPlayback(make_contract(max_acceleration=4.0), human=human)
    arm.measure([0.0, 0.0])
    arm.playback.control.change(taken_over=True)
    found = []
    for tick in range(60):
        human.deposit(np.full(2, 0.03 * min(tick, 30)), arm.now_ns)
        arm.measure(found[-1] if found else [0.0, 0.0])
        found.append(arm.tick().command)
    stopping = 0.6**2 / (2 * 4.0) + 0.03
    assert np.max(found) <= 0.9 + stopping
    assert found[-1] == pytest.approx([0.9, 0.9], abs=1e-3)
    assert VELOCITY > 0.6
