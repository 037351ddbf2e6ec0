# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Until when trajectory controllers go on by themselves, each joint by its own controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from support.builders import PERIOD_NS, make_rows
from support.robot.motions import FIRST, NOBODY, ROWS, SECOND, TwoArms
from support.robot.playbacks import MAX_AGE_NS

END_NS = (1 + ROWS) * PERIOD_NS


def sent(now_ns: int = 0, lag_ns: int = 0) -> TwoArms:
    """Return arms that were sent a command at zero and four actions after it."""
    arms = TwoArms(now_ns=now_ns)
    send(arms, lag_ns=lag_ns)
    return arms


def send(arms: TwoArms, *, lag_ns: int = 0) -> np.ndarray:
    """Send the command and the actions after it now; return the points."""
    arms.found = replace(arms.estimate(), lag_ns=lag_ns)
    return arms.send_ahead(0.0, 0.0)


def end(arms: TwoArms, ends: Sequence[str] | None = None, *, in_force: bool = False) -> None:
    """Send something else to some controllers, None for all."""
    source = CommandSource.HUMAN if ends is None else CommandSource.HOLD
    tick = Tick(np.zeros(2), source, ends=tuple(ends or ()), in_force=in_force)
    arms.take(tick)


def test_nothing_goes_on_before_anything_was_sent():
    arms = TwoArms()
    assert arms.ends_ns == (0, 0)
    assert arms.state.sent.look_ahead.until_ns(NOBODY) == 0
    assert arms.state.sent.look_ahead.end_ns == 0


def test_without_trajectory_controllers_a_tick_sends_its_command_alone():
    arms = TwoArms(())
    assert send(arms) == pytest.approx(np.zeros((1, 2)))
    assert arms.state.sent.look_ahead.end_ns == 0


def test_what_was_sent_lasts_for_its_actions():
    arms = TwoArms()
    assert send(arms) == pytest.approx(np.vstack([np.zeros((1, 2)), make_rows(ROWS, first=0.01)]))
    assert arms.ends_ns == (END_NS, END_NS)
    assert arms.state.sent.look_ahead.end_ns == END_NS


def test_what_is_due_later_lasts_longer_by_as_much():
    arms = sent(lag_ns=7)
    assert arms.ends_ns == (END_NS + 7, END_NS + 7)
    assert arms.state.sent.look_ahead.end_ns == END_NS + 7


@pytest.mark.parametrize(("lag_ns", "actions"), [(0, 2), (1, 1)])
def test_no_action_is_sent_that_is_too_old_when_it_is_due(lag_ns: int, actions: int):
    arms = TwoArms(now_ns=MAX_AGE_NS - 2 * PERIOD_NS)
    assert len(send(arms, lag_ns=lag_ns)) == 1 + actions


def test_a_command_alone_lasts_for_a_period():
    """What does not follow is tried by single steps."""
    arms = TwoArms()
    arms.estimate()
    arms.state = replace(arms.state, joints=replace(arms.state.joints, stalled=FIRST))
    assert arms.send_ahead(0.0, 0.0) == pytest.approx(np.zeros((1, 2)))
    assert arms.ends_ns == (PERIOD_NS, PERIOD_NS)


def test_a_controller_that_is_absent_goes_on_with_what_it_has():
    arms = sent()
    arms.now_ns, arms.unsubscribed, arms.plan = PERIOD_NS, SECOND, TwoArms().plan
    send(arms)
    assert arms.ends_ns == (END_NS + PERIOD_NS, END_NS)


def test_what_did_not_leave_replaced_nothing():
    arms = sent()
    arms.now_ns = PERIOD_NS // 2
    arms.estimate()
    send(arms)
    arms.estimate()
    end(arms)
    arms.estimate(withheld=1)
    assert arms.ends_ns == (END_NS + PERIOD_NS // 2, END_NS + PERIOD_NS // 2)


@pytest.mark.parametrize(
    ("ends", "absent", "is_whole", "ends_ns", "end_ns"),
    [
        (None, NOBODY, True, (0, 0), 0),
        (None, NOBODY, False, (0, 0), END_NS),
        (None, SECOND, True, (0, END_NS), END_NS),
        (("first",), NOBODY, False, (0, END_NS), END_NS),
        (("second",), NOBODY, False, (END_NS, 0), END_NS),
        (("first", "second"), FIRST, False, (END_NS, 0), END_NS),
    ],
)
def test_another_command_ends_the_actions_of_those_that_get_it(
    ends: Sequence[str] | None,
    absent: np.ndarray,
    is_whole: bool,
    ends_ns: tuple[int, int],
    end_ns: int,
):
    arms = sent()
    arms.unsubscribed = absent
    arms.estimate()
    end(arms, ends, in_force=not is_whole)
    assert arms.ends_ns == ends_ns
    assert arms.state.sent.look_ahead.end_ns == end_ns
    arms.now_ns = 3 * PERIOD_NS
    arms.estimate()
    assert arms.skipped == 0, "no action is skipped any more"


@pytest.mark.parametrize("is_known", [False, True])
def test_actions_are_skipped_as_their_time_passes_and_reached_where_that_is_known(is_known: bool):
    for passed, left, position in [(1.0, 4, 0.0), (1.5, 4, 0.005), (2.0, 3, 0.01), (9.0, 0, 0.04)]:
        arms = TwoArms(given_up_after_ns=MAX_AGE_NS if is_known else 1)
        send(arms)
        arms.now_ns = round(passed * PERIOD_NS)
        arms.estimate()
        assert ROWS - arms.skipped == left
        assert arms.state.sent.command is not None
        assert arms.state.sent.command[0] == pytest.approx(position if is_known else 0.0)


def test_an_action_is_skipped_once():
    arms = sent()
    for periods, skipped in [(2, 1), (2, 0), (4, 2)]:
        arms.now_ns = periods * PERIOD_NS
        arms.estimate()
        assert arms.skipped == skipped
        arms.plan = arms.state.progress.plan
