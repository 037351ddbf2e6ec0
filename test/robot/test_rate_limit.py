# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Steps along a trajectory are bounded by arrays, as a loop over the points bounds them."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.robot.safety.guard import Guard, limit_rate
from support.builders import make_contract

SECONDS = np.arange(1500)[:, np.newaxis] / 500.0
MAX_STEP = np.array([0.004, 0.002, 0.0])
RANDOM = np.random.default_rng(1)
SMOOTH = 0.5 * np.sin(SECONDS * np.array([1.0, 2.0, 3.0]))

PATHS = {
    "within the limits": 0.001 * SMOOTH,
    "faster than the limits": 5.0 * SMOOTH,
    "noisy": SMOOTH + RANDOM.normal(0.0, 0.004, SMOOTH.shape),
    "a random walk": np.cumsum(RANDOM.normal(0.0, 0.004, SMOOTH.shape), axis=0),
    "steps": np.repeat(RANDOM.normal(0.0, 0.3, (15, 3)), 100, axis=0),
    "at random": RANDOM.normal(0.0, 0.02, SMOOTH.shape),
    "one point": np.ones((1, 3)),
    "no point": np.empty((0, 3)),
}


def limit_in_a_loop(points: np.ndarray, begin: np.ndarray, max_step: np.ndarray) -> np.ndarray:
    found = np.empty_like(points)
    for column, step in enumerate(max_step.tolist()):
        before = float(begin[column])
        for row, number in enumerate(points[:, column].tolist()):
            before = min(max(number, before - step), before + step)
            found[row, column] = before
    return found


@pytest.mark.parametrize("path", PATHS)
def test_a_trajectory_is_bounded_as_by_a_loop(path: str):
    points, begin = PATHS[path], np.array([0.1, 0.0, -0.1])
    assert np.array_equal(limit_rate(points, begin, MAX_STEP), limit_in_a_loop(points, begin, MAX_STEP))


@pytest.mark.parametrize("seed", range(200))
def test_short_trajectories_at_random_are_bounded_as_by_a_loop(seed: int):
    """Among them many numbers that lie exactly a step apart."""
    random = np.random.default_rng(seed)
    columns = int(random.integers(1, 4))
    max_step = random.choice([0.1, 0.25, 1.0], columns)
    steps = random.choice([0.0, 0.1, -0.1, 0.3, -0.3, 1.0, -1.0], (int(random.integers(60)), columns))
    points = np.cumsum(steps, axis=0) if seed % 2 else steps
    begin = random.normal(0.0, 0.3, columns).round(seed % 3)
    assert np.array_equal(limit_rate(points, begin, max_step), limit_in_a_loop(points, begin, max_step))


def guard_and_actions(seed: int) -> tuple[Guard, np.ndarray]:
    contract = make_contract()
    actions = np.random.default_rng(seed).normal(0.0, 0.5, (30, 2)).cumsum(axis=0)
    return Guard(contract.actions, contract.period_s), actions


@pytest.mark.parametrize("seed", range(20))
def test_what_was_found_for_the_actions_ahead_is_found_again(seed: int):
    guard, actions = guard_and_actions(seed)
    known = guard.foresee(actions, np.zeros(2))
    asked, reference = actions[1:25], known.actions[0]
    again, anew = guard.foresee(asked, reference, known=known), guard.foresee(asked, reference)
    assert np.array_equal(again.actions, anew.actions)
    assert again.actions.base is not None, "nothing was checked again"
    for begin in range(24):
        assert again.rules_of(begin, begin + 1) == anew.rules_of(begin, begin + 1)


@pytest.mark.parametrize("change", ["actions", "reference", "scale"])
def test_what_was_found_before_holds_for_the_same_actions_only(change: str):
    guard, actions = guard_and_actions(0)
    known = guard.foresee(actions, np.zeros(2))
    asked = actions[1:] + 0.01 * (change == "actions")
    reference = known.actions[0] - 0.01 * (change == "reference")
    scale = 0.5 if change == "scale" else 1.0
    again = guard.foresee(asked, reference, velocity_scale=scale, known=known)
    anew = guard.foresee(asked, reference, velocity_scale=scale)
    assert np.array_equal(again.actions, anew.actions)
