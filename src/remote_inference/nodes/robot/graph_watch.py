# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ROS graph tells the robot: its topics, a second node of its name, and the server in use."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from rclpy.node import Node

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.engine import Engine
from remote_inference.core.robot.lost_publishers import LostPublishers
from remote_inference.core.robot.safety.effects import Effect
from remote_inference.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.nodes.robot.presence import Presence
from remote_inference.nodes.robot.topic_watch import TopicWatch


class GraphWatch:
    """Tells the engine of servers and rivals, the operator of what is missing. For the worker's thread."""

    def __init__(self, node: Node, contract: Contract, engine: Engine, max_offline_s: float) -> None:
        """max_offline_s: after which `cut_off` names a node behind a dead link."""
        self._node = node
        self._engine = engine
        self._presence = Presence(node)
        self._topics = TopicWatch(node, contract)
        self._lost = LostPublishers(int(max_offline_s * 1e9))
        self._told_to_resume = False

    @property
    def lost_publishers(self) -> list[str]:
        """Who published a stale topic and is gone from the graph, as `topic: node`."""
        return [str(lost) for lost in self._lost.lost]

    @property
    def cut_off(self) -> str:
        """The node that this process has been cut off from for too long, empty when there is none."""
        return self._lost.find_cut_off(time.monotonic_ns())

    def expect_server(self) -> None:
        """Count only endpoints of a server that appear after this call."""
        self._presence.expect()

    def look(
        self,
        delivering: Collection[str],
        lacks: Mapping[str, str],
        unheard: Collection[str],
        absent: Mapping[str, str],
    ) -> list[Effect]:
        """Look at the graph once; return the engine's effects.

        delivering: sensor topics that have delivered. lacks: what the messages of others lack, in words.
        unheard: command topics without a controller. absent: why those that subscribe do not hear, by topic.
        """
        engine, handshake = self._engine, self._engine.handshake
        self._topics.look_at_sensors(delivering, engine.cycle.sources, lacks)
        self._look_for_publishers()
        driving = handshake.open and not engine.paused
        self._topics.look_at_controllers(unheard, absent, driving=driving)
        self._topics.look_at_inputs(self._missing_inputs())
        self._tell_how_to_resume()
        effects: list[Effect] = []
        if not handshake.established:
            effects += engine.take_rival(self._presence.has_rival(), time.monotonic_ns())
        if handshake.session is not None:
            effects += engine.take_presence(self._presence.check(handshake.server), time.monotonic_ns())
        return effects

    def publishers_of(self, topic: str) -> list[str]:
        """Return the full names of the nodes that publish a topic, one for each publisher."""
        infos = self._node.get_publishers_info_by_topic(self._node.resolve_topic_name(topic))
        return sorted(map(full_name, infos)) or ["no node that the graph shows"]

    def _look_for_publishers(self) -> None:
        before, cycle = self._lost.lost, self._engine.cycle
        self._lost.look(cycle.sources, cycle.stale_sources, self._find_publishers, time.monotonic_ns())
        for lost in self._lost.lost:
            if lost not in before:
                self._node.get_logger().warning(
                    f"{lost.topic}: {lost.node}, which published it, is gone from the graph: it has ended, "
                    "or the link to it is dead, which remote-inference doctor tells"
                )

    def _find_publishers(self, topic: str) -> set[str]:
        name = self._node.resolve_topic_name(topic)
        publishers = self._node.get_publishers_info_by_topic(name)
        return {full_name(one) for one in publishers if one.node_name != UNKNOWN_NODE}

    def _missing_inputs(self) -> dict[str, str]:
        """Return the contract's inputs that should be heard and are not, with what follows."""
        engine = self._engine
        missing = {
            f"stops.{name}": "the robot does not resume before it is heard" for name in engine.stops.unheard
        }
        if engine.misses_person(time.monotonic_ns()):
            missing["takeover"] = "the fallback runs"
        return missing

    def _tell_how_to_resume(self) -> None:
        """Log once how the operator resumes a robot that starts paused."""
        if not self._engine.handshake.open or self._told_to_resume:
            return
        self._told_to_resume = True
        if self._engine.paused:
            service = f"{self._node.get_fully_qualified_name()}/resume"
            self._node.get_logger().info(
                f"session granted by {self._engine.handshake.server}, paused; to begin: "
                f"ros2 service call {service} std_srvs/srv/Trigger, "
                f"or remote-inference resume {self._node.get_namespace()}"
            )
