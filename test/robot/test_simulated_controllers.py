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


@pytest.mark.parametrize(
    ("controller", "stays_at"),
    [(Forward("position"), 1.0), (Trajectory(), 2.5)],
    ids=["forward", "trajectory"],
)
def test_one_that_is_deactivated_takes_nothing_and_stays_where_it_has_led_its_joints(
    controller: Forward | Trajectory, stays_at: float
) -> None:
    at, rows = np.zeros(1), np.arange(1.0, 6.0)[:, None]
    controller.command(rows, PERIOD_NS, 0, at)
    now_ns = 5 * PERIOD_NS // 2
    controller.deactivate(now_ns)
    controller.command(np.full((5, 1), 9.0), PERIOD_NS, now_ns, at)
    for active in (False, True):
        assert controller.lead(at, now_ns, 9 * PERIOD_NS) == pytest.approx(stays_at, abs=1e-6), active
        assert not controller.is_moving(now_ns)
        controller.activate()


def test_a_velocity_goes_on_while_its_controller_is_inactive_and_afterwards() -> None:
    controller = Forward("velocity")
    controller.command(np.full((1, 1), 0.5), PERIOD_NS, 0, np.zeros(1))
    controller.deactivate(0)
    controller.command(np.zeros((1, 1)), PERIOD_NS, 0, np.zeros(1))
    assert controller.lead(np.zeros(1), 0, 2_000_000_000) == 1.0
    controller.activate()
    assert controller.is_moving(0), "what was sent meanwhile is lost"
    controller.command(np.zeros((1, 1)), PERIOD_NS, 0, np.zeros(1))
    assert not controller.is_moving(0)
