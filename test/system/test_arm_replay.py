# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`replay --arm` drives an arm with recorded commands through the real node, with its operator's handles."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.serialization import serialize_message
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectory

from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.base.wire.qos import COMMAND_QOS
from remote_inference.msg import ExecutedAction
from support.nodes.rig import CONTRACT, DEADLINE_S, JOINTS, Rig
from support.nodes.stillness import count_when_still

ROWS = 120
# A busy machine may keep the control thread waiting; its watchdog is not what is tested here.
PARAMETERS = "/**:\n  ros__parameters: {watchdog_timeout_s: 10.0}\n"
STEP = 3.0 / 30.0  # the limit of both joints, by tick
SLOW_STEP = 0.2 * STEP
ROUNDING = 1e-5


class FollowingRig(Rig):
    """Its arm is at once where it is commanded."""

    def _on_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        super()._on_command(message, info)
        self.positions = list(reversed(message.data))

    def executed_rows(self) -> np.ndarray:
        """Return the commands so far, in the order of JOINTS."""
        return np.array([command[::-1] for _, command in self.commands], np.float32).reshape(-1, 2)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FollowingRig]:
    made = FollowingRig(tmp_path)
    yield made
    made.close()


def recorded_rows() -> np.ndarray:
    """Return a motion in which no row comes twice; it begins away from the rig's arm."""
    places = np.arange(ROWS, dtype=np.float32)[:, np.newaxis]
    return np.array([[0.6, -0.8]], np.float32) + places * np.array([[0.01, 0.005]], np.float32)


def write_bag(path: Path, **changes: Any) -> Path:

    topic = "/rig/remote_inference/executed"
    contract = json.dumps({**CONTRACT, **changes})
    with BagWriter(path, [BagTopic(topic, "remote_inference/msg/ExecutedAction")], contract=contract) as bag:
        for tick, row in enumerate(recorded_rows()):
            message = ExecutedAction(
                tick=tick, source=ExecutedAction.CHUNK, joint_names=list(JOINTS), action=row.tolist()
            )
            bag.write(topic, 1_000_000_000 + tick * 33_000_000, serialize_message(message))
    return path


@contextmanager
def started(*words: Any) -> Iterator[subprocess.Popen[str]]:
    """Run a replay; what has not ended by then is killed, and ends with its nodes: they command the arm."""
    command = [sys.executable, "-m", "remote_inference.tools.cli", "replay", "--arm", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def replay(rig: FollowingRig, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    parameters = tmp_path / "params.yaml"
    parameters.write_text(PARAMETERS)
    with started(write_bag(tmp_path / "bag"), "--params-file", parameters) as process:
        yield process
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    assert f"{ROWS} commands, 4.0 s, 0 held" in output


def places_of(commands: np.ndarray) -> list[int]:
    """Return the row of the recording that each command is; -1 for none."""
    is_row = (np.abs(commands[:, np.newaxis] - recorded_rows()).max(axis=2) < ROUNDING).tolist()
    return [row.index(True) if True in row else -1 for row in is_row]


def actions_of(ticks: Sequence[ExecutedAction]) -> np.ndarray:
    """Return the actions of the ticks that had one."""
    moves = [tick.action for tick in ticks if len(tick.action)]
    return np.array(moves, np.float32).reshape(-1, 2)


def steps(ticks: Sequence[ExecutedAction]) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the places before and after each step of one tick to the next, and the step."""
    for one, next_one in pairwise([tick for tick in ticks if len(tick.action)]):
        if next_one.tick == one.tick + 1:
            actions = actions_of([one, next_one])
            before, after = places_of(actions)
            yield before, after, np.diff(actions, axis=0)


def test_the_arm_is_led_to_the_recording_gets_every_row_and_holds(
    rig: FollowingRig, replay: subprocess.Popen[str]
) -> None:
    start_position = np.array(rig.positions, np.float32)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "session")
    rig.wait_for_executed(20)
    assert not rig.commands
    assert rig.states[-1].paused
    assert rig.trigger("resume").success
    rig.wait_for(lambda: 30 in places_of(rig.executed_rows()), "row 30")
    assert rig.trigger("pause").success
    rig.wait_for(lambda: rig.states[-1].paused, "paused state")
    count = count_when_still(rig)
    rig.wait_for_executed(20)
    assert len(rig.commands) == count
    assert rig.trigger("resume").success
    rig.wait_for(lambda: places_of(rig.executed_rows())[-3:] == [ROWS - 1] * 3, "the last row, held")
    places = places_of(rig.executed_rows())
    begin = places.index(0)
    assert np.abs(rig.executed_rows()[0] - start_position).max() <= SLOW_STEP + ROUNDING
    recorded = [place for place in places[begin:] if place >= 0]
    assert recorded == sorted(recorded)
    assert len(set(recorded)) > 0.9 * ROWS  # a message may be lost
    for before, after, step in steps(rig.executed):
        is_lead = before < 0 or after < 0
        assert after < 0 or before < 0 or after - before in {0, 1}
        assert np.abs(step).max() <= (SLOW_STEP if is_lead else STEP) + ROUNDING
    assert {tick.source for tick in rig.executed if len(tick.action)} == {ExecutedAction.CHUNK}
    count = len(rig.executed)
    assert rig.trigger("reset").success
    rig.wait_for(lambda: 5 in places_of(actions_of(rig.executed[count:])), "row 5 of the second time")
    for before, after, step in steps(rig.executed[count:]):
        assert np.abs(step).max() <= SLOW_STEP + ROUNDING, (before, after)
    assert replay.poll() is None


def test_a_trajectory_controller_is_led_alike(rig: FollowingRig, tmp_path: Path) -> None:
    def follow(trajectory: JointTrajectory) -> None:
        rig.positions = list(trajectory.points[0].positions)

    rig.subscribe(JointTrajectory, "trajectories", follow, COMMAND_QOS)
    sink = {"topic": "trajectories", "type": "trajectory_msgs/msg/JointTrajectory", "names": list(JOINTS)}
    parameters = tmp_path / "params.yaml"
    parameters.write_text(PARAMETERS)
    bag = write_bag(tmp_path / "bag", commands=[sink])
    with started(bag, "--params-file", parameters) as process:
        rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "session")
        assert rig.trigger("resume").success

        rig.wait_for(lambda: places_of(actions_of(rig.executed))[-3:] == [ROWS - 1] * 3, "the last row, held")
        places = [place for place in places_of(actions_of(rig.executed)) if place >= 0]
        assert places == sorted(places)
        assert len(set(places)) > 0.8 * ROWS  # a message of a tick may be lost
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output


def test_a_robot_that_somebody_else_commands_is_left_alone(rig: FollowingRig, tmp_path: Path) -> None:
    bag = write_bag(tmp_path / "bag")
    rig.run_on_executor(lambda: rig.node.create_publisher(Float64MultiArray, "commands", 1))
    with started(bag) as process:
        output, _ = process.communicate(timeout=2 * DEADLINE_S)
    assert "found /rig/rig publishes /rig/commands; expected that nobody else commands" in output
    assert not rig.commands


def test_a_watchdog_that_an_earlier_run_left_is_named_as_that(rig: FollowingRig, tmp_path: Path) -> None:
    bag = write_bag(tmp_path / "bag")
    left = rclpy.create_node("command_watchdog", namespace="/rig", context=rig.node.context)
    left.create_publisher(Float64MultiArray, "commands", 1)
    try:
        with started(bag) as process:
            output, _ = process.communicate(timeout=2 * DEADLINE_S)
    finally:
        left.destroy_node()
    told = "found /rig/command_watchdog, the robot's watchdog, is left over of an earlier run; expected"
    assert told in output
    assert process.returncode == 2
    assert not rig.commands


def test_an_arm_that_is_not_commanded_by_positions_is_refused(tmp_path: Path) -> None:
    actions = {**CONTRACT["actions"], "kind": "velocity"}
    with started(write_bag(tmp_path / "bag", actions=actions)) as process:
        output, _ = process.communicate(timeout=2 * DEADLINE_S)
    assert process.returncode == 2
    assert "found velocity actions, expected position actions" in output.splitlines()[-1]
