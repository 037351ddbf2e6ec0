# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A command is heard when a controller subscribes, whoever else looks on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import Float64MultiArray

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.nodes.controller_watch import ControllerWatch
from remote_inference.wire.qos import COMMAND_QOS
from support.waiting import wait_until

TOPIC = "commands"

Subscribe = Callable[[str], tuple[Node, Subscription]]


@pytest.fixture
def publisher(node: Node) -> Any:
    return node.create_publisher(Float64MultiArray, TOPIC, COMMAND_QOS)


@pytest.fixture
def subscribe() -> Iterator[Subscribe]:
    """Let a node of a name, in a context of its own, subscribe to the command."""
    made: list[Node] = []

    def subscribe(name: str) -> tuple[Node, Subscription]:
        context = rclpy.Context()
        rclpy.init(context=context)
        made.append(rclpy.create_node(name, context=context))
        return made[-1], made[-1].create_subscription(Float64MultiArray, TOPIC, print, COMMAND_QOS)

    yield subscribe
    for node in made:
        node.destroy_node()
        rclpy.shutdown(context=node.context)


def watch_of(node: Node, publisher: Any, controller: str | None = None) -> ControllerWatch:
    sink = CommandSink(
        topic=TOPIC, type="std_msgs/msg/Float64MultiArray", names=("elbow",), controller=controller
    )
    return ControllerWatch(node, [(sink, publisher)])


def wait_for(publisher: Any, subscribers: int) -> None:
    wait_until(lambda: publisher.get_subscription_count() == subscribers, f"{subscribers} subscribers")


def is_heard(watch: ControllerWatch) -> bool:
    watch.look()
    return not watch.unheard()


def wait_until_known(node: Node, *names: str) -> None:
    """Wait until the graph shows the names of the subscribers."""

    def known() -> list[str]:
        return sorted(info.node_name for info in node.get_subscriptions_info_by_topic(TOPIC))

    wait_until(lambda: known() == sorted(names), f"{names} in the graph")


def subscribe_both(node: Node, publisher: Any, subscribe: Subscribe) -> dict[str, tuple[Node, Subscription]]:
    """Let a controller and a recorder subscribe; return both by name, once the graph shows them."""
    made = {name: subscribe(name) for name in ("position_controller", "bag_recorder")}
    wait_for(publisher, len(made))
    wait_until_known(node, *made)
    return made


def test_recorders_are_not_taken_for_a_controller(node: Node, publisher: Any, subscribe: Subscribe) -> None:
    watch = watch_of(node, publisher)
    assert watch.unheard() == (TOPIC,)
    subscribe("bag_recorder")
    subscribe("rosbag2_recorder")
    wait_for(publisher, 2)
    wait_until_known(node, "bag_recorder", "rosbag2_recorder")
    assert not is_heard(watch)
    assert not is_heard(watch)


def test_a_controller_beside_a_recorder_is_heard_of_before_the_graph_is_read(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    """The control thread knows it by the number alone: its first command must be the next step's start."""
    watch = watch_of(node, publisher)
    subscribe("bag_recorder")
    wait_until_known(node, "bag_recorder")
    wait_for(publisher, 1)
    assert not is_heard(watch)
    subscribe("position_controller")
    wait_for(publisher, 2)
    assert not watch.unheard()
    wait_until_known(node, "bag_recorder", "position_controller")
    assert is_heard(watch)


def test_a_recorder_that_ends_does_not_take_the_controller_along(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    watch = watch_of(node, publisher)
    recorder, subscription = subscribe_both(node, publisher, subscribe)["bag_recorder"]
    assert is_heard(watch)
    recorder.destroy_subscription(subscription)
    wait_for(publisher, 1)
    assert not watch.unheard()
    assert is_heard(watch)


def test_a_controller_that_leaves_a_recorder_behind_is_missed(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    watch = watch_of(node, publisher)
    controller, subscription = subscribe_both(node, publisher, subscribe)["position_controller"]
    assert is_heard(watch)
    controller.destroy_subscription(subscription)
    wait_for(publisher, 1)
    wait_until_known(node, "bag_recorder")
    assert not is_heard(watch)


def test_only_the_controller_that_the_contract_names_counts(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    watch = watch_of(node, publisher, controller="position_controller")
    subscribe("my_logger")
    wait_for(publisher, 1)
    wait_until_known(node, "my_logger")
    assert not is_heard(watch)
    subscribe("position_controller")
    wait_for(publisher, 2)
    wait_until_known(node, "my_logger", "position_controller")
    assert is_heard(watch)


def test_the_graph_is_read_again_only_when_it_may_have_changed(
    node: Node, publisher: Any, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it holds Python's lock, which the control thread may wait for."""
    subscribe("position_controller")
    wait_for(publisher, 1)
    wait_until_known(node, "position_controller")
    monkeypatch.setattr("remote_inference.nodes.controller_watch.REPEAT_S", 3600.0)
    watch = watch_of(node, publisher)
    read: list[str] = []
    look_up = node.get_subscriptions_info_by_topic
    monkeypatch.setattr(
        node, "get_subscriptions_info_by_topic", lambda topic: read.append(topic) or look_up(topic)
    )
    for _ in range(5):
        assert is_heard(watch)
    assert len(read) == 1
    subscribe("bag_recorder")
    wait_for(publisher, 2)
    assert is_heard(watch)
    assert len(read) == 2
