# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""From when on a measurement says where a joint is, and how much later a step from there is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import CATCH_UP_SCALE, RECENT_NS, is_forgotten
from remote_inference.robot.motion.state import Tick
from support.builders import MAX_STEP, PERIOD_NS, ns
from support.robot.motions import FIRST, SECOND, TwoArms

BEGIN_NS = ns(7.0)
MAX_ACTION_AGE_NS, MAX_SENSOR_AGE_NS = ns(3.0), ns(0.5)
FAR = 100 * MAX_STEP  # farther than an arm may be from its command


class Arms(TwoArms):
    """They are commanded, and looked at, tick by tick."""

    def __init__(self, controllers: Sequence[str] = ("first", "second")) -> None:
        super().__init__(controllers, now_ns=BEGIN_NS, given_up_after_ns=ns(1e9))
        self.plan = replace(self.plan, capture_ns=self.plan.capture_ns + BEGIN_NS)
        self.at: Sequence[float] = (0.0, 0.0)
        self.look()

    def look(self, age_ns: int = 0, *, is_lost: bool = False, forgets: bool = False) -> bool:
        """Look where the joints are, which were measured so long ago; return whether they may be led on."""
        found = self.estimate(
            measured=np.array(self.at),
            measured_ns=self.now_ns - age_ns,
            losses=self.operator.losses + is_lost,
            forgets=self.operator.forgets + forgets,
        )
        return found.may_lead

    @property
    def measured(self) -> np.ndarray | None:
        return self.estimated.measured

    @property
    def estimated(self) -> Any:
        assert self.found is not None
        return self.found

    def hold(self, *ends: str, late_ns: int = 0) -> Tick:
        """End the actions of some controllers; return the tick."""
        assert self.state.sent.command is not None
        hold = Tick(
            self.state.sent.command, CommandSource.HOLD, ends=ends, late_ns=late_ns, in_force=len(ends) < 2
        )
        return self.take(hold)

    def goes_on(self) -> tuple[bool, bool]:
        """Return of each joint whether its controller may go on along actions."""
        return self.ends_ns[0] > 0, self.ends_ns[1] > 0


@pytest.mark.parametrize(("age_ns", "is_known"), [(ns(0.1), True), (ns(0.1) + 1, False)])
def test_an_arm_that_a_hand_may_have_moved_until_now_is_where_it_was_measured_lately(
    age_ns: int, is_known: bool
):
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.now_ns += ns(1.0)
    arms.look(age_ns=age_ns, forgets=True)
    assert (arms.measured is not None) is is_known


def test_zeros_beside_an_arm_are_no_command_to_it():
    """It may have been moved by another since its own last one."""
    arms = Arms()
    arms.command(0.0, 0.0)
    for _ in range(4):
        arms.now_ns += ns(1.0)
        arms.take(Tick.alone(np.zeros(2), CommandSource.ZERO, ()))
        arms.look()
    assert is_forgotten(arms.state)


@pytest.mark.parametrize(("moved", "follows"), [(0.75, False), (1.25, True)])
def test_a_joint_that_has_moved_by_a_step_follows_again(moved: float, follows: bool):
    arms = Arms(controllers=())
    arms.command(FAR, 0.0)
    arms.look()
    assert arms.state.joints.stalled.any()
    arms.at = (moved * MAX_STEP, 0.0)
    arms.look()
    assert (not arms.state.joints.stalled.any()) is follows


@pytest.mark.parametrize(
    ("ends", "goes_on"), [(("first",), (False, True)), (("second",), (True, False)), ((), (True, True))]
)
def test_a_hold_ends_the_rows_of_the_controllers_that_it_is_for(
    ends: tuple[str, ...], goes_on: tuple[bool, bool]
):
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.hold(*ends)
    assert arms.goes_on() == goes_on


def test_any_other_command_ends_the_rows_of_all():
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.command(0.0, 0.0, source=CommandSource.HUMAN)
    assert arms.goes_on() == (False, False)


@pytest.mark.parametrize(("ends", "is_known"), [("first", False), ("second", True)])
def test_a_joint_that_is_lost_may_be_on_its_way_along_its_own_rows_alone(ends: str, is_known: bool):
    """What was measured a while ago says nothing of it then."""
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.hold(ends)
    arms.lose(SECOND)
    arms.look(age_ns=2 * max(RECENT_NS, PERIOD_NS))
    assert (arms.measured is not None) is is_known


# -- how much later a command is due -------------------------------------------------------------------------


AGE_NS = PERIOD_NS // 2


def lost(**options: Any) -> Arms:
    """Return arms whose tick has just found that another may have moved them while they went on."""
    arms = Arms(**options)
    arms.command(0.0, 0.0)
    arms.now_ns += PERIOD_NS
    arms.look(is_lost=True)
    return arms


def found(**options: Any) -> Arms:
    """Return the same a tick later, measured since."""
    arms = lost(**options)
    arms.now_ns += PERIOD_NS
    arms.look(age_ns=AGE_NS)
    return arms


def test_a_step_from_where_a_moving_arm_was_measured_is_due_later_by_the_age():
    arms = found()
    assert arms.estimated.lag_ns == AGE_NS
    assert arms.estimated.velocity_scale == CATCH_UP_SCALE
    assert arms.command(0.01, 0.0).late_ns == AGE_NS


def test_a_step_from_where_a_resting_arm_was_measured_is_due_in_a_period():
    """It was told several times to be where it is: what was told last has moved it no more."""
    arms = Arms()
    for _ in range(5):
        arms.now_ns += PERIOD_NS
        arms.command(0.0, 0.0, source=CommandSource.HUMAN)
    arms.now_ns += PERIOD_NS // 4
    arms.look(is_lost=True)
    arms.now_ns += AGE_NS
    arms.look(age_ns=AGE_NS)
    assert arms.measured is not None
    assert arms.estimated.lag_ns == 0
    assert arms.estimated.velocity_scale == 1.0


def test_a_controller_catches_up_while_steps_are_smaller():
    arms = found()
    lags_ns = []
    for tick in range(5):
        arms.command(0.01 * tick, 0.0)
        lags_ns.append(arms.estimated.lag_ns)
        arms.now_ns += PERIOD_NS // 2
        arms.at = (0.01 * tick, 0.0)
        arms.look()
    part_ns = round((1.0 - CATCH_UP_SCALE) * (PERIOD_NS // 2))
    assert lags_ns == [max(0, AGE_NS - tick * part_ns) for tick in range(5)]


def test_a_hold_is_due_when_it_says_itself():
    """It knows how old the measurement of each joint is."""
    arms = found()
    assert arms.estimated.lag_ns == AGE_NS
    assert arms.hold("first", "second").late_ns == 0
    assert arms.hold("first", "second", late_ns=7).late_ns == 7


@pytest.mark.parametrize("how", ["lost", "forgotten"])
def test_a_command_is_late_while_the_rows_of_a_joint_that_begins_where_it_was_measured_go_on(how: str):
    """One joint is enough; once its rows have been executed, it rests there."""
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.now_ns += 3 * PERIOD_NS
    if how == "lost":
        arms.lose(FIRST)
    else:
        arms.look(forgets=True)
    arms.look(age_ns=AGE_NS)
    assert arms.estimated.lag_ns == AGE_NS
    arms.now_ns = arms.state.sent.look_ahead.end_ns + AGE_NS
    arms.look(age_ns=AGE_NS)
    assert arms.estimated.lag_ns == 0


def test_each_joint_is_found_where_it_was_measured_lately_by_itself():
    arms = Arms()
    arms.command(0.0, 0.0)
    arms.now_ns += PERIOD_NS
    ages_ns = np.array([1, MAX_SENSOR_AGE_NS + 1])
    found = arms.estimate(positions=np.array([0.1, 0.2]), positions_ns=arms.now_ns - ages_ns)
    for places in (found.found, found.seen):
        assert places == pytest.approx([0.1, np.nan], nan_ok=True)
    assert found.ages_ns.tolist() == ages_ns.tolist()


def test_what_is_not_measured_makes_no_command_late():
    """No step begins there."""
    arms = lost()
    arms.look(age_ns=MAX_SENSOR_AGE_NS + 1)
    assert arms.measured is None
    assert arms.estimated.lag_ns == 0


def test_without_trajectory_controllers_no_command_is_late():
    arms = found(controllers=())
    assert arms.estimated.lag_ns == 0
    assert arms.command(0.01, 0.0).late_ns == 0
