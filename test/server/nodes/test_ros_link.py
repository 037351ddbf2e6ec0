# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A session's endpoints: what they keep alive, and what they hear."""

from __future__ import annotations

import weakref

import pytest
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from remote_inference.base.exchange import in_namespace
from remote_inference.base.wire.qos import LATCHED_QOS, STATE_TOPIC
from remote_inference.msg import ClientState
from remote_inference.server.nodes.session_services import RosLink
from remote_inference.server.sessions import Session
from support.builders import ShiftProcessors, make_offer
from support.waiting import wait_until


@pytest.mark.usefixtures("no_collector")
def test_a_session_that_has_ended_goes_at_once(node: Node) -> None:
    """Its processors may hold memory of a GPU, and replicas count the sessions that live."""
    session = Session("s1", make_offer(), ShiftProcessors())
    session.link = RosLink(node, session.offer, lambda data, session=session: None)  # type: ignore[misc]
    alive = weakref.ref(session.processors)
    session.link.close("closed")
    del session
    assert alive() is None


def test_a_robot_that_asks_for_nothing_says_whether_it_is_paused(node: Node) -> None:
    offer = make_offer()
    link = RosLink(node, offer, lambda data: None)
    topic = in_namespace(offer.robot_namespace, STATE_TOPIC)
    robot = node.create_publisher(ClientState, topic, LATCHED_QOS)
    robot.publish(ClientState(paused=True))
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def says(paused: bool) -> bool:
        executor.spin_once(0.02)
        return link.paused is paused

    assert node.count_subscribers(topic) == 0, "nothing to hear of a robot that asks"
    link.listen(is_quiet=True)
    wait_until(lambda: says(True), "a paused robot")
    robot.publish(ClientState(paused=False))
    wait_until(lambda: says(False), "a resumed robot")
    robot.publish(ClientState(paused=True))
    wait_until(lambda: says(True), "a paused robot")
    link.listen(is_quiet=False)
    assert not link.paused
    link.close("closed")


def test_a_robot_that_uses_another_server_says_which_sessions_it_keeps(node: Node) -> None:
    offer = make_offer()
    link = RosLink(node, offer, lambda data: None)
    topic = in_namespace(offer.robot_namespace, STATE_TOPIC)
    robot = node.create_publisher(ClientState, topic, LATCHED_QOS)
    robot.publish(ClientState(session_id="s2", kept_sessions=["s1"]))
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    link.listen(is_quiet=True)

    def keeps() -> bool:
        executor.spin_once(0.02)
        return link.kept == {"s1"}

    wait_until(keeps, "a kept session")
    link.listen(is_quiet=False)
    assert not link.kept
    link.close("closed")
