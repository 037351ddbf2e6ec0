# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the command watchdog holds an arm at: nothing that is published may keep it from stopping."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from remote_inference.core.contract.contract import load_contract
from remote_inference.nodes.watchdog import measured_positions
from remote_inference.nodes.watchdog.measured_positions import MeasuredPositions
from support.nodes.rig import CONTRACT, JOINTS, write_contract
from support.robot.pose_robot import POSE, pose_command, pose_section, pose_state

SINK = {**CONTRACT["commands"][0], "type": "trajectory_msgs/msg/JointTrajectory"}


class Listener:
    """Stands for a node: keeps the callback of each subscription."""

    def __init__(self) -> None:
        self.callbacks: dict[str, Callable[[bytes], None]] = {}

    def create_subscription(self, _kind: type, topic: str, callback: Any, _qos: Any, *, raw: bool) -> None:
        assert raw
        self.callbacks[topic] = callback


def joints(sec: int = 0, **positions: float) -> bytes:
    """Return a message. sec: of its stamp."""
    header = Header(stamp=Time(sec=sec))
    return serialize_message(
        JointState(header=header, name=list(positions), position=list(positions.values()))
    )


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def positions(listener: Listener, tmp_path: Path) -> MeasuredPositions:
    contract = load_contract(write_contract(tmp_path, commands=[SINK]))
    return MeasuredPositions(listener, contract)  # type: ignore[arg-type]


def test_several_drivers_may_each_publish_a_part(listener: Listener, positions: MeasuredPositions) -> None:
    for name, value in zip(JOINTS, (0.25, -0.5), strict=True):
        listener.callbacks["joint_states"](joints(**{name: value, "another": 9.0}))
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\x00\x01\x00\x00" + b"\xff" * 40], ids=len)
def test_a_message_that_cannot_be_read_hides_no_other(
    listener: Listener, positions: MeasuredPositions, damaged: bytes
) -> None:
    listener.callbacks["joint_states"](joints(shoulder=0.25, elbow=-0.5))
    listener.callbacks["joint_states"](damaged)
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


def test_what_is_not_finite_is_no_position(listener: Listener, positions: MeasuredPositions) -> None:
    listener.callbacks["joint_states"](joints(shoulder=float("nan"), elbow=float("inf")))
    assert positions.fresh() == {}


def test_a_message_with_fewer_positions_than_names_says_of_no_joint_where_it_is(
    listener: Listener, positions: MeasuredPositions
) -> None:
    listener.callbacks["joint_states"](joints(shoulder=0.25, elbow=-0.5))
    short = JointState(name=["another", "shoulder", "elbow"], position=[0.1, 0.2])
    listener.callbacks["joint_states"](serialize_message(short))
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


def test_old_positions_do_not_count(
    listener: Listener, positions: MeasuredPositions, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.callbacks["joint_states"](joints(shoulder=0.25, elbow=-0.5))
    monkeypatch.setattr(measured_positions, "MAX_AGE_S", -1.0)
    assert positions.fresh() == {}


def test_drivers_that_call_their_joints_alike_are_told_apart_by_their_topics(
    listener: Listener, tmp_path: Path
) -> None:
    state = [
        {**CONTRACT["state"][0], "topic": f"arm_{name}", "names": [name], "prefix": name[:-2]}
        for name in JOINTS  # shoulder and elbow: both drivers call their joint by two letters
    ]
    contract = load_contract(write_contract(tmp_path, commands=[SINK], state=state))
    positions = MeasuredPositions(listener, contract)  # type: ignore[arg-type]
    for name, value in zip(JOINTS, (0.25, -0.5), strict=True):
        listener.callbacks[f"arm_{name}"](joints(**{name[-2:]: value}))
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


def test_only_topics_with_positions_of_actions_are_heard(listener: Listener, tmp_path: Path) -> None:
    imu = {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w"], "names": ["lean"]}
    speeds = {**CONTRACT["state"][0], "topic": "speeds", "field": "velocity"}
    state = [imu, *CONTRACT["state"], speeds]
    contract = load_contract(write_contract(tmp_path, commands=[SINK], state=state))
    MeasuredPositions(listener, contract)  # type: ignore[arg-type]
    assert list(listener.callbacks) == ["joint_states"]


def test_joints_of_several_measured_sources_are_heard_and_poses_are_not(
    listener: Listener, tmp_path: Path
) -> None:
    """A trajectory ends where its joints are; a controller of poses gets nothing in a stop."""
    drive = {"type": "sensor_msgs/msg/JointState", "field": "position"}
    actions = {"names": [*POSE, *JOINTS], "poses": {"tool": pose_section()}}
    contract = load_contract(
        write_contract(
            tmp_path,
            actions={**CONTRACT["actions"], **actions},
            commands=[SINK, pose_command()],
            measured=[
                {**drive, "topic": "first", "names": ["joint"]},
                pose_state(),
                {**drive, "topic": "second", "names": ["other_joint"]},
            ],
        )
    )
    positions = MeasuredPositions(listener, contract)  # type: ignore[arg-type]
    assert list(listener.callbacks) == ["first", "second"]
    listener.callbacks["first"](joints(joint=0.25))
    listener.callbacks["second"](joints(other_joint=-0.5, joint=9.0))
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


def test_a_driver_that_publishes_very_often_hides_no_slow_one(
    listener: Listener, positions: MeasuredPositions
) -> None:
    listener.callbacks["joint_states"](joints(elbow=-0.5))
    for number in range(500):  # half a second at 1 kHz
        listener.callbacks["joint_states"](joints(shoulder=0.001 * number))
    assert positions.fresh() == {"shoulder": 0.499, "elbow": -0.5}


def test_what_cannot_be_is_no_position(listener: Listener, positions: MeasuredPositions) -> None:
    """A broken encoder, or another unit: a hold there would throw the arm."""
    listener.callbacks["joint_states"](joints(shoulder=1e3, elbow=-0.5))
    assert positions.fresh() == {"elbow": -0.5}


class Heard:
    """A topic on a clock of the test's own."""

    def __init__(self, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        self._hear = listener.callbacks["joint_states"]
        monkeypatch.setattr(measured_positions.time, "monotonic", lambda: self.now_s)

    def hear(self, seconds: float, make: Callable[[int], bytes]) -> None:
        """Let messages come every tenth of a second for a time."""
        for number in range(round(10 * seconds)):
            self._hear(make(number))
            self.now_s += 0.1


@pytest.fixture
def heard(listener: Listener, positions: MeasuredPositions, monkeypatch: pytest.MonkeyPatch) -> Heard:
    return Heard(listener, monkeypatch)


def test_a_driver_that_repeats_its_last_message_has_measured_when_it_came_first(
    heard: Heard, positions: MeasuredPositions
) -> None:
    heard.hear(2.0, lambda number: joints(1 + number, shoulder=0.01 * number, elbow=-0.5))
    assert positions.fresh() == {"shoulder": 0.19, "elbow": -0.5}
    heard.hear(0.3, lambda _: joints(20, shoulder=0.19, elbow=-0.5))
    assert positions.fresh() == {"shoulder": 0.19, "elbow": -0.5}
    heard.hear(1.0, lambda _: joints(20, shoulder=0.19, elbow=-0.5))
    assert positions.fresh() == {}
    heard.hear(0.1, lambda _: joints(21, shoulder=0.3, elbow=-0.5))
    assert positions.fresh() == {"shoulder": 0.3, "elbow": -0.5}


def test_a_driver_that_repeats_itself_hides_no_other(heard: Heard, positions: MeasuredPositions) -> None:
    def make(number: int) -> bytes:
        return joints(1 + number, shoulder=0.01 * number) if number % 2 else joints(1, elbow=-0.5)

    heard.hear(2.0, make)
    assert positions.fresh() == {"shoulder": 0.19}


def test_a_driver_without_stamps_is_taken_at_its_word(heard: Heard, positions: MeasuredPositions) -> None:
    heard.hear(2.0, lambda _: joints(shoulder=0.25, elbow=-0.5))
    assert positions.fresh() == {"shoulder": 0.25, "elbow": -0.5}


def test_a_joint_that_the_newest_message_does_not_say_counts_as_of_an_older_one(
    heard: Heard, positions: MeasuredPositions
) -> None:
    heard.hear(0.2, lambda number: joints(1 + number, shoulder=0.1, elbow=-0.5))
    heard.hear(0.1, lambda _: joints(9, shoulder=float("nan"), elbow=-0.4))
    assert positions.fresh() == {"shoulder": 0.1, "elbow": -0.4}
