# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Advantages compare rollouts with their group alone, and a curriculum chooses where groups differ."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from remote_inference.learn.environment import Metrics
from remote_inference.learn.rollouts import Curriculum, Group, Sampling, Trajectory, find_advantages
from remote_inference.learn.rollouts.group import ChunkUse, CurriculumError
from support.environments.drawer import Drawer

REWARDS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=16)


def trajectory(reward: float, *versions: str, success: bool = False, noise: float = 0.0) -> Trajectory:
    chunks = tuple(ChunkUse(f"{place}", place, 1, version, 0) for place, version in enumerate(versions))
    return Trajectory(
        0,
        None,
        Sampling(0),
        np.full((2, 1), noise),
        np.array([0.0, reward]),
        chunks,
        Metrics(success),
        True,
        False,
    )


def group(*trajectories: Trajectory, task: str = "open") -> Group:
    return Group(Drawer().spec, task, 7, trajectories)


def test_advantages_are_in_standard_deviations_of_the_group() -> None:
    assert find_advantages([1.0, 0.0, 0.0, 1.0]) == pytest.approx([1.0, -1.0, -1.0, 1.0])
    assert find_advantages([0.0, 0.0, 0.0, 4.0]) == pytest.approx([-1, -1, -1, 3] / np.sqrt(3))


@given(REWARDS, st.floats(0.1, 10.0), st.floats(-100.0, 100.0))
def test_advantages_sum_to_nothing_and_do_not_depend_on_scale_or_offset(
    rewards: list[float], scale: float, offset: float
) -> None:
    assume(np.std(rewards) > 1e-3 * max(1.0, *map(abs, rewards)))
    advantages = find_advantages(rewards)
    assert advantages.sum() == pytest.approx(0.0, abs=1e-6)
    assert np.square(advantages).mean() == pytest.approx(1.0)
    assert find_advantages(np.array(rewards) * scale + offset) == pytest.approx(
        advantages, rel=1e-4, abs=1e-4
    )


@pytest.mark.parametrize("rewards", [[], [3.0], [1.0] * 8, [0.1 + 0.2, 0.3, 0.3], [1e9, 1e9]])
def test_equal_rewards_have_no_advantages(rewards: list[float]) -> None:
    assert find_advantages(rewards).tolist() == [0.0] * len(rewards)


def test_a_reward_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="expected finite values"):
        find_advantages([1.0, float("nan")])


def test_a_group_of_several_versions_is_marked() -> None:
    assert not group(trajectory(0.0, "a", "a"), trajectory(1.0, "a")).is_mixed
    mixed = group(trajectory(0.0, "a", "b"), trajectory(1.0, "a"))
    assert mixed.is_mixed
    assert mixed.policy_versions == ("a", "b")


def test_a_group_counts_what_differs() -> None:
    same = group(trajectory(1.0), trajectory(1.0))
    assert (same.is_degenerate, same.distinct) == (True, 1)
    other = group(trajectory(1.0), trajectory(0.0, noise=0.1, success=True))
    assert (other.is_degenerate, other.distinct) == (False, 2)
    assert other.successes.tolist() == [False, True]


def test_samplings_of_a_group_differ_and_are_those_of_the_seed() -> None:
    drawn = Sampling.spread(7, 8, 2.0)
    assert len({one.noise_seed for one in drawn}) == 8
    assert drawn == Sampling.spread(7, 8, 2.0)
    assert drawn[:4] == Sampling.spread(7, 4, 2.0)
    assert not {one.noise_seed for one in drawn} & {one.noise_seed for one in Sampling.spread(8, 8)}
    assert drawn[0].seed_of(0) != drawn[0].seed_of(1)


def test_a_curriculum_chooses_the_task_whose_groups_differ_most() -> None:
    curriculum = Curriculum(["open", "look"])
    assert curriculum.choose() == "open"
    curriculum.record(group(*[trajectory(1.0, success=True)] * 4))
    assert curriculum.choose() == "look", "of the other nothing more is learned"
    curriculum.record(group(*[trajectory(0.0)] * 4, task="look"))
    assert curriculum.records["look"].success_rate == 0.0
    half = [trajectory(1.0, success=True), trajectory(0.0)]
    curriculum.record(group(*half, task="look"))
    assert curriculum.records["look"].success_rate == pytest.approx(0.15)
    assert curriculum.choose() == "look"
    assert curriculum.records["look"].groups == 2


def test_a_curriculum_refuses_a_task_that_it_does_not_have() -> None:
    with pytest.raises(CurriculumError, match="found a group of task 'fly', expected 'open'"):
        Curriculum(["open"]).record(group(trajectory(0.0), task="fly"))
    with pytest.raises(CurriculumError, match="found no task"):
        Curriculum([])
