# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An episode in lockstep gives the policy what it needs by name, and executes what a guard would pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.policy_view import PolicyView, SteppedEpisode, execute_actions
from support.environments.drawer import CHUNK, FRONT, LIMIT_STEPS, STATE, Drawer, PullPolicy


def begin(drawer: Drawer, view: PolicyView, **options: int) -> SteppedEpisode:
    return SteppedEpisode(view, "open", drawer.reset(10, "open", view.wanted), **options)


def play(episode: SteppedEpisode, drawer: Drawer, policy: PullPolicy) -> None:
    while not episode.ended:
        (chunk,) = policy.predict([episode.observe()])
        rows = episode.plan(chunk)
        episode.note(rows, execute_actions(drawer.step, rows))


def test_state_images_and_actions_go_by_name() -> None:
    drawer, policy = Drawer(), PullPolicy(noise=0.0)
    view = PolicyView(drawer.spec, policy.spec)
    assert view.wanted == (STATE, FRONT)
    episode = begin(drawer, view)
    asked = episode.observe(seed=7, temperature=0.5)
    assert asked.state.tolist() == pytest.approx([0.0, 0.1])  # turn before pull, as the policy wants
    assert set(asked.images) == {FRONT}
    assert (asked.task, asked.seed, asked.temperature) == ("open", 7, 0.5)
    rows = episode.plan(np.tile(np.array([0.2, 0.3], np.float32), (CHUNK, 1)))
    assert rows[-1] == pytest.approx([0.3, 0.2])  # turn before pull, as the environment takes


def test_the_episode_runs_until_the_environment_ends_it() -> None:
    drawer, policy = Drawer(), PullPolicy(noise=0.0)
    episode = begin(drawer, PolicyView(drawer.spec, policy.spec))
    play(episode, drawer, policy)
    assert drawer.metrics().success
    assert episode.is_terminated
    assert not episode.is_truncated
    assert episode.steps == 16
    assert episode.total_reward == pytest.approx(sum(0.1 + 0.05 * tick for tick in range(1, 17)), abs=1e-5)


def test_a_limit_of_ours_truncates_and_is_never_exceeded() -> None:
    drawer, policy = Drawer(), PullPolicy(noise=0.0)
    episode = begin(drawer, PolicyView(drawer.spec, policy.spec), max_steps=7)
    play(episode, drawer, policy)
    assert (episode.steps, episode.is_truncated, episode.is_terminated) == (7, True, False)
    assert policy.batches == [1, 1]


def test_a_shorter_horizon_asks_more_often() -> None:
    drawer, policy = Drawer(), PullPolicy(noise=0.0)
    play(begin(drawer, PolicyView(drawer.spec, policy.spec), execution_horizon=2), drawer, policy)
    assert len(policy.batches) == 8


def test_the_environment_s_own_limit_truncates() -> None:
    drawer, policy = Drawer(), PullPolicy(noise=0.0, step=0.0)
    episode = begin(drawer, PolicyView(drawer.spec, policy.spec))
    play(episode, drawer, policy)
    assert (episode.steps, episode.is_truncated) == (LIMIT_STEPS, True)


def test_rows_are_bounded_as_by_a_guard() -> None:
    drawer = Drawer()
    view = PolicyView(drawer.spec, PullPolicy().spec)
    episode = begin(drawer, view)
    rows = episode.plan(np.tile(np.array([5.0, 5.0], np.float32), (3, 1)))
    assert rows[:, 1] == pytest.approx([0.3, 0.5, 0.7])  # 2 units a second, from where it stands
    assert rows[:, 0] == pytest.approx([1.0, 1.0, 1.0])  # the upper bound
    episode.note(rows, execute_actions(drawer.step, rows))
    assert episode.plan(np.array([[5.0, 0.0]], np.float32))[0, 1] == pytest.approx(0.9)  # goes on from there


def test_a_policy_that_sees_several_ticks_gets_them_and_the_first_repeated() -> None:
    drawer = Drawer()
    view = PolicyView(drawer.spec, replace(PullPolicy().spec, observation_steps=3))
    episode = begin(drawer, view)
    assert [tick.tolist() for tick in episode.observe().states] == [pytest.approx([0.0, 0.1])] * 3
    rows = np.array([[0.0, 0.2], [0.0, 0.3]])
    episode.note(rows, execute_actions(drawer.step, rows))
    assert episode.observe().states[:, 1] == pytest.approx([0.1, 0.2, 0.3])
    assert [image[0, 0, 0] for image in episode.observe().image_steps(FRONT)] == [10, 20, 30]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"state_names": ("pull", "push")},
            r"drawer for policy pull: state: found no push, expected of pull, turn",
        ),
        ({"action_names": ("pull",)}, "actions: found no turn, expected of pull"),
        ({"action_names": ("pull", "turn", "fly")}, "actions: found none of fly, which the policy commands"),
        (
            {"image_shapes": {"observation.images.top": (4, 6, 3)}},
            f"no image observation.images.top, expected of {FRONT}",
        ),
    ],
)
def test_what_the_environment_lacks_is_named(change: dict[str, object], problem: str) -> None:
    with pytest.raises(EnvError, match=problem):
        PolicyView(Drawer().spec, replace(PullPolicy().spec, **change))
