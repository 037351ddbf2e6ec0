# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The controllers of the tests do what those of ros2_control do, also what nobody wishes for."""

from __future__ import annotations

import numpy as np
import pytest

from support.robot.controllers import Forward, Trajectory

PERIOD_NS = 33_000_000
STEP = 0.02  # of each tick's command [rad]
LAG = 0.3  # of the arm behind its setpoint [rad]


@pytest.mark.parametrize(("from_measured", "fastest"), [(False, STEP), (True, LAG + STEP)])
def test_a_trajectory_begins_where_the_last_one_has_led_or_where_a_slow_arm_is(
    from_measured: bool, fastest: float
) -> None:
    """From the measured state, the setpoint makes up for the whole lag in each period: a sawtooth."""
    controller = Trajectory(from_measured=from_measured)
    setpoint, way, now_ns = np.zeros(1), [], 0
    for tick in range(60):
        measured = np.array([max(0.0, tick * STEP - LAG)])
        rows = STEP * np.arange(tick + 1.0, tick + 4.0)[:, None]
        controller.command(rows, PERIOD_NS, now_ns, measured)
        begin = controller.lead(measured, now_ns, now_ns)
        now_ns += PERIOD_NS
        setpoint = controller.lead(measured, now_ns - PERIOD_NS, now_ns)
        way.append(float(setpoint[0] - begin[0]))
    assert max(way) == pytest.approx(fastest)


@pytest.mark.parametrize("controller", [Forward("effort"), Forward("position"), Trajectory()])
def test_one_that_is_deactivated_takes_nothing_and_begins_anew_when_it_is_active(
    controller: Forward | Trajectory,
) -> None:
    at = np.zeros(1)
    controller.command(np.full((5, 1), 1.0), PERIOD_NS, 0, at)
    controller.deactivate()
    controller.command(np.full((5, 1), 1.0), PERIOD_NS, 0, at)
    assert not controller.is_moving(1)
    assert controller.lead(at, 0, 5 * PERIOD_NS) == at
    controller.activate()
    assert not controller.is_moving(1), "what was sent meanwhile is lost"
