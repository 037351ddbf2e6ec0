# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a robot's node learns of its controllers from their own parameters, while they come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
from rclpy import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.nodes.controllers import ControllerCheck
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, JOINTS, contract_document
from support.waiting import wait_until

TOPIC = "commands"
NAME = "/arm_controller"
SWAPPED = list(reversed(JOINTS))


class Controller:
    """A node with a controller's parameters, which answers for them."""

    def __init__(self) -> None:
        self._context = Context()
        self._context.init()
        self.node = Node(NAME[1:], context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._thread = Thread(target=self._executor.spin)

    def start(self, **parameters: Any) -> None:
        for name, value in parameters.items():
            self.node.declare_parameter(name, value)
        self._thread.start()

    def set(self, name: str, value: Any) -> None:
        assert self.node.set_parameters([Parameter(name, value=value)])[0].successful

    def end(self) -> None:
        self._executor.shutdown(10.0)
        self._thread.join(10.0)
        self.node.destroy_node()
        self._context.shutdown()


@pytest.fixture
def controller() -> Iterator[Controller]:
    made = Controller()
    yield made
    made.end()


class Watched:
    """A node that checks one command's controllers. It stands for their ControllerWatch itself."""

    def __init__(self, node: Node, command: str) -> None:
        document = contract_document("position")
        document["commands"][0]["type"] = command
        self.takers: dict[str, dict[bytes, str]] = {TOPIC: {b"1": NAME}}
        self.told: list[str] = []
        contract = parse_document(document, Contract, "f")
        self._check = ControllerCheck(node, contract, self, self.told.append)  # type: ignore[arg-type]
        self._executor = SingleThreadedExecutor(context=node.context)
        self._executor.add_node(node)

    def wait_for(self, condition: Callable[[], Any], what: str) -> None:
        def look() -> Any:
            self._check.poll()
            self._executor.spin_once(timeout_sec=0.01)
            return condition()

        wait_until(look, what)

    def wait_until_read(self) -> None:
        self.wait_for(lambda: self._check._judged, "the controller's answer")


def test_a_controller_in_another_order_is_told_with_both_orders_until_it_is_mended(
    node: Node, controller: Controller
) -> None:
    controller.start(joints=SWAPPED, interface_name="position")
    watched = Watched(node, FLOAT64_MULTI_ARRAY)
    watched.wait_for(lambda: watched.told, "the order")
    found, wanted = ", ".join(SWAPPED), ", ".join(JOINTS)
    assert watched.told[0].startswith(f"controller {NAME} takes {found}; expected {wanted}: ")
    controller.set("joints", list(JOINTS))
    watched.takers[TOPIC] = {b"2": NAME}  # loaded anew
    watched.wait_for(lambda: watched.told[1:], "that it is mended")
    assert watched.told[1:] == [""]


def test_one_that_goes_away_stands_in_nobody_s_way(node: Node, controller: Controller) -> None:
    controller.start(joints=SWAPPED)
    watched = Watched(node, FLOAT64_MULTI_ARRAY)
    watched.wait_for(lambda: watched.told, "the order")
    watched.takers[TOPIC] = {}
    watched.wait_for(lambda: watched.told[1:], "that it is gone")
    assert watched.told[1:] == [""]


def test_a_node_that_is_no_controller_of_ros2_control_is_not_judged(
    node: Node, controller: Controller
) -> None:
    controller.start()
    watched = Watched(node, FLOAT64_MULTI_ARRAY)
    watched.wait_until_read()
    assert watched.told == []


@pytest.mark.parametrize("interpolates", [False, True])
def test_a_trajectory_controller_that_falls_back_is_warned_of_once_and_hinders_nobody(
    node: Node, controller: Controller, capfd: pytest.CaptureFixture[str], interpolates: bool
) -> None:
    controller.start(joints=list(JOINTS), interpolate_from_desired_state=interpolates)
    watched = Watched(node, JOINT_TRAJECTORY)
    watched.wait_until_read()
    assert watched.told == []
    assert capfd.readouterr().err.count("expected interpolate_from_desired_state: true") == (not interpolates)
