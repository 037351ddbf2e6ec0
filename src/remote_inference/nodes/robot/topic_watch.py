# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds in the ROS graph why a robot's topics are silent: sensors without data, commands unheard."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rclpy.node import Node
from rclpy.qos import QoSCompatibility, QoSProfile, qos_check_compatible

from remote_inference.core.contract.commands.sink import CommandSink
from remote_inference.core.contract.commands.subscribers import is_controller
from remote_inference.core.contract.contract import Contract
from remote_inference.nodes.controllers.controller_watch import check_command_qos
from remote_inference.nodes.graph import find_other_type, full_name
from remote_inference.nodes.robot.operator.operator_topics import input_qos
from remote_inference.wire.qos import SENSOR_QOS

PATIENCE_S = 2.0  # discovery takes a moment, and so does a driver
REPEAT_S = 10.0  # between two warnings of one cause


class TopicWatch:
    """Warns of each cause, repeats it every REPEAT_S, and logs when the cause is gone. For one thread."""

    def __init__(self, node: Node, contract: Contract) -> None:
        self._node = node
        self._logger = node.get_logger()
        self._sensors = contract.sensor_types
        self._inputs = contract.operator_inputs
        self._sinks = contract.commands
        self._since_s: dict[str, float] = {}  # time at which a topic was first seen silent or unheard
        self._told: dict[str, tuple[str, float]] = {}  # cause and time of the last warning by topic

    def look_at_sensors(
        self, delivering: Collection[str], wanted: Collection[str], lacks: Mapping[str, str]
    ) -> None:
        """Warn of `wanted` sensor topics that have never delivered. delivering: topics that have.

        lacks: in words, why the messages of a topic that has not are of no use.
        """
        for topic, kind in self._sensors.items():
            if topic in delivering:
                self._end(topic, "delivers now")
            elif topic not in wanted:
                self._end(topic, "the policy does not use it")
            elif topic in lacks:
                self._persist(topic, partial(str, f"{lacks[topic]}; requests wait for it"))
            else:
                why = partial(self._why_silent, topic, kind, SENSOR_QOS, "requests wait for it")
                self._persist(topic, why)

    def look_at_inputs(self, missing: Mapping[str, str]) -> None:
        """Warn of the contract's stop inputs and takeover that are missed: by place, with what follows."""
        for place, source in self._inputs.items():
            subject = f"{place}: {source.topic}"
            if place in missing:
                why = partial(self._why_silent, source.topic, source.type, input_qos(source), missing[place])
                self._persist(subject, why)
            else:
                self._end(subject, "delivers now")

    def look_at_controllers(
        self, unheard: Collection[str], absent: Mapping[str, str], *, driving: bool
    ) -> None:
        """Warn of commands that no controller takes. driving: the robot is meant to move.

        absent: why controllers that subscribe to a command do not hear it, by its topic.
        """
        for sink in self._sinks:
            name = sink.destination
            if name not in unheard:
                self._end(name, "a controller takes it now" if sink.action is None else "it is served now")
            elif driving:
                self._persist(name, partial(self._why_unheard, sink, absent.get(name, "")))
            else:
                self._since_s.pop(name, None)

    def _persist(self, topic: str, find_cause: Callable[[], str]) -> None:
        now_s = time.monotonic()
        if now_s - self._since_s.setdefault(topic, now_s) < PATIENCE_S:
            return
        cause = find_cause()
        told, told_s = self._told.get(topic, ("", 0.0))
        if cause != told or now_s - told_s >= REPEAT_S:
            self._told[topic] = cause, now_s
            self._logger.warning(f"{topic}: {cause}")

    def _end(self, topic: str, news: str) -> None:
        self._since_s.pop(topic, None)
        if self._told.pop(topic, None):
            self._logger.info(f"{topic}: {news}")

    def _why_silent(self, topic: str, kind: str, qos: QoSProfile, consequence: str) -> str:
        publishers = self._node.get_publishers_info_by_topic(self._node.resolve_topic_name(topic))
        if not publishers:
            return f"no publisher, {consequence}"
        problem = find_mismatch(
            publishers, kind, lambda offered: qos_check_compatible(offered, qos), PUBLISHED
        )
        return problem or f"a publisher is there, but nothing has arrived; {consequence}"

    def _why_unheard(self, sink: CommandSink, absent: str) -> str:
        if absent:
            return f"{absent}, the arm does not follow"
        if sink.action is not None:
            return f"no action server of {sink.type}, its joints do not follow"
        subscribers = self._node.get_subscriptions_info_by_topic(self._node.resolve_topic_name(sink.topic))
        namespace = self._node.get_namespace()
        controllers = [info for info in subscribers if is_controller(full_name(info), sink, namespace)]
        problem = controllers and find_mismatch(controllers, sink.type, check_command_qos, SUBSCRIBED)
        onlookers = sorted({full_name(info) for info in subscribers})
        missing = "no controller subscribes"
        if onlookers:
            missing = f"no controller subscribes, found {', '.join(onlookers)}"
        return f"{problem or missing}, the arm does not follow"


@dataclass(frozen=True)
class Phrases:
    """The words for a mismatch with publishers or with subscribers."""

    other_type: str
    other_qos: str


PUBLISHED = Phrases("published as", "published with a QoS that does not match")
SUBSCRIBED = Phrases("subscribed as", "subscribed with a QoS that does not match")


def find_mismatch(
    endpoints: Sequence[Any],
    kind: str,
    check: Callable[[QoSProfile], tuple[QoSCompatibility, str]],
    phrases: Phrases,
) -> str:
    """Return why none of these endpoints matches ours, or an empty string when one does.

    check: whether an endpoint's QoS matches ours.
    """
    if found := find_other_type(endpoints, kind):
        return f"{phrases.other_type} {found}"
    reasons = [check(endpoint.qos_profile) for endpoint in endpoints if endpoint.topic_type == kind]
    if all(compatible == QoSCompatibility.ERROR for compatible, _ in reasons):
        return f"{phrases.other_qos}: {reasons[0][1].strip()}"
    return ""
