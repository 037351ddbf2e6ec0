# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the next step begins, as long as nothing was commanded and for joints that may be elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.core.robot.step_reference import StepReference

MEASURED = np.array([0.3, -0.3])


def test_before_the_first_command_no_joint_is_led_and_each_is_where_it_is_measured():
    reference = StepReference(2, is_position=True)
    assert reference.forgotten
    assert reference.led.tolist() == [False, False]
    for found in (reference.start(MEASURED), reference.rest(MEASURED)):
        assert found == pytest.approx(MEASURED)
    assert reference.start(None) is None
    assert reference.rest(None) is None


def test_what_is_not_a_position_begins_at_zero_before_the_first_command():
    reference = StepReference(2, is_position=False)
    for found in (reference.start(MEASURED), reference.rest(None)):
        assert found == pytest.approx(np.zeros(2))


def test_joints_whose_controller_is_absent_are_not_led_by_a_command():
    reference = StepReference(2, is_position=True)
    reference.take(np.zeros(2), unheard=np.array([True, False]))
    assert reference.led.tolist() == [False, True]
    assert reference.start(MEASURED) == pytest.approx([0.3, 0.0])
