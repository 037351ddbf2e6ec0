# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A command is heard when a controller subscribes, whoever else looks on."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rclpy
from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import Float64MultiArray

from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.wire.qos import COMMAND_QOS
from remote_inference.robot.nodes import controllers
from remote_inference.robot.nodes.controllers import DEAF_S, ControllerWatch
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


def watch_of(
    node: Node,
    publisher: Any,
    controller: str | None = None,
    find_inactive: Callable[[str], str] = lambda _: "",
) -> ControllerWatch:
    sink = CommandSink(
        topic=TOPIC, type="std_msgs/msg/Float64MultiArray", names=("elbow",), controller=controller
    )
    return ControllerWatch(node, [(sink, publisher)], find_inactive)


def wait_for(publisher: Any, subscribers: int) -> None:
    wait_until(lambda: publisher.get_subscription_count() == subscribers, f"{subscribers} subscribers")


def is_heard(watch: ControllerWatch) -> bool:
    watch.update()
    return not watch.unsubscribed()


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
    assert watch.unsubscribed() == (TOPIC,)
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
    assert not watch.unsubscribed()
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
    assert not watch.unsubscribed()
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
    monkeypatch.setattr(controllers, "REPEAT_S", 3600.0)
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


def test_a_controller_that_is_inactive_does_not_hear_although_it_subscribes(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    states = {"/position_controller": "inactive"}
    watch = watch_of(node, publisher, find_inactive=lambda controller: states.get(controller, ""))
    subscribe_both(node, publisher, subscribe)
    assert not is_heard(watch)
    assert watch.why_absent(TOPIC) == "controller /position_controller is inactive"
    states.clear()
    assert not watch.unsubscribed(), "in the next tick"
    assert watch.why_absent(TOPIC) == ""


def test_one_of_two_controllers_that_is_active_hears(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    inactive = ["/velocity_controller"]
    watch = watch_of(
        node, publisher, find_inactive=lambda controller: "inactive" if controller in inactive else ""
    )
    for name in ("position_controller", "velocity_controller"):
        subscribe(name)
    wait_for(publisher, 2)
    wait_until_known(node, "position_controller", "velocity_controller")
    assert is_heard(watch)
    inactive.append("/position_controller")
    assert watch.unsubscribed() == (TOPIC,)


def test_a_controller_that_comes_anew_beside_its_dead_self_is_absent_until_it_surely_hears(
    node: Node, publisher: Any, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "RESTART_S", 0.5)
    watch = watch_of(node, publisher)
    subscribe("effort_controller")
    wait_for(publisher, 1)
    wait_until_known(node, "effort_controller")
    assert is_heard(watch)
    subscribe("effort_controller")
    wait_until_known(node, "effort_controller", "effort_controller")
    wait_for(publisher, 2)
    assert watch.unsubscribed() == (TOPIC,), "before anybody else has looked"
    assert watch.why_absent(TOPIC) == "its controller was started anew"
    assert not is_heard(watch)
    wait_until(lambda: is_heard(watch), "the end of the wait")


CONTROLLER = f"""
import rclpy
from std_msgs.msg import Float64MultiArray

rclpy.init()
node = rclpy.create_node("effort_controller")
node.create_subscription(Float64MultiArray, "{TOPIC}", lambda _: None, 1)
rclpy.spin(node)
"""


def test_a_controller_that_was_killed_is_absent_from_the_tick_in_which_it_is_back(
    node: Node, publisher: Any
) -> None:
    """Its name may come later than its subscription, and it hears commands by then."""
    watch = watch_of(node, publisher)
    unsubscribed: tuple[str, ...] = ()

    def tick() -> int:
        nonlocal unsubscribed
        publisher.publish(Float64MultiArray(data=[1.0]))
        watch.update()
        count: int = publisher.get_subscription_count()
        unsubscribed = watch.unsubscribed()
        return count

    with started() as first:
        wait_until(lambda: tick() == 1 and not unsubscribed and watch.takers[TOPIC], "the controller")
        first.kill()
        first.wait()
        acknowledged_s = time.monotonic()
        wait_until(lambda: tick() and time.monotonic() - acknowledged_s > 2 * DEAF_S, "its silence")
        assert unsubscribed == (), "nobody knows of its death"
        with started():
            wait_until(lambda: tick() == 2, "its successor")
            assert unsubscribed == (TOPIC,)


@contextmanager
def started() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", CONTROLLER])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_neither_the_first_controller_nor_a_recorder_nor_another_one_is_taken_for_its_successor(
    node: Node, publisher: Any, subscribe: Subscribe
) -> None:
    watch = watch_of(node, publisher)
    names: list[str] = []
    for name in ("effort_controller", "bag_recorder", "other_controller"):
        names.append(name)
        subscribe(name)
        wait_for(publisher, len(names))
        assert not watch.unsubscribed()
        wait_until_known(node, *names)
        assert is_heard(watch)
