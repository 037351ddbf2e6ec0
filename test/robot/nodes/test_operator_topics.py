# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Buttons of several publishers on one stop topic: each one's press is heard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import rclpy
from geometry_msgs.msg import Twist, Vector3
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.commands import make_takeover_readers
from remote_inference.base.wire.qos import SENSOR_QOS, STOP_QOS
from remote_inference.robot.motion.command_mode import StopInputs
from remote_inference.robot.nodes.operator import OperatorTopics
from support.builders import contract_document

DEADLINE_S = 30.0
STOPS = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}


class Buttons:
    """A robot's stop input, and who presses: publishers of both kinds of reliability."""

    def __init__(self, node: Node) -> None:
        contract = parse_document(contract_document() | {"stops": STOPS}, Contract, "f")
        self.stops = StopInputs(contract.stops)
        engine: Any = SimpleNamespace(stops=self.stops, hear_stop=self._hear)
        OperatorTopics(node, contract, engine, lambda: None, lambda _: None, heard_ns=time.monotonic_ns)
        self._other = rclpy.create_node("buttons", context=node.context)
        self.wired = self._other.create_publisher(Bool, "estop", STOP_QOS)
        self.wireless = self._other.create_publisher(Bool, "estop", SENSOR_QOS)
        self._executor = SingleThreadedExecutor(context=node.context)
        for one in (node, self._other):
            self._executor.add_node(one)
        self.spin_until(
            lambda: self.wireless.get_subscription_count() and self.wired.get_subscription_count()
        )

    def _hear(self, name: str, stops: bool, now_ns: int) -> None:
        self.stops.receive(name, stops=stops, now_ns=now_ns)

    def say(self, publisher: Any, condition: Callable[[], Any], *, pressed: bool) -> None:
        """Publish until it is heard."""

        def heard() -> Any:
            publisher.publish(Bool(data=pressed))
            return condition()

        self.spin_until(heard)

    def spin_until(self, condition: Callable[[], Any]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s
            self._executor.spin_once(0.02)

    def spin(self, rounds: int) -> None:
        for _ in range(rounds):
            self._executor.spin_once(0.02)

    def close(self) -> None:
        self._executor.shutdown(1.0)
        self._other.destroy_node()


@pytest.fixture
def buttons(node: Node) -> Iterator[Buttons]:
    made = Buttons(node)
    yield made
    made.close()


def test_a_button_of_best_effort_beside_a_reliable_one_stops_the_robot_and_releases_it(
    buttons: Buttons,
) -> None:
    buttons.say(buttons.wired, lambda: not buttons.stops.never_received, pressed=False)
    buttons.say(buttons.wireless, lambda: buttons.stops.latched, pressed=True)
    assert buttons.stops.latched == "button: estop says true"
    heard = buttons.stops.heard
    buttons.say(
        buttons.wireless,
        lambda: not buttons.stops.clear(buttons.stops.latched, time.monotonic_ns(), None),
        pressed=False,
    )
    assert buttons.stops.heard >= heard


def test_a_button_of_best_effort_proves_no_life(buttons: Buttons) -> None:
    """What it says next may be lost."""
    for _ in range(20):
        buttons.wireless.publish(Bool(data=False))
        buttons.spin(1)
    assert buttons.stops.never_received == ("button",)
    buttons.say(buttons.wireless, lambda: buttons.stops.latched, pressed=True)


def test_a_person_s_command_is_as_old_as_what_was_surely_heard(node: Node) -> None:
    """It may have waited since then while the executor hung."""
    takeover = {"topic": "teleop", "type": "std_msgs/msg/Float64MultiArray", "silent_s": 0.5}
    contract = parse_document(contract_document() | {"takeover": takeover}, Contract, "f")
    heard: list[int] = []
    engine: Any = SimpleNamespace(hear_person=lambda _, at_ns: heard.append(at_ns))
    topics = OperatorTopics(node, contract, engine, lambda: None, lambda _: None, heard_ns=lambda: 123)
    reader = make_takeover_readers(contract.takeover, contract)[0]
    topics._take_command(0, reader, Float64MultiArray(data=[0.1, 0.2]))
    assert heard == [123]


def test_a_leader_arm_and_a_joystick_command_one_robot(node: Node) -> None:
    also = [{"topic": "joystick", "type": "geometry_msgs/msg/Twist", "fields": {"linear.x": "elbow"}}]
    takeover = {"topic": "leader", "type": "sensor_msgs/msg/JointState", "also": also}
    contract = parse_document(contract_document() | {"takeover": takeover}, Contract, "f")
    heard: list[list[float]] = []
    engine: Any = SimpleNamespace(hear_person=lambda action, _: heard.append(action.tolist()))
    OperatorTopics(node, contract, engine, lambda: None, lambda _: None, heard_ns=time.monotonic_ns)
    person = rclpy.create_node("person", context=node.context)
    leader = person.create_publisher(JointState, "leader", SENSOR_QOS)
    joystick = person.create_publisher(Twist, "joystick", SENSOR_QOS)
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    end_s = time.monotonic() + DEADLINE_S
    while [0.1, -0.2] not in heard:
        assert time.monotonic() < end_s, heard
        leader.publish(JointState(name=["shoulder"], position=[0.1]))
        joystick.publish(Twist(linear=Vector3(x=-0.2)))
        executor.spin_once(0.02)
    executor.shutdown(1.0)
    person.destroy_node()
