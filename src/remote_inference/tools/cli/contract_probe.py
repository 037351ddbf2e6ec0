# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads topics, controllers and URDF of a running robot for `remote-inference contract suggest`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.qos import QoSProfile

from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.base.contract.commands.controller_facts import is_observer
from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.qos import LATCHED_QOS, SENSOR_QOS
from remote_inference.tools.cli.common import open_client
from remote_inference.tools.contracts.running_robot import CommandTopic, ImageTopic, JointTopic, RobotView
from remote_inference.tools.contracts.urdf import Urdf, parse_urdf
from remote_inference.tools.deployment.bringup import absolute_namespace

OWN_NAME = "contract_verb"
LISTEN_S = 2.0  # at least, and since the last topic became known: others of its node may follow
POLL_S = 0.1
DESCRIPTION_TOPIC = "robot_description"
DESCRIPTION_TYPE = "std_msgs/msg/String"
CONTROLLER_PARAMETERS = ("joints", "interface_name")  # of ros2_control's controllers
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"


@contextmanager
def probe_robot(namespace: str, timeout_s: float, urdf: Urdf | None) -> Iterator[RobotView]:
    """Yield what the robot in a namespace publishes and subscribes to.

    urdf: the robot's description; None: that of its topic `robot_description`, if there is one.

    Raises OperatorError when no JointState with positions arrives in time, UrdfError for an invalid URDF.
    """
    with open_client(OWN_NAME) as ros:
        probe = _Probe(ros, namespace, timeout_s)
        probe.receive(reads_description=urdf is None)
        yield probe.view(urdf)


@dataclass
class _JointSamples:
    """The joints of a JointState topic and the times of its messages."""

    names: dict[str, None] = field(default_factory=dict)  # in the order of their first message
    messages: int = 0
    first_s: float = 0.0
    last_s: float = 0.0

    @property
    def rate_hz(self) -> float:
        return (self.messages - 1) / max(self.last_s - self.first_s, 1e-9) if self.messages > 1 else 0.0


class _Probe:
    """Subscribes to the sensors in a namespace, and reads the controllers' parameters."""

    def __init__(self, ros: OperatorClient, namespace: str, timeout_s: float) -> None:
        self._ros = ros
        self._namespace = absolute_namespace(namespace).rstrip("/")
        self._timeout_s = timeout_s
        self._joints: dict[str, _JointSamples] = {}
        self._images: dict[str, ImageTopic] = {}
        self._descriptions: dict[str, str] = {}
        self._silent: set[str] = set()  # topics without a message yet
        self._subscriptions: dict[str, Any] = {}
        self._known: set[str] = set()  # topics of sensors and of commands
        self._changed_s = time.monotonic()  # when the last topic became known
        self._remarks: list[str] = []

    def receive(self, *, reads_description: bool) -> None:
        """Receive until every topic has a message and no new one appears, or for the whole timeout."""
        begin_s = now_s = time.monotonic()
        end_s = begin_s + max(self._timeout_s, LISTEN_S)
        while now_s < end_s and not self._is_complete(now_s):
            self._subscribe(reads_description=reads_description)
            known = {*self._subscriptions, *self._find_controllers()}
            if known - self._known:
                self._changed_s = time.monotonic()
            self._known |= known
            self._ros.spin(POLL_S)
            self._drop_received_images()
            now_s = time.monotonic()
        if not self._has_positions():
            raise OperatorError(
                f"no JointState with names and positions in {self._namespace or '/'} within "
                f"{now_s - begin_s:.1f} s, expected a driver or joint_state_broadcaster that publishes one"
            )

    def view(self, urdf: Urdf | None) -> RobotView:
        """Return what was received, and the controllers' parameters."""
        joints = [
            JointTopic(self._relative(topic), tuple(samples.names), samples.rate_hz)
            for topic, samples in self._joints.items()
            if samples.names
        ]
        images = [self._images[topic] for topic in sorted(self._images)]
        if urdf is None and self._descriptions:
            topic = max(self._descriptions, key=len)  # the robot's own goes before that of the root
            urdf = parse_urdf(self._descriptions[topic], topic)
        return RobotView(joints, images, self._find_commands(), urdf, self._remarks)

    def _is_complete(self, now_s: float) -> bool:
        return now_s - self._changed_s >= LISTEN_S and not self._silent and self._has_positions()

    def _has_positions(self) -> bool:
        return any(samples.names for samples in self._joints.values())

    def _topics(self) -> dict[str, str]:
        """Return the type of each topic in the namespace that has one type."""
        known = self._ros.node.get_topic_names_and_types()
        prefix = f"{self._namespace}/"
        return {name: types[0] for name, types in known if name.startswith(prefix) and len(types) == 1}

    def _subscribe(self, *, reads_description: bool) -> None:
        handlers = {JOINT_STATE: self._on_joints, IMAGE: self._on_image, COMPRESSED_IMAGE: self._on_image}
        for topic, type_name in self._topics().items():
            if type_name in handlers and self._ros.node.count_publishers(topic):
                self._subscribe_to(topic, type_name, handlers[type_name], SENSOR_QOS)
        if reads_description:
            for topic in {in_namespace(self._namespace, DESCRIPTION_TOPIC), f"/{DESCRIPTION_TOPIC}"}:
                if self._ros.node.count_publishers(topic):
                    self._subscribe_to(topic, DESCRIPTION_TYPE, self._on_description, LATCHED_QOS)

    def _subscribe_to(self, topic: str, type_name: str, handler: Any, qos: QoSProfile) -> None:
        if topic in self._subscriptions:
            return
        self._silent.add(topic)
        if type_name == JOINT_STATE:
            self._joints[topic] = _JointSamples()
        elif type_name in (IMAGE, COMPRESSED_IMAGE):
            self._images[topic] = ImageTopic(self._relative(topic), type_name)
        self._subscriptions[topic] = self._ros.subscribe(
            message_class(type_name), topic, partial(handler, topic), qos
        )

    def _on_joints(self, topic: str, message: Any) -> None:
        self._silent.discard(topic)
        if not message.position:
            return
        samples, now_s = self._joints[topic], time.monotonic()
        samples.first_s = samples.first_s or now_s
        samples.last_s = now_s
        samples.messages += 1
        samples.names |= dict.fromkeys(name for name in message.name if name)

    def _on_image(self, topic: str, message: Any) -> None:
        self._silent.discard(topic)
        known = self._images[topic]
        if known.type == IMAGE:
            known = replace(known, encoding=message.encoding, width=message.width, height=message.height)
        else:
            known = replace(known, encoding=message.format or "no format is named")
        self._images[topic] = known

    def _on_description(self, topic: str, message: Any) -> None:
        self._silent.discard(topic)
        self._descriptions[topic] = message.data

    def _drop_received_images(self) -> None:
        """Unsubscribe from images that have come: one of each is enough, and they are large."""
        for topic in self._images:
            if topic not in self._silent and self._subscriptions[topic] is not None:
                self._ros.node.destroy_subscription(self._subscriptions[topic])
                self._subscriptions[topic] = None

    # -- controllers -----------------------------------------------------------------------------------------

    def _find_commands(self) -> list[CommandTopic]:
        commands = []
        for topic, (type_name, nodes) in sorted(self._find_controllers().items()):
            names, kind = self._read_parameters(nodes[0])
            kind = "position" if type_name == TRAJECTORY else kind
            commands.append(CommandTopic(self._relative(topic), type_name, names, kind))
        return commands

    def _find_controllers(self) -> dict[str, tuple[str, list[str]]]:
        """Return the type of each command topic, and the nodes that subscribe to it."""
        known, controllers = COMMAND_INTERFACES.every_name, {}
        for topic, type_name in self._topics().items():
            if type_name not in known or topic in self._joints:
                continue
            infos = self._ros.node.get_subscriptions_info_by_topic(topic)
            may_control = (info for info in infos if not is_observer(info.node_name))
            nodes = sorted({full_name(info) for info in may_control if info.node_name != UNKNOWN_NODE})
            if nodes:
                controllers[topic] = (type_name, nodes)
        return controllers

    def _read_parameters(self, node: str) -> tuple[tuple[str, ...], str]:
        """Return a controller's joints and interface by its parameters; empty where it has none."""
        request = GetParameters.Request(names=list(CONTROLLER_PARAMETERS))
        try:
            values = self._ros.call(GetParameters, f"{node}/get_parameters", request, self._timeout_s).values
        except OperatorError as error:
            self._remarks.append(f"{node} did not say which joints it takes: {error}")
            return (), ""
        if len(values) != len(CONTROLLER_PARAMETERS):  # a node of C++ that lacks one of them returns none
            return (), ""
        joints, interface = values
        kind = interface.string_value
        return tuple(joints.string_array_value), kind if kind in MOTIONS else ""

    def _relative(self, topic: str) -> str:
        return topic.removeprefix(f"{self._namespace}/")
