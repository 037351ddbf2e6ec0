# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each kind of controller gets the right messages from a real robot node and server."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.wire.qos import COMMAND_QOS
from remote_inference.msg import ExecutedAction
from support.nodes.rig import CONTRACT, DEADLINE_S, JOINTS, Rig, write_contract, write_manifest

HORIZON = 150  # rows of a chunk: five seconds, longer than a busy machine lets a process wait
PERIOD_S = 1.0 / CONTRACT["fps"]
MAX_STEP = 3.0 * PERIOD_S
HOME = (1.0, 0.5)
HELD_PERIODS = 5  # periods without a command that mean a hold: fewer may be lost messages


def command_with(rig: Rig, message_type: Any, name: str) -> list[Any]:
    """Send the robot's commands as another message type; return the list of received messages."""
    received: list[Any] = []
    rig.subscribe(message_type, "other_commands", received.append, COMMAND_QOS)
    sink = {"topic": "other_commands", "type": name, "names": list(reversed(JOINTS))}
    rig.start_server(write_manifest(rig.folder, policy={"chunk_size": HORIZON}))
    rig.start_robot(write_contract(rig.folder, commands=[sink]), merge_mode="replace", buffer_time_s=4.5)
    rig.wait_for(lambda: len(received) > 10, "commands")
    return received


@pytest.fixture
def trajectories(rig: Rig) -> list[JointTrajectory]:
    return command_with(rig, JointTrajectory, "trajectory_msgs/msg/JointTrajectory")


def horizon_s(trajectory: JointTrajectory) -> float:
    last = trajectory.points[-1].time_from_start
    return last.sec + last.nanosec / 1e9


def stamp_s(tick: ExecutedAction) -> float:
    return tick.header.stamp.sec + tick.header.stamp.nanosec / 1e9


def test_a_joint_state_controller_gets_names_and_positions(rig: Rig) -> None:
    for message in command_with(rig, JointState, "sensor_msgs/msg/JointState"):
        assert tuple(message.name) == tuple(reversed(JOINTS))
        assert list(message.position) == pytest.approx([-0.5, 0.25])
        assert not message.velocity


def test_a_trajectory_controller_gets_the_rest_of_the_chunk(
    trajectories: list[JointTrajectory],
) -> None:
    for trajectory in trajectories:
        assert tuple(trajectory.joint_names) == tuple(reversed(JOINTS))
        assert trajectory.header.stamp.sec == 0
        assert 1 <= len(trajectory.points) <= HORIZON
        assert horizon_s(trajectory) == pytest.approx(len(trajectory.points) * PERIOD_S)
        assert list(trajectory.points[0].positions) == pytest.approx([-0.5, 0.25])
    assert max(len(trajectory.points) for trajectory in trajectories) > HORIZON // 2


def test_a_trajectory_ends_when_the_robot_is_paused(rig: Rig, trajectories: list[JointTrajectory]) -> None:
    assert rig.trigger("pause").success
    rig.wait_for(lambda: len(trajectories[-1].points) == 1, "a trajectory of one point")
    ticks = len(rig.executed)
    rig.wait_for(lambda: len(rig.executed) > ticks + 30, "a second of ticks")
    sources = [tick.source for tick in rig.executed[-10:]]
    assert set(sources) == {ExecutedAction.NONE}  # the hold is sent for a while, not for ever


def test_rows_that_the_controller_executed_during_a_hiccup_are_not_commanded_again(
    rig: Rig, trajectories: list[JointTrajectory]
) -> None:
    def longest_step() -> tuple[int, float]:
        """Return the most rows from one tick to the next, and the periods that passed meanwhile."""
        ticks = [tick for tick in rig.executed if tick.source == ExecutedAction.CHUNK]
        pairs = [(one, two) for one, two in pairwise(ticks) if one.seq_id == two.seq_id]
        return max(
            (two.step_index - one.step_index, (stamp_s(two) - stamp_s(one)) / PERIOD_S) for one, two in pairs
        )

    rig.server.send_signal(signal.SIGSTOP)  # no new chunk: the robot plays the last one to its end
    try:
        count = len(rig.executed)
        rig.wait_for(lambda: len(rig.executed) > count + 3, "ticks")
        rig.robot.send_signal(signal.SIGSTOP)
        handed = trajectories[-1]
        time.sleep(5 * PERIOD_S)  # the hiccup
        rig.robot.send_signal(signal.SIGCONT)
        assert len(handed.points) > 10, "the controller was fed meanwhile"
        rig.wait_for(lambda: longest_step()[0] > 3, "rows left out after the hiccup")
    finally:
        rig.server.send_signal(signal.SIGCONT)
    rows, periods = longest_step()
    assert rows == pytest.approx(periods, abs=1.0)


def test_a_robot_that_gives_up_goes_home_and_exits_with_1(rig: Rig, tmp_path: Path) -> None:
    home = {"positions": list(HOME), "duration_s": 0.5}
    rig.follows = True
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path, home=home), max_offline_s=1.0)
    rig.wait_for_commands(10)
    rig.server.send_signal(signal.SIGINT)
    assert rig.robot.wait(DEADLINE_S) == 1
    rig.wait_for(lambda: rig.commands[-1][1] == pytest.approx(tuple(reversed(HOME))), "the arm at home")
    arrivals_s, path = (np.array(column) for column in zip(*rig.commands, strict=True))
    gaps = np.diff(arrivals_s) / PERIOD_S
    gaps[gaps > HELD_PERIODS] = 1.0  # nothing was sent
    # Where one is lost the one before it is often late, hence the time of two.
    periods = np.maximum(1, np.round(gaps[:-1] + gaps[1:]) - 1)
    assert (np.abs(np.diff(path, axis=0)[1:]) <= MAX_STEP * periods[:, None] + 1e-6).all()
    homing = [tick for tick in rig.executed if tick.source == ExecutedAction.HOMING]
    assert len(homing) > 10
    assert rig.states[-1].state_name == "DEAD"
    assert "no server" in rig.states[-1].cause
