# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Bounds of acceleration and jerk: no command breaks them, and none that keeps them is altered."""

from __future__ import annotations

import itertools
import math
import random
import sys
from typing import Any

import numpy as np
import pytest

from remote_inference.base.errors import UserError
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.acceleration import ACCELERATION_LIMIT, JERK_LIMIT, Motion, brake
from remote_inference.robot.safety.guard import VELOCITY_LIMIT
from support.builders import JOINT_TRAJECTORY, PERIOD_NS
from support.robot.bounded import (
    ACCELERATION,
    JERK,
    LIMIT,
    ROUNDING,
    VELOCITY,
    Targets,
    differences,
    follow,
    make_contract,
    make_guard,
    play,
    pose_guard,
    spin,
)
from support.robot.fed_playback import FedPlayback

# -- what is wanted: `(target, onward, velocity scale)` of each tick -----------------------------------------


def jumps(rng: random.Random, _: float) -> Targets:
    while True:
        target = np.array([rng.uniform(-2.0, 2.0), rng.uniform(-2.0, 2.0)])
        for _ in range(rng.randrange(60)):
            yield target, None, 1.0


def noise(rng: random.Random, _: float) -> Targets:
    while True:
        yield np.array([rng.uniform(-2.0, 2.0), rng.choice([-9.0, 9.0])]), None, 1.0


def plans(rng: random.Random, period_s: float) -> Targets:
    """Straight plans at all speeds, each of which begins somewhere near the end of the last one."""
    at = np.zeros(2)
    while True:
        step = period_s * np.array([rng.uniform(-VELOCITY, VELOCITY), rng.uniform(-VELOCITY, VELOCITY)])
        at = np.clip(at, -LIMIT, LIMIT) + np.array([rng.uniform(-0.3, 0.3), 0.0])
        for _ in range(rng.randrange(60)):
            at = at + step
            yield at, at + step, 1.0


def hostile(rng: random.Random, _: float) -> Targets:
    while True:
        target = np.array([rng.choice([-2.0, 2.0, rng.uniform(-2.0, 2.0)]) for _ in range(2)])
        yield target, np.array([rng.uniform(-9.0, 9.0), 0.0]), rng.choice([1.0, 1.0, 0.5, 0.25])


KINDS = (jumps, noise, plans, hostile)


@pytest.mark.parametrize("targets", KINDS)
@pytest.mark.parametrize("period_s", [0.001, 0.004, 0.02, 0.1])
@pytest.mark.parametrize("jerk", [None, JERK, 2000.0])
def test_no_target_leads_beyond_a_bound(targets: Any, period_s: float, jerk: float | None):
    for seed in range(10):
        guard = make_guard(period_s, **({} if jerk is None else {"max_jerk": jerk}))
        commands = play(guard, targets(random.Random(seed), period_s))
        assert np.abs(commands).max() <= LIMIT + ROUNDING
        assert np.abs(differences(commands, period_s, 1)).max() <= VELOCITY + ROUNDING / period_s
        assert np.abs(differences(commands, period_s, 2)).max() <= ACCELERATION * (1.0 + ROUNDING) + ROUNDING
        if jerk is not None and targets is not hostile:  # whose velocity limit falls within a tick
            assert np.abs(differences(commands, period_s, 3)).max() <= jerk * (1.0 + ROUNDING) + 1e-3


@pytest.mark.parametrize("jerk", [None, JERK])
def test_a_plan_within_the_bounds_passes_bit_for_bit(jerk: float | None):
    period_s = 0.02
    guard = make_guard(period_s, **({} if jerk is None else {"max_jerk": jerk}))
    times_s = period_s * np.arange(500)
    plan = 0.5 * np.stack([1.0 - np.cos(2.5 * times_s), np.cos(2.0 * times_s) - 1.0], axis=1)
    commands, altered = follow(guard, plan)
    assert not any(altered)
    assert np.array_equal(commands, plan[:-1])


@pytest.mark.parametrize(("jerk", "most"), [(None, 1.03), (500.0, 1.06)])
def test_a_far_target_is_reached_about_as_fast_as_the_bounds_let_and_not_passed(
    jerk: float | None, most: float
):
    period_s, way = 0.004, 1.2
    guard = make_guard(period_s, **({} if jerk is None else {"max_jerk": jerk}))
    target = np.array([way, -way])
    commands = play(guard, iter(lambda: (target, None, 1.0), None))
    best_s = way / VELOCITY + VELOCITY / ACCELERATION + (ACCELERATION / jerk if jerk else 0.0)
    assert np.argmax(np.abs(commands - target).max(axis=1) < 1e-3) * period_s <= most * best_s
    assert commands[-1] == pytest.approx(target, abs=1e-9)
    assert np.abs(commands).max() <= way + 1e-6, "it comes back from beyond"


@pytest.mark.parametrize("jerk", [None, JERK])
def test_a_command_catches_up_with_a_plan_that_moves_and_then_is_the_plan(jerk: float | None):
    """It meets the plan at the plan's velocity: it neither stays behind nor swings."""
    period_s, speed = 0.02, 0.5
    guard = make_guard(period_s, **({} if jerk is None else {"max_jerk": jerk}))
    plan = np.array([0.3, -0.2]) + speed * period_s * np.arange(101)[:, np.newaxis]
    targets = ((at, onward, 1.0) for at, onward in itertools.pairwise(plan))
    commands = play(guard, targets, ticks=100)[1:]
    assert np.array_equal(commands[-50:], plan[50:100])
    assert (commands[:, 0] <= plan[:-1, 0] + 1e-9).all(), "it overtakes the plan"


@pytest.mark.parametrize("period_s", [0.01, 0.033])
@pytest.mark.parametrize("rise_s", [0.02, 0.05, 0.15])
def test_a_plan_along_a_curve_is_met_and_then_passes_bit_for_bit(period_s: float, rise_s: float):
    """From rest, whatever the jerk: a command that met its points, but not its motion, would swing on."""
    guard = make_guard(period_s, max_jerk=ACCELERATION / rise_s)
    times_s = period_s * np.arange(round(6.0 / period_s))
    plan = 0.3 * np.stack([np.sin(3.0 * times_s), np.sin(2.0 * times_s + 0.5)], axis=1)
    commands, altered = follow(guard, plan)
    met = np.flatnonzero(times_s[:-1] > 1.5)
    assert altered[0]
    assert not np.array(altered)[met].any()
    assert np.array_equal(commands[met], plan[met])


@pytest.mark.parametrize("period_s", [0.033, 0.01, 0.004])
@pytest.mark.parametrize(("rise_s", "rate", "way"), [(0.1, 6.0, 0.23), (0.05, 9.0, 0.11), (0.5, 3.0, 0.37)])
def test_a_plan_near_the_bounds_is_met(period_s: float, rise_s: float, rate: float, way: float):
    """It accelerates at up to nine tenths of the bound, and needs up to half of the bound of jerk."""
    guard = make_guard(period_s, max_jerk=ACCELERATION / rise_s)
    times_s = period_s * np.arange(round(5.0 / period_s))
    plan = way * np.stack([np.sin(rate * times_s), np.sin(rate * times_s + 0.5)], axis=1)
    commands, _ = follow(guard, plan)
    met = (times_s[:-1] > 2.5) & (times_s[:-1] < 4.5)  # its end is seen to go on straight
    assert np.abs(commands - plan[:-1])[met].max() <= 3e-3


@pytest.mark.parametrize("rise_s", [0.02, 0.05, 0.15])
@pytest.mark.parametrize(
    ("noise", "period_s"), [(0.001, 0.033), (0.003, 0.033), (0.01, 0.033), (0.001, 0.01), (0.001, 0.004)]
)
def test_a_noisy_plan_comes_out_smoother_and_near_the_plan(noise: float, period_s: float, rise_s: float):
    """What cannot be followed is not answered with swinging, which has its own jerk and errors."""
    guard = make_guard(period_s, max_jerk=ACCELERATION / rise_s)
    times_s = period_s * np.arange(round(10.0 / period_s))
    clean = 0.3 * np.stack([1.0 - np.cos(3.0 * times_s), np.cos(2.0 * times_s) - 1.0], axis=1)
    plan = clean + np.random.default_rng(0).normal(0.0, noise, clean.shape)
    commands, _ = follow(guard, plan, clean[0])
    jerks = [np.sqrt(np.mean(np.diff(one, n=3, axis=0) ** 2)) for one in (plan, commands)]
    errors = commands - clean[:-1]
    assert jerks[1] <= jerks[0]
    assert np.sqrt(np.mean(errors**2)) <= 2.0 * noise
    assert np.abs(errors).max() <= 16.0 * noise


def test_braking_ends_where_it_should():
    for distance in np.geomspace(1e-6, 3.0, 200):
        speed, way = brake(distance, ACCELERATION, 0.01), 0.0
        while speed > 1e-12:
            way += 0.01 * speed
            speed = max(0.0, speed - 0.01 * ACCELERATION)
        assert way == pytest.approx(distance, abs=1e-9)


def test_what_alters_a_command_is_named():
    guard = make_guard(0.05, max_jerk=JERK)
    rest = Motion.rest(2)
    for target, expected in [
        ([0.001, 0.0], ()),  # 0.4 rad/s2, 8 rad/s3
        ([0.02, 0.0], (JERK_LIMIT,)),  # 8 rad/s2, 160 rad/s3
        ([0.05, 0.0], (ACCELERATION_LIMIT,)),  # 20 rad/s2
        ([0.5, 0.0], (VELOCITY_LIMIT, ACCELERATION_LIMIT)),
    ]:
        assert guard.check(np.array(target), np.zeros(2), motion=rest).interventions == expected


def test_velocities_are_bounded_one_order_lower():
    period_s = 0.02
    guard = make_guard(period_s, "velocity", max_jerk=JERK)
    commands = play(guard, jumps(random.Random(1), period_s))
    assert np.abs(commands).max() <= LIMIT
    assert np.abs(differences(commands, period_s, 1)).max() <= ACCELERATION * (1.0 + ROUNDING)
    assert np.abs(differences(commands, period_s, 2)).max() <= JERK * (1.0 + ROUNDING)


# -- poses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jerky", [False, True])
def test_a_pose_is_bounded_along_its_line_and_its_arc(jerky: bool):
    period_s, rng = 0.02, np.random.default_rng(3)
    jerks = {"max_jerk": 40.0, "max_angular_jerk": 160.0} if jerky else {}
    guard = pose_guard(period_s, **jerks)
    command, motion = np.array([0.0] * 6 + [1.0]), Motion.rest(7)
    commands = [command]
    for tick in range(600):
        if tick % 25 == 0 or tick > 500:
            target = np.concatenate([rng.uniform(-0.7, 0.7, 3), rng.normal(size=4)])
        guarded = guard.check(target, command, motion=motion)
        command, motion = guarded.action, guarded.motion
        commands.append(command)
    places = np.array(commands)[:, :3]
    spins = [spin(before[3:], after[3:]) / period_s for before, after in itertools.pairwise(commands)]
    lines = np.diff(places, axis=0) / period_s
    assert np.abs(places).max() <= 0.5 + ROUNDING
    for speeds, fastest, most in ((lines, 0.4, 2.0), (np.array(spins), 2.0, 8.0)):
        assert np.linalg.norm(speeds, axis=1).max() <= fastest * (1.0 + 1e-6)
        changes = np.diff(speeds, axis=0, prepend=np.zeros((1, 3))) / period_s
        assert np.linalg.norm(changes, axis=1).max() <= most * (1.0 + 1e-6)
        assert np.linalg.norm(changes, axis=1).max() > 0.5 * most


# -- the whole tick ------------------------------------------------------------------------------------------


def wave(phase: float, offset: float) -> np.ndarray:
    column = offset + 0.4 * np.sin(phase + 0.05 * np.arange(40))
    return np.stack([column, -column], axis=1)


@pytest.mark.parametrize("command", ["", JOINT_TRAJECTORY])
@pytest.mark.parametrize("bounded", [True, False])
def test_a_chunk_that_replaces_another_is_entered_within_the_bounds(command: str, bounded: bool):
    """And its first actions are those of the new plan, as soon as the robot is there: no mean of the two."""
    arm = FedPlayback(make_contract(command=command, **({} if bounded else {"max_acceleration": 1e9})))
    arm.measure([0.0, 0.0])
    commands = [np.zeros(2)]
    for chunk, offset in enumerate([0.0, 0.05, -0.05, 0.0]):
        plan = wave(0.5 * chunk, offset)
        arm.replace(plan)
        for _ in range(10):
            tick = arm.tick()
            assert tick.source is CommandSource.CHUNK
            commands.append(tick.command)
            if tick.horizon is not None and bounded:
                assert (
                    np.abs(differences(tick.horizon, arm.contract.period_s, 2)[2:]).max(initial=0.0)
                    <= 10.0 + 1e-5
                )
    assert commands[-1] == pytest.approx(plan[9], abs=1e-6)
    largest = np.abs(differences(np.array(commands), arm.contract.period_s, 2)).max()
    assert (largest <= ACCELERATION + 1e-5) == bounded
    assert (arm.guard.counts[ACCELERATION_LIMIT] > 0) == bounded


def test_a_robot_that_was_silent_begins_at_rest():
    arm = FedPlayback(make_contract(max_acceleration=2.0))
    arm.measure([0.0, 0.0])
    arm.replace(wave(0.0, 0.0)[:4])
    moving = [arm.tick().command for _ in range(4)]
    assert (moving[3] - moving[2])[0] / 0.05 == pytest.approx(0.4 * math.cos(0.125), rel=0.1)
    assert arm.tick().command is None
    arm.replace(np.full((4, 2), 1.0))
    assert np.abs(arm.tick().command - moving[3]).max() == pytest.approx(2.0 * 0.05**2)


@pytest.mark.parametrize("kind", ["position", "velocity"])
def test_a_stop_slows_down_no_faster_than_it_may(kind: str):
    deceleration = 4.0
    contract = make_contract(kind, max_deceleration=deceleration)
    arm = FedPlayback(contract, "zero" if kind == "velocity" else "hold")
    arm.measure([0.0, 0.0])
    rows = np.full((6, 2), 1.0) if kind == "velocity" else 0.05 * np.arange(1, 7)[:, np.newaxis] * [1.0, 1.0]
    arm.replace(rows)
    moving = np.array([arm.tick().command for _ in range(6)])
    stopping = []
    while (tick := arm.tick()).source is CommandSource.REPEAT_LAST:
        stopping.append(tick.command)
    assert len(stopping) > 3
    order = 1 if kind == "velocity" else 2
    changes = differences(np.array([*moving, *stopping]), 0.05, order)[len(moving) :]
    assert changes.min() >= -deceleration - ROUNDING
    assert changes.max() <= ROUNDING, "a stop accelerates nothing"


def test_a_jerk_without_ruckig_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ruckig", None)
    with pytest.raises(UserError, match=r"max_jerk: found no ruckig.*pip install"):
        make_guard(PERIOD_NS / 1e9, max_jerk=JERK)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_of_a_plan_of_few_points_as_many_are_sent_ahead(rows: int):
    guard, points = make_guard(0.05, max_jerk=JERK), np.zeros((rows, 2))
    assert len(guard.foresee(points, np.zeros(2), motion=Motion.rest(2)).actions) == rows


@pytest.mark.parametrize("jerk", [None, JERK])
@pytest.mark.parametrize("seed", range(20))
def test_what_is_sent_ahead_is_what_the_ticks_will_command(seed: int, jerk: float | None):
    rng = np.random.default_rng(seed)
    guard = make_guard(0.05, **({} if jerk is None else {"max_jerk": jerk}))
    rows = np.cumsum(rng.normal(0.0, rng.choice([0.003, 0.03]), (40, 2)).cumsum(axis=0) / 5.0, axis=0)
    begin, motion = rows[0] + rng.normal(0.0, 0.05, 2), Motion.rest(2)
    foreseen = guard.foresee(rows, begin, motion=motion)
    for row, (action, onward) in enumerate(zip(rows, guard.bounds.look_ahead(rows), strict=True)):
        guarded = guard.check(action, begin, motion=motion, onward=onward)
        begin, motion = guarded.action, guarded.motion
        assert foreseen.actions[row] == pytest.approx(begin, abs=1e-6)
        altered = [rule for rule, mask in foreseen.altered if mask[row]]
        assert sorted(altered) == sorted(guarded.interventions)
