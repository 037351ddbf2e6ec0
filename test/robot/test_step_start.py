# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the next step begins, as long as nothing was commanded and for joints that may be elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.robot.motion.estimate import find_start
from support.builders import make_contract
from support.robot.motions import FIRST, Motion
from support.robot.playbacks import make_rules

MEASURED = np.array([0.3, -0.3])


class Start(Motion):
    """Two joints of one kind."""

    def __init__(self, kind: str) -> None:
        super().__init__(make_rules(make_contract(kind)))

    def begin(self, measured: np.ndarray | None) -> np.ndarray | None:
        return find_start(self.state, measured, self.rules)


def test_before_the_first_command_each_joint_is_where_it_is_measured():
    start = Start("position")
    assert start.begin(MEASURED) == pytest.approx(MEASURED)
    assert start.begin(None) is None


def test_what_is_not_a_position_begins_at_zero_before_the_first_command():
    assert Start("velocity").begin(MEASURED) == pytest.approx(np.zeros(2))


def test_joints_whose_controller_is_absent_are_not_led_by_a_command():
    start = Start("position")
    start.unsubscribed = FIRST
    start.estimate()
    start.follow(0.0, 0.0)
    assert start.begin(MEASURED) == pytest.approx([0.3, 0.0])


def test_a_command_that_did_not_leave_is_no_start():
    start = Start("position")
    start.follow(0.0, 0.0)
    start.estimate()
    start.follow(1.0, 1.0)
    start.estimate(withheld=1)
    assert start.begin(MEASURED) == pytest.approx([0.0, 0.0])
