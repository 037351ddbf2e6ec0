# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who may have a session's place: whether the process that opened it is alive, by the graph alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import rclpy
from rclpy.node import Node

from remote_inference.base.wire.qos import EXCHANGE_QOS, OBSERVATION_TOPIC
from remote_inference.msg import Observation
from remote_inference.server.nodes.session_services import RosLink, find_robot_gids
from support.builders import make_offer
from support.waiting import wait_until

OFFER = make_offer()


class Robot:
    """A process of the robot's name, as far as the graph shows it."""

    def __init__(self) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node = rclpy.create_node("remote_inference", namespace="/robot_1", context=self._context)
        self._node.create_publisher(Observation, OBSERVATION_TOPIC, EXCHANGE_QOS)

    def end(self) -> None:
        self._node.destroy_node()
        self._context.try_shutdown()


@pytest.fixture
def robot() -> Iterator[Robot]:
    made = Robot()
    yield made
    made.end()


@pytest.fixture
def link(node: Node, robot: Robot) -> Iterator[RosLink]:
    wait_for_robots(node, 1)
    made = RosLink(node, OFFER, lambda _: None)
    yield made
    made.close("the test is over")


def wait_for_robots(node: Node, count: int) -> None:
    wait_until(lambda: len(find_robot_gids(node, OFFER)) == count, f"the graph shows {count} robots")


def test_a_robot_in_the_graph_keeps_its_place_however_long_it_is_silent(link: RosLink) -> None:
    """A paused robot asks for nothing: whoever asks under its name is another process."""
    assert link.is_alive()


def test_a_robot_that_has_left_the_graph_gives_its_place_to_its_successor(
    node: Node, robot: Robot, link: RosLink
) -> None:
    robot.end()
    wait_for_robots(node, 0)
    assert not link.is_alive()
    successor = Robot()
    try:
        wait_for_robots(node, 1)
        assert not link.is_alive()
    finally:
        successor.end()


def test_a_robot_keeps_its_place_while_another_of_its_name_asks(node: Node, link: RosLink) -> None:
    second = Robot()
    try:
        wait_for_robots(node, 2)
        assert link.is_alive()
    finally:
        second.end()
