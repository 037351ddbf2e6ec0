# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The steps between rows by themselves: what is skipped, foreseen, and left of a row in progress."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import MOST_AHEAD
from support.builders import make_contract, make_rows, make_source
from support.robot.steps import Steps

TICKS = 5  # of control that a row lasts


class FedSteps(Steps):
    """The same, of a queue that is fed."""

    def __init__(self, ticks_per_row: int = TICKS, *, mode: str = "linear", switch: bool = False) -> None:
        """switch: whether the first joint is one, which keeps its action's number."""
        masks = replace(ActionMasks.of(make_contract().actions), is_switch=np.array([switch, False]))
        super().__init__(ActionQueue(), ticks_per_row, is_linear=mode == "linear", masks=masks)

    def feed(self, rows: np.ndarray, episode_id: int = 1) -> None:
        source = make_source(episode_id=episode_id)
        self.queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)

    def take(self, ticks: int = 1) -> list[tuple[int, float]]:
        """Return row and fraction of the next steps, as far as there are some."""
        steps = [self.step() for _ in range(ticks)]
        return [(step.action.step_index, round(step.fraction, 6)) for step in steps if step is not None]


@pytest.fixture
def steps() -> FedSteps:
    return FedSteps()


def test_a_row_in_progress_can_be_stepped_with_nothing_behind_it(steps: FedSteps) -> None:
    assert not steps.can_step
    steps.feed(make_rows(1))
    assert steps.can_step
    steps.take(TICKS - 1)
    assert steps.can_step
    steps.take()
    assert not steps.can_step


def test_skipped_ticks_go_on_within_the_row_in_progress(steps: FedSteps) -> None:
    """Also with nothing behind it."""
    steps.feed(make_rows(1))
    steps.take()
    steps.skip(range(2), episode_id=1)
    assert steps.take() == [(0, 0.6)]


def test_skipped_ticks_go_from_row_to_row(steps: FedSteps) -> None:
    steps.feed(make_rows(3))
    steps.take()
    steps.skip(range(TICKS + 1), episode_id=1)
    assert steps.take() == [(1, 0.4)]


def test_ticks_are_skipped_from_rows_that_have_not_begun(steps: FedSteps) -> None:
    steps.feed(make_rows(2))
    steps.skip(range(1), episode_id=1)
    assert steps.take() == [(0, 0.2)]


def test_a_row_is_taken_at_the_instant_of_its_first_tick(steps: FedSteps) -> None:
    steps.feed(make_rows(3))
    steps.step(100)
    steps.skip(range(200, 200 + 2 * TICKS), episode_id=1)
    begins_ns = (100, 200 + TICKS - 1, 200 + 2 * TICKS - 1)
    for row, begin_ns in enumerate(begins_ns):
        instants_ns = {"before": begin_ns - 1, "then": begin_ns}
        assert steps.queue.executed_by(instants_ns) == {"before": row, "then": row + 1}


def test_rows_of_another_episode_are_not_skipped(steps: FedSteps) -> None:
    steps.feed(make_rows(1))
    steps.feed(make_rows(2), episode_id=2)
    steps.skip(range(3 * TICKS), episode_id=1)
    assert len(steps.queue) == 2
    assert steps.take() == [(0, 0.0)]


def test_more_ticks_than_there_are_skip_what_there_is(steps: FedSteps) -> None:
    steps.feed(make_rows(1))
    steps.skip(range(100), episode_id=1)
    assert steps.take() == []
    steps.feed(make_rows(1))
    assert steps.take() == [(0, 0.0)]


@pytest.mark.parametrize("ticks_per_row", [2, TICKS])
def test_between_rows_only_so_many_points_are_foreseen(ticks_per_row: int) -> None:
    """Each costs a trajectory controller's message."""
    steps = FedSteps(ticks_per_row)
    steps.feed(make_rows(2 * MOST_AHEAD, step=0.001))
    foresight = steps.foresee()
    assert len(foresight.points) == len(foresight.capture_ns) == MOST_AHEAD + 1
    ways = np.diff(foresight.points[: ticks_per_row + 1, 0])
    assert ways == pytest.approx(0.001 / ticks_per_row)


def test_without_points_between_rows_all_of_the_queue_is_foreseen() -> None:
    steps = FedSteps(ticks_per_row=1)
    steps.feed(make_rows(2 * MOST_AHEAD, step=0.001))
    assert len(steps.foresee().points) == 2 * MOST_AHEAD


def points(steps: FedSteps, ticks: int) -> np.ndarray:
    found = [steps.step(0) for _ in range(ticks)]
    return np.stack([step.point for step in found if step is not None])


@pytest.mark.parametrize("switch", [False, True])
def test_a_switch_keeps_its_row_s_number_beside_a_joint_that_moves_on(switch: bool) -> None:
    """In what is commanded as in what is foreseen."""
    steps = FedSteps(switch=switch)
    steps.feed(make_rows(2, step=0.05))
    foreseen = steps.foresee().points
    taken = points(steps, TICKS + 1)
    even = 0.01 * np.arange(TICKS + 1)
    assert taken[:, 1] == pytest.approx(-even)
    assert taken[:, 0] == pytest.approx([0.0] * TICKS + [0.05] if switch else even)
    np.testing.assert_allclose(foreseen, taken)


def test_without_a_way_between_them_rows_are_repeated_and_foreseen_so() -> None:
    steps = FedSteps(mode="none")
    steps.feed(make_rows(2, step=0.05))
    foreseen = steps.foresee().points
    taken = points(steps, TICKS + 1)
    assert taken[:, 0] == pytest.approx([0.0] * TICKS + [0.05])
    np.testing.assert_allclose(foreseen, taken)


def test_of_an_empty_queue_nothing_is_foreseen(steps: FedSteps) -> None:
    foresight = steps.foresee()
    assert (len(foresight.points), len(foresight.capture_ns)) == (0, 0)
