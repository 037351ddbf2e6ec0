# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the next step begins, as long as nothing was commanded and for joints that may be elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.motion.step_reference import StepReference
from support.builders import make_contract

MEASURED = np.array([0.3, -0.3])
ALL, NOBODY = np.ones(2, bool), np.zeros(2, bool)


def make_reference(kind: str) -> StepReference:
    """Return the reference of two joints of one kind."""
    return StepReference(ActionMasks.of(make_contract(kind).actions))


def test_before_the_first_command_no_joint_is_led_and_each_is_where_it_is_measured():
    reference = make_reference("position")
    assert reference.forgotten
    assert reference.led.tolist() == [False, False]
    for found in (reference.start(MEASURED), reference.rest(ALL, MEASURED, MEASURED, NOBODY)):
        assert found == pytest.approx(MEASURED)
    assert reference.start(None) is None
    assert reference.rest(ALL, None, None, NOBODY) is None


def test_what_is_not_a_position_begins_at_zero_before_the_first_command():
    reference = make_reference("velocity")
    for found in (reference.start(MEASURED), reference.rest(ALL, None, None, NOBODY)):
        assert found == pytest.approx(np.zeros(2))


def test_joints_whose_controller_is_absent_are_not_led_by_a_command():
    reference = make_reference("position")
    reference.take(np.zeros(2), unheard=np.array([True, False]))
    assert reference.led.tolist() == [False, True]
    assert reference.start(MEASURED) == pytest.approx([0.3, 0.0])


def test_joints_that_nothing_moves_rest_where_they_were_seen_lately():
    """The others may have moved since, but for them the last command stands."""
    reference = make_reference("position")
    away = np.array([True, False])
    reference.take(np.zeros(2), unheard=away)
    assert reference.rest(ALL, None, MEASURED, away) == pytest.approx([0.3, 0.0])
    assert reference.rest(ALL, None, MEASURED, NOBODY) is None
    assert reference.rest(ALL, None, None, away) is None
    assert reference.rest(~away, None, None, away) == pytest.approx([0.0, 0.0]), "of others nothing is said"


def test_a_command_that_did_not_leave_is_no_reference():
    reference = make_reference("position")
    reference.take_back()
    assert reference.last is None
    reference.take(np.zeros(2), unheard=NOBODY)
    reference.keep()
    reference.take(np.ones(2), unheard=NOBODY)
    reference.take_back()
    assert reference.start(MEASURED) == pytest.approx([0.0, 0.0])
