# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What ends the way home for good, what only interrupts it, and how fast it is, tick by tick."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.emit import emit
from remote_inference.robot.motion.limit import limit
from remote_inference.robot.motion.select import select
from remote_inference.robot.motion.state import Tick, TickInputs, WayHome
from remote_inference.robot.queue.plan import Plan
from remote_inference.robot.safety.guard import SENSOR_AGE
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, MAX_STEP, ns
from support.robot.motions import NOBODY
from support.robot.stopped_robot import StoppedRobot

START = np.zeros(2)
HOME = {"positions": [0.5, -0.25], "duration_s": 0.1}  # faster than the guard allows
GRIPPER = {
    "action": "gripper_cmd",
    "type": "control_msgs/action/GripperCommand",
    "fields": {"command.position": JOINTS[1]},
}


class GivenUp(StoppedRobot):
    """A robot that has given up, and the way home on which it is led."""

    def __init__(self, **sections: Any) -> None:
        super().__init__(("position", "position"), "hold", **sections)

    def go(
        self,
        measured: np.ndarray | None = START,
        *,
        scale: float = 1.0,
        stuck_ns: int = 0,
        now_ns: int = ns(9.0),
        **moment: Any,
    ) -> Tick:
        """Return what is commanded a second after the way began. moment: as of `look`."""
        found = replace(self.look(measured, now_ns=now_ns, halted=True, **moment), velocity_scale=scale)
        operator = replace(self.state.operator, wants_home=True)
        timing = replace(self.state.timing, stuck_ns=stuck_ns)
        self.state = replace(self.state, operator=operator, timing=timing)
        inputs = TickInputs(now_ns, now_ns, operator, "", NOBODY, None, Plan())
        choice = select(self.state, found, inputs, self.rules)
        return self._take(emit(limit(choice, found, inputs, self.rules), found, self.rules))

    @property
    def way(self) -> WayHome:
        return self.state.home


def on_its_way() -> GivenUp:
    robot = GivenUp(home=HOME)
    robot.go(now_ns=ns(8.0))
    robot.follow(*START)
    return robot


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_step_is_no_faster_than_is_allowed(scale: float):
    command = on_its_way().go(scale=scale).command
    assert command is not None
    assert np.abs(command).max() == pytest.approx(scale * MAX_STEP)


def test_a_robot_that_was_measured_lately_waits_for_a_measurement_since():
    robot = on_its_way()
    assert robot.go(None, seen=START).interventions == (SENSOR_AGE,)
    assert not robot.way.has_ended
    assert robot.go().source is CommandSource.HOMING


@pytest.mark.parametrize("seen", [None, np.array([0.0, np.nan])], ids=["nothing", "one joint"])
def test_the_way_ends_for_a_robot_that_was_not_measured_lately_in_all_its_joints(seen: np.ndarray | None):
    robot = on_its_way()
    assert robot.go(None, seen=seen).command is None
    assert robot.way.has_ended
    assert robot.way.stranded == "it has not been measured lately"


def test_the_way_ends_for_a_robot_whose_ticks_stood_still_also_where_it_was_measured_lately():
    """Another may have stopped its controllers since."""
    robot = on_its_way()
    assert robot.go(None, seen=START, stuck_ns=ns(0.3)).command is None
    assert robot.way.has_ended
    assert robot.way.stranded == "it has not been measured since its control thread stood still for 0.30 s"


def test_a_robot_without_a_home_needs_no_time_for_the_way_also_beside_an_action_server():
    commands = [{"topic": "arm", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]}, GRIPPER]
    stopping_s = GivenUp().rules.longest_end_s
    assert GivenUp(commands=commands).rules.longest_end_s == stopping_s
    assert GivenUp(commands=commands, home=HOME).rules.longest_end_s > GivenUp(home=HOME).rules.longest_end_s
