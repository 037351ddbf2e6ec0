# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot with controllers of all kinds: what each of them is left with, whatever happens."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from support.faults.mixed_robot import MixedRobot
from support.faults.panel import BUTTON, Panel
from support.faults.watched_arm import go_on_after_resume

ALL = ", with an arm, a base, a gripper and a tool"
Note = Callable[[str, str], None]


@pytest.mark.fault(f"server killed (SIGKILL){ALL}")
def test_without_actions_each_controller_is_left_as_its_kind_calls_for(robot: MixedRobot, note: Note) -> None:
    robot.start()
    begin_ns = time.time_ns()
    robot.server.kill()
    robot.wait_for(robot.is_stopped, "a robot that stands")
    note(robot.judge(begin_ns), "-")


@pytest.mark.fault(f"odometry falls silent{ALL}")
def test_one_silent_sensor_stops_all_of_them_until_it_is_heard_again(robot: MixedRobot, note: Note) -> None:
    robot.start()
    begin_ns = time.time_ns()
    robot.odometry = False
    robot.wait_for(robot.is_stopped, "a robot that stands")
    told = robot.judge(begin_ns)
    assert list(robot.states[-1].stale_sources) == ["odom"]
    robot.odometry = True
    robot.wait_for_motion()
    note(told, "when it is heard")


@pytest.mark.fault(f"a stop input says stop{ALL}")
def test_a_stop_ends_what_moves_and_keeps_what_holds(robot: MixedRobot, note: Note) -> None:
    robot.sections = {"stops": BUTTON}
    panel = Panel(robot)
    panel.press(False)
    robot.start()
    begin_ns = robot.begin()
    panel.press(True)
    robot.wait_for(lambda: robot.states[-1].stop.startswith("button: "), "stopped by the button")
    robot.wait_for(robot.is_stopped, "a robot that stands")
    note(robot.judge(begin_ns), "-, `clear_stop` and `resume`")


@pytest.mark.fault(f"the robot's node is killed{ALL}")
def test_a_killed_node_leaves_a_robot_that_stands_and_holds(robot: MixedRobot, note: Note) -> None:
    robot.start()
    robot.begin()
    robot.robot.kill()
    note(robot.wait_for_trip(), "-, `resume`")


@pytest.mark.fault(f"the robot's node is frozen{ALL}")
def test_a_frozen_node_comes_back_paused(robot: MixedRobot, note: Note) -> None:
    robot.start()
    robot.begin()
    robot.robot.send_signal(signal.SIGSTOP)
    told = robot.wait_for_trip()
    robot.robot.send_signal(signal.SIGCONT)
    robot.positions = [0.3, 0.9]
    go_on_after_resume(robot)
    note(told, "-, `resume`")


@pytest.mark.fault(f"the control thread hangs{ALL}")
def test_a_hung_control_thread_leaves_a_robot_that_stands_and_holds(robot: MixedRobot, note: Note) -> None:
    robot.start()
    robot.begin()
    robot.stick_control()
    note(robot.wait_for_trip(), "-, `resume`")
    robot.free_control()
