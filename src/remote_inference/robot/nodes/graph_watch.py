# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ROS graph tells the robot: its topics, a second node of its name, and the server in use."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from remote_inference.base.contract.commands.controller_facts import is_controller
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.contract import Contract
from remote_inference.base.nodes.graph import UNKNOWN_NODE, find_other_type, full_name, identify_endpoints
from remote_inference.base.repeats import Repeats
from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC, SENSOR_QOS
from remote_inference.robot.engine import Engine
from remote_inference.robot.lost_publishers import LostPublishers
from remote_inference.robot.motion.command_mode import TakeoverTopics
from remote_inference.robot.nodes.controllers import check_command_qos
from remote_inference.robot.nodes.operator import input_qos
from remote_inference.robot.safety.effects import Effect

# -- Finds in the ROS graph why a robot's topics are silent: sensors without data, commands without subscriber

PATIENCE_S = 2.0  # discovery takes a moment, and so does a driver


class TopicWatch:
    """Warns of each cause, fewer and fewer times, and logs when one that it told is gone. For one thread."""

    def __init__(self, node: Node, contract: Contract) -> None:
        self._node = node
        self._logger = node.get_logger()
        self._contract = contract
        self._since_s: dict[str, float] = {}  # when a topic was first found silent or without subscriber
        self._told: dict[str, Repeats] = {}  # causes by topic, since it was well

    def check_sensors(
        self, delivering: Collection[str], wanted: Collection[str], lacks: Mapping[str, str]
    ) -> None:
        """Warn of `wanted` sensor topics that have never delivered. delivering: topics that have.

        lacks: in words, why the messages of a topic that has not are of no use.
        """
        for topic, kind in self._contract.sensor_types.items():
            if topic in delivering:
                self._end(topic, "delivers now")
            elif topic not in wanted:
                self._end(topic, "the policy does not use it")
            elif topic in lacks:
                self._persist(topic, partial(str, f"{lacks[topic]}; requests wait for it"))
            else:
                why = partial(self._why_silent, topic, kind, SENSOR_QOS, "requests wait for it")
                self._persist(topic, why)

    def check_inputs(self, missing: Mapping[str, str]) -> None:
        """Warn of the contract's stop inputs and takeover that are missed: by place, with what follows."""
        for place, source in self._contract.operator_inputs.items():
            subject = f"{place}: {source.topic}"
            if follows := missing.get(place):
                why = partial(self._why_silent, source.topic, source.type, input_qos(source), follows)
                self._persist(subject, why)
            else:
                self._end(subject, "delivers now")

    def check_controllers(
        self, unsubscribed: Collection[str], absent: Mapping[str, str], *, driving: bool
    ) -> None:
        """Warn of commands that no controller takes. driving: the robot is meant to move.

        absent: why controllers that subscribe to a command do not hear it, by its topic.
        """
        for sink in self._contract.commands:
            name = sink.destination
            if name not in unsubscribed:
                self._end(name, "a controller takes it now" if sink.action is None else "it is served now")
            elif driving:
                self._persist(name, partial(self._why_unsubscribed, sink, absent.get(name, "")))
            else:
                self._since_s.pop(name, None)
                if name in self._told:  # it is news to who resumes the robot
                    self._told[name] = Repeats()

    def _persist(self, topic: str, find_cause: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if now_s - self._since_s.setdefault(topic, now_s) < PATIENCE_S:
            return
        cause = find_cause()
        told = self._told.setdefault(topic, Repeats())
        if told.left_out(cause, now_s) is not None:  # that it was so all the time needs no number
            self._logger.warning(f"{topic}: {cause}")

    def _end(self, topic: str, news: str) -> None:
        self._since_s.pop(topic, None)
        if self._told.pop(topic, None):
            self._logger.info(f"{topic}: {news}")

    def _why_silent(self, topic: str, kind: str, qos: QoSProfile, consequence: str) -> str:
        publishers = self._node.get_publishers_info_by_topic(topic)
        if not publishers:
            return f"no publisher, {consequence}"
        problem = find_mismatch(
            publishers, kind, lambda offered: qos_check_compatible(offered, qos), "published"
        )
        return problem or f"a publisher is there, but nothing has arrived; {consequence}"

    def _why_unsubscribed(self, sink: CommandSink, absent: str) -> str:
        if absent:
            return f"{absent}, the arm does not follow"
        if sink.action is not None:
            return f"no action server of {sink.type}, its joints do not follow"
        subscribers = self._node.get_subscriptions_info_by_topic(sink.topic)
        namespace = self._node.get_namespace()
        controllers = [info for info in subscribers if is_controller(full_name(info), sink, namespace)]
        problem = controllers and find_mismatch(controllers, sink.type, check_command_qos, "subscribed")
        observers = ", ".join(sorted({full_name(info) for info in subscribers}))
        missing = f"no controller subscribes, found {observers}" if observers else "no controller subscribes"
        return f"{problem or missing}, the arm does not follow"


def find_mismatch(
    endpoints: Sequence[Any],
    kind: str,
    check: Callable[[QoSProfile], tuple[QoSCompatibility, str]],
    verb: str,
) -> str:
    """Return why none of these endpoints matches ours, or an empty string when one does.

    check: whether an endpoint's QoS matches ours. verb: what they have done, published or subscribed.
    """
    if found := find_other_type(endpoints, kind):
        return f"{verb} as {found}"
    reasons = [check(endpoint.qos_profile) for endpoint in endpoints if endpoint.topic_type == kind]
    if all(compatible == QoSCompatibility.ERROR for compatible, _ in reasons):
        return f"{verb} with a QoS that does not match: {reasons[0][1].strip()}"
    return ""


# -- Finds in the graph the endpoints of the server in use, and another node of the robot's name ---------


class GraphWatch:
    """Reports servers and duplicate nodes to the engine, logs what is missing. For the worker's thread."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        engine: Engine,
        person: TakeoverTopics | None,
        max_offline_s: float,
    ) -> None:
        """person: what has come of takeover topics.

        max_offline_s: after which `lost_publishers` finds a node behind a dead link.
        """
        self._node = node
        self._engine = engine
        self._person = person
        self._topics = TopicWatch(node, contract)
        self.lost_publishers = LostPublishers(int(max_offline_s * 1e9))
        self._is_resume_explained = False
        self._old: dict[str, set[bytes]] = {}  # endpoints of a killed server may linger in the graph

    def expect_server(self, server: str) -> None:
        """Count only a server's endpoints for this robot that appear after this call."""
        self._old[server] = {
            gid for endpoints in self._server_endpoints() for name, gid in endpoints if name == server
        }

    def update(
        self,
        delivering: Collection[str],
        lacks: Mapping[str, str],
        unsubscribed: Collection[str],
        absent: Mapping[str, str],
    ) -> list[Effect]:
        """Check the graph once; return the engine's effects.

        delivering: sensor topics that have delivered. lacks: what the messages of others lack, in words.
        unsubscribed: command topics without a controller. absent: why subscribed controllers get nothing, by
        topic.
        """
        engine, handshake = self._engine, self._engine.handshake
        self._topics.check_sensors(delivering, engine.cycle.sources, lacks)
        self._check_publishers()
        driving = handshake.open and not engine.paused
        self._topics.check_controllers(unsubscribed, absent, driving=driving)
        self._topics.check_inputs(self._missing_inputs())
        self._explain_resume()
        effects: list[Effect] = []
        if not handshake.established:
            effects += engine.take_duplicate_node(self._has_duplicate(), time.monotonic_ns())
        if handshake.session is not None:
            effects += engine.take_presence(self._is_present(handshake.server), time.monotonic_ns())
        return effects

    def publishers_of(self, topic: str) -> list[str]:
        """Return the full names of the nodes that publish a topic, one for each publisher."""
        infos = self._node.get_publishers_info_by_topic(topic)
        return sorted(map(full_name, infos)) or ["no node that the graph shows"]

    def _server_endpoints(self) -> list[set[tuple[str, bytes]]]:
        """Return node and gid of who publishes chunks for this robot, and of who hears its observations."""
        chunks = self._node.get_publishers_info_by_topic(CHUNK_TOPIC)
        observations = self._node.get_subscriptions_info_by_topic(OBSERVATION_TOPIC)
        return [identify_endpoints(chunks), identify_endpoints(observations)]

    def _is_present(self, server: str) -> bool:
        return all(
            any(name == server and gid not in self._old.get(server, ()) for name, gid in endpoints)
            for endpoints in self._server_endpoints()
        )

    def _has_duplicate(self) -> bool:
        """Return whether another node of our name publishes this robot's observations."""
        publishers = identify_endpoints(self._node.get_publishers_info_by_topic(OBSERVATION_TOPIC))
        return sum(name == self._node.get_fully_qualified_name() for name, _ in publishers) > 1

    def _check_publishers(self) -> None:
        watch, cycle = self.lost_publishers, self._engine.cycle
        before = watch.lost
        watch.update(cycle.sources, cycle.stale_sources, self._find_publishers, time.monotonic_ns())
        for lost in (one for one in watch.lost if one not in before):
            gone = f"{lost.node}, which published it, is gone from the graph"
            why = "it has ended, or the link to it is dead, which remote-inference doctor tells"
            self._node.get_logger().warning(f"{lost.topic}: {gone}: {why}")

    def _find_publishers(self, topic: str) -> set[str]:
        publishers = self._node.get_publishers_info_by_topic(topic)
        return {full_name(one) for one in publishers if one.node_name != UNKNOWN_NODE}

    def _missing_inputs(self) -> dict[str, str]:
        """Return the contract's inputs that should be heard and are not, with what follows."""
        engine = self._engine
        follows = "the robot does not resume before it is heard"
        missing = {f"stops.{name}": follows for name in engine.stops.never_received}
        now_ns = time.monotonic_ns()
        if self._person is not None and engine.misses_person(now_ns):
            missing |= dict.fromkeys(self._person.silent(now_ns), "the fallback runs")
        return missing

    def _explain_resume(self) -> None:
        """Log once how the operator resumes a robot that starts paused."""
        if not self._engine.handshake.open or self._is_resume_explained:
            return
        self._is_resume_explained = True
        if self._engine.paused:
            news = f"session granted by {self._engine.handshake.server}, paused; to begin: "
            call = f"ros2 service call {self._node.get_fully_qualified_name()}/resume std_srvs/srv/Trigger"
            verb = f"remote-inference resume {self._node.get_namespace()}"
            self._node.get_logger().info(f"{news}{call}, or {verb}")
