# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the command watchdog holds an arm at: no message keeps it from stopping, or throws it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Header

from remote_inference.base.contract.contract import load_contract
from remote_inference.robot.nodes import measured_positions
from remote_inference.robot.nodes.measured_positions import MeasuredPositions
from remote_inference.robot.safety.measurement_gate import FIRST_S
from support.builders import ns
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


def joints(stamp_s: float = 0.0, **positions: float) -> bytes:
    """Return a message. stamp_s: of its header."""
    sec, nanosec = divmod(ns(stamp_s), 10**9)
    header = Header(stamp=Time(sec=sec, nanosec=nanosec))
    return serialize_message(
        JointState(header=header, name=list(positions), position=list(positions.values()))
    )


class Heard:
    """What a watchdog hears, on a clock of the test's own."""

    def __init__(self, contract: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 10**11
        monkeypatch.setattr(measured_positions, "time", self)
        self.listener = Listener()
        self._positions = MeasuredPositions(self.listener, load_contract(contract))  # type: ignore[arg-type]

    def monotonic_ns(self) -> int:
        return self.now_ns

    @property
    def now_s(self) -> float:
        return self.now_ns / 1e9

    def hear(
        self, for_s: float, *makes: Callable[[], bytes], period_s: float = 0.02, topic: str = "joint_states"
    ) -> None:
        """Let messages come for a time, in each period one of each kind, a millisecond after one another."""
        for _ in range(round(for_s / period_s)):
            self.now_ns += ns(period_s) - ns(0.001) * (len(makes) - 1)
            for count, make in enumerate(makes):
                self.now_ns += ns(0.001) * (count > 0)
                self.listener.callbacks[topic](make())

    def say(self, for_s: float = 0.02, **positions: float) -> None:
        """Let a driver say where its joints are, with its stamp."""
        self.hear(for_s, lambda: joints(self.now_s, **positions))

    def fresh(self) -> dict[str, float]:
        return {name: measured.position for name, measured in self._positions.fresh().items()}

    def ages_s(self) -> dict[str, float]:
        return {name: measured.age_ns / 1e9 for name, measured in self._positions.fresh().items()}


@pytest.fixture
def listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Heard]:
    """Make what a watchdog hears with a trajectory controller. sections: of the contract."""
    return lambda **sections: Heard(write_contract(tmp_path, **{"commands": [SINK], **sections}), monkeypatch)


@pytest.fixture
def heard(listen: Callable[..., Heard]) -> Heard:
    return listen()


ARM = {"shoulder": 0.25, "elbow": -0.5}
TRUST_S = FIRST_S + 0.04


def test_a_position_counts_once_messages_have_agreed_for_a_while(heard: Heard) -> None:
    heard.say(FIRST_S, **ARM)
    assert heard.fresh() == {}
    heard.say(0.04, **ARM)
    assert heard.fresh() == ARM


def test_the_age_is_that_of_the_newest_measurement_that_is_believed(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    assert heard.ages_s() == {"shoulder": 0.0, "elbow": 0.0}
    heard.now_ns += ns(0.2)
    assert heard.ages_s() == pytest.approx({"shoulder": 0.2, "elbow": 0.2})


def test_one_wrong_message_leads_no_hold_astray(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    heard.say(shoulder=1.5, elbow=-0.5)
    assert heard.fresh() == ARM
    assert heard.ages_s() == pytest.approx({"shoulder": 0.02, "elbow": 0.0})


@pytest.mark.parametrize("asked_often", [False, True])
def test_a_wrong_stream_shorter_than_the_confirmation_leads_none_astray_either(
    heard: Heard, asked_often: bool
) -> None:
    heard.say(TRUST_S, **ARM)
    for _ in range(10):
        heard.say(shoulder=1.5, elbow=-0.5)
        if asked_often:
            assert heard.fresh() == ARM
    assert heard.fresh() == ARM


@pytest.mark.parametrize("is_first", [False, True])
def test_somebody_else_who_publishes_the_same_joints_leads_none_astray(heard: Heard, is_first: bool) -> None:
    """Whoever of both is heard first each time."""
    heard.say(TRUST_S, **ARM)
    both = [lambda: joints(heard.now_s, **ARM), lambda: joints(heard.now_s, shoulder=1.9, elbow=1.9)]
    heard.hear(0.6, *(reversed(both) if is_first else both))
    assert heard.fresh() == ARM


def test_a_message_that_comes_late_says_nothing_of_now(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    late_s = heard.now_s - 0.1
    heard.now_ns += ns(0.4)
    heard.listener.callbacks["joint_states"](joints(late_s, **ARM))
    assert heard.ages_s() == pytest.approx({"shoulder": 0.4, "elbow": 0.4})


def test_a_driver_that_restarts_and_says_0_at_first_is_held_there_by_nobody(heard: Heard) -> None:
    arm = {"shoulder": 1.8, "elbow": -1.8}
    heard.say(TRUST_S, **arm)
    assert heard.fresh() == arm
    heard.now_ns += ns(0.4)
    heard.say(0.3, shoulder=0.0, elbow=0.0)
    assert heard.fresh() == {}
    heard.say(0.2, **arm)
    assert heard.fresh() == {}
    heard.say(TRUST_S, **arm)
    assert heard.fresh() == arm


def test_what_was_believed_before_messages_were_forgotten_is_not_believed_after(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    assert heard.fresh() == ARM
    heard.say(10.0, shoulder=1.2, elbow=-0.5)
    assert heard.fresh() == {"shoulder": 1.2, "elbow": -0.5}


def test_several_drivers_may_each_publish_a_part(heard: Heard) -> None:
    drivers = [
        lambda name=name, at=at: joints(heard.now_s, **{name: at, "another": 9.0}) for name, at in ARM.items()
    ]
    heard.hear(TRUST_S, *drivers)
    assert heard.fresh() == ARM


@pytest.mark.parametrize("damaged", [b"", b"\x00", b"\x00\x01\x00\x00" + b"\xff" * 40], ids=len)
def test_a_message_that_cannot_be_read_hides_no_other(heard: Heard, damaged: bytes) -> None:
    heard.hear(TRUST_S, lambda: joints(heard.now_s, **ARM), lambda: damaged)
    assert heard.fresh() == ARM


def test_what_is_not_finite_is_no_position(heard: Heard) -> None:
    heard.say(TRUST_S, shoulder=float("nan"), elbow=float("inf"))
    assert heard.fresh() == {}


def test_a_message_with_fewer_positions_than_names_says_of_no_joint_where_it_is(heard: Heard) -> None:
    short = serialize_message(JointState(name=["another", "shoulder", "elbow"], position=[0.1, 0.2]))
    heard.hear(TRUST_S, lambda: joints(heard.now_s, **ARM), lambda: short)
    assert heard.fresh() == ARM


def test_old_positions_do_not_count(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    heard.now_ns += ns(measured_positions.MAX_AGE_S)
    assert heard.fresh() == ARM
    heard.now_ns += 1
    assert heard.fresh() == {}


def test_drivers_that_call_their_joints_alike_are_told_apart_by_their_topics(
    listen: Callable[..., Heard],
) -> None:
    state = [
        {**CONTRACT["state"][0], "topic": f"arm_{name}", "names": [name], "prefix": name[:-2]}
        for name in JOINTS  # shoulder and elbow: both drivers call their joint by two letters
    ]
    heard = listen(state=state)
    for name, value in ARM.items():
        heard.hear(
            TRUST_S,
            lambda name=name, value=value: joints(**{name[-2:]: value}),  # type: ignore[misc]
            period_s=0.02,
            topic=f"arm_{name}",
        )
        heard.now_ns -= ns(TRUST_S)  # at the same time
    heard.now_ns += ns(TRUST_S)
    assert heard.fresh() == ARM


def test_only_topics_with_positions_of_actions_are_heard(listen: Callable[..., Heard]) -> None:
    imu = {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w"], "names": ["lean"]}
    speeds = {**CONTRACT["state"][0], "topic": "speeds", "field": "velocity"}
    heard = listen(state=[imu, *CONTRACT["state"], speeds])
    assert list(heard.listener.callbacks) == ["joint_states"]


def test_joints_of_several_measured_sources_are_heard_and_poses_are_not(listen: Callable[..., Heard]) -> None:
    """A trajectory ends where its joints are; a controller of poses gets nothing in a stop."""
    drive = {"type": "sensor_msgs/msg/JointState", "field": "position"}
    actions = {"names": [*POSE, *JOINTS], "poses": {"tool": pose_section()}}
    heard = listen(
        actions={**CONTRACT["actions"], **actions},
        commands=[SINK, pose_command()],
        measured=[
            {**drive, "topic": "first", "names": ["joint"]},
            pose_state(),
            {**drive, "topic": "second", "names": ["other_joint"]},
        ],
    )
    assert list(heard.listener.callbacks) == ["first", "second"]
    heard.hear(TRUST_S, lambda: joints(joint=0.25), topic="first")
    heard.now_ns -= ns(TRUST_S)
    heard.hear(TRUST_S, lambda: joints(other_joint=-0.5, joint=9.0), topic="second")
    assert heard.fresh() == ARM


def test_a_driver_that_publishes_very_often_hides_no_slow_one(heard: Heard) -> None:
    """At 1 kHz, beside one at 10 Hz."""
    at = [0.0]

    def fast() -> bytes:
        at[0] += 0.0005
        return joints(heard.now_s, shoulder=at[0])

    for _ in range(8):
        heard.hear(0.1, fast, period_s=0.001)
        heard.listener.callbacks["joint_states"](joints(heard.now_s, elbow=-0.5))
    assert heard.fresh() == pytest.approx({"shoulder": 0.4, "elbow": -0.5})
    heard.hear(0.01, fast, period_s=0.001)
    assert heard.fresh() == pytest.approx({"shoulder": 0.405, "elbow": -0.5}), "the newest one counts"


def test_what_cannot_be_is_no_position(heard: Heard) -> None:
    """A broken encoder, or another unit: a hold there would throw the arm."""
    heard.say(TRUST_S, shoulder=1e3, elbow=-0.5)
    assert heard.fresh() == {"elbow": -0.5}


def test_a_driver_that_repeats_its_last_message_has_measured_when_it_came_first(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    last_s = heard.now_s
    heard.hear(0.3, lambda: joints(last_s, **ARM))
    assert heard.ages_s() == pytest.approx({"shoulder": 0.3, "elbow": 0.3})
    heard.hear(1.0, lambda: joints(last_s, **ARM))
    assert heard.fresh() == {}
    heard.say(TRUST_S, **ARM)
    assert heard.fresh() == ARM


def test_a_driver_that_repeats_itself_hides_no_other(heard: Heard) -> None:
    heard.hear(2.0, lambda: joints(heard.now_s, shoulder=0.25), lambda: joints(1.0, elbow=-0.5))
    assert heard.fresh() == {"shoulder": 0.25}


def test_a_driver_without_stamps_is_taken_at_its_word(heard: Heard) -> None:
    heard.hear(2.0, lambda: joints(**ARM))
    assert heard.fresh() == ARM


def test_a_joint_that_the_newest_message_does_not_say_counts_as_of_an_older_one(heard: Heard) -> None:
    heard.say(TRUST_S, **ARM)
    heard.say(shoulder=float("nan"), elbow=-0.45)
    assert heard.fresh() == {"shoulder": 0.25, "elbow": -0.45}
