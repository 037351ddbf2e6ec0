# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Until when trajectory controllers go on by themselves, each joint by its own controller."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.builders import PERIOD_NS, make_rows, ns
from support.robot.two_arms import FIRST, MAX_ACTION_AGE_NS, NOBODY, ROWS, SECOND, TwoArms

END_NS = (1 + ROWS) * PERIOD_NS


def test_nothing_goes_on_before_anything_was_handed_over():
    arms = TwoArms()
    arms.horizon.take_back()
    assert arms.ends_ns == (0, 0)
    assert arms.horizon.goes_on_ns(NOBODY) == 0
    assert arms.horizon.end_ns == 0


def test_without_trajectory_controllers_a_tick_hands_over_its_command():
    arms = TwoArms(())
    assert not arms.horizon.is_used
    assert arms.hand_over() == pytest.approx(np.zeros((1, 2)))
    assert arms.horizon.end_ns == 0


def test_what_was_handed_over_lasts_for_its_rows():
    arms = TwoArms()
    assert arms.hand_over() == pytest.approx(np.vstack([np.zeros((1, 2)), make_rows(ROWS, first=0.01)]))
    assert arms.ends_ns == (END_NS, END_NS)
    assert arms.horizon.end_ns == END_NS


def test_what_is_due_later_lasts_longer_by_as_much():
    arms = TwoArms()
    arms.hand_over(lag_ns=7)
    assert arms.ends_ns == (END_NS + 7, END_NS + 7)
    assert arms.horizon.end_ns == END_NS + 7


@pytest.mark.parametrize(("lag_ns", "rows"), [(0, 2), (1, 1)])
def test_no_row_is_handed_over_that_is_too_old_when_it_is_due(lag_ns: int, rows: int):
    arms = TwoArms()
    assert len(arms.hand_over(MAX_ACTION_AGE_NS - 2 * PERIOD_NS, lag_ns=lag_ns)) == 1 + rows


def test_a_command_alone_lasts_for_a_period():
    arms = TwoArms()
    assert arms.hand_over(alone=True) == pytest.approx(np.zeros((1, 2)))
    assert arms.ends_ns == (PERIOD_NS, PERIOD_NS)


def test_a_controller_that_hears_nothing_goes_on_with_what_it_has():
    arms = TwoArms()
    arms.hand_over()
    arms.hand_over(PERIOD_NS, unheard=SECOND)
    assert arms.ends_ns == (END_NS + PERIOD_NS, END_NS)


def test_what_did_not_leave_replaced_nothing():
    arms = TwoArms()
    arms.hand_over()
    arms.horizon.keep()
    for change in (
        lambda: arms.hand_over(ns(1.0)),
        lambda: arms.horizon.end(NOBODY, is_whole=True),
        lambda: arms.horizon.catch_up(arms.reference, 2 * PERIOD_NS, is_known=True),
    ):
        change()
        arms.horizon.take_back()
        assert arms.ends_ns == (END_NS, END_NS)
        assert arms.horizon.end_ns == END_NS
    arms.horizon.catch_up(arms.reference, 3 * PERIOD_NS, is_known=True)
    assert arms.reference.last == pytest.approx([0.02, -0.02]), "the rows were still handed over"


@pytest.mark.parametrize(
    ("ends", "unheard", "is_whole", "ends_ns", "end_ns"),
    [
        (None, NOBODY, True, (0, 0), 0),
        (None, NOBODY, False, (0, 0), END_NS),
        (None, SECOND, True, (0, END_NS), END_NS),
        (("first",), NOBODY, False, (0, END_NS), END_NS),
        (("second",), NOBODY, False, (END_NS, 0), END_NS),
        (("first", "second"), FIRST, False, (END_NS, 0), END_NS),
    ],
)
def test_another_command_ends_the_rows_of_those_that_get_it(
    ends: Sequence[str] | None,
    unheard: np.ndarray,
    is_whole: bool,
    ends_ns: tuple[int, int],
    end_ns: int,
):
    arms = TwoArms()
    arms.hand_over()
    arms.horizon.end(unheard, is_whole=is_whole, ends=ends)
    assert arms.ends_ns == ends_ns
    assert arms.horizon.end_ns == end_ns
    arms.horizon.catch_up(arms.reference, 3 * PERIOD_NS, is_known=True)
    assert arms.reference.last == pytest.approx([0.0, 0.0]), "no row is skipped any more"
    assert len(arms.queue) == ROWS


@pytest.mark.parametrize("is_known", [False, True])
def test_rows_are_skipped_as_their_time_passes_and_reached_where_that_is_known(is_known: bool):
    arms = TwoArms()
    arms.hand_over()
    for passed, left, position in [(1.0, 4, 0.0), (1.5, 4, 0.005), (2.0, 3, 0.01), (9.0, 0, 0.04)]:
        arms.horizon.catch_up(arms.reference, round(passed * PERIOD_NS), is_known=is_known)
        assert len(arms.queue) == left
        assert arms.reference.last[0] == pytest.approx(position if is_known else 0.0)
