# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Looks at a running robot for `remote-inference contract suggest`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rcl_interfaces.srv import GetParameters
from rclpy.qos import QoSProfile

from remote_inference.cli.robot_calls import open_client
from remote_inference.core.contract.commands.interfaces import COMMAND_INTERFACES
from remote_inference.core.contract.commands.subscribers import is_observer
from remote_inference.core.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.core.contract.state_source import JOINT_STATE
from remote_inference.core.drafts.running_robot import CommandTopic, ImageTopic, JointTopic, RobotView
from remote_inference.core.drafts.urdf import Urdf, parse_urdf
from remote_inference.core.exchange import in_namespace
from remote_inference.deployment.bringup import absolute_namespace
from remote_inference.nodes.clients.operator_client import OperatorClient, OperatorError
from remote_inference.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.wire.message_types import message_class
from remote_inference.wire.qos import LATCHED_QOS, SENSOR_QOS

OWN_NAME = "contract_verb"
LISTEN_S = 2.0  # at least, and since the last topic became known: others of its node may follow
POLL_S = 0.1
DESCRIPTION_TOPIC = "robot_description"
DESCRIPTION_TYPE = "std_msgs/msg/String"
CONTROLLER_PARAMETERS = ("joints", "interface_name")  # of ros2_control's controllers
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"


@contextmanager
def look(namespace: str, timeout_s: float, urdf: Urdf | None) -> Iterator[RobotView]:
    """Yield what the robot in a namespace shows within a time.

    urdf: the robot's description; None: that of its topic `robot_description`, if there is one.

    Raises OperatorError when no JointState with positions is heard, UrdfError when the robot's description is
    no URDF.
    """
    with open_client(OWN_NAME) as ros:
        probe = _Probe(ros, namespace, timeout_s)
        probe.listen(reads_description=urdf is None)
        yield probe.view(urdf)


@dataclass
class _Heard:
    """What came on a JointState topic."""

    names: dict[str, None] = field(default_factory=dict)  # in the order of their first message
    messages: int = 0
    begun_s: float = 0.0
    newest_s: float = 0.0

    @property
    def rate_hz(self) -> float:
        return (self.messages - 1) / max(self.newest_s - self.begun_s, 1e-9) if self.messages > 1 else 0.0


class _Probe:
    """Listens to the topics in a namespace, and asks the controllers for their joints."""

    def __init__(self, ros: OperatorClient, namespace: str, timeout_s: float) -> None:
        self._ros = ros
        self._namespace = absolute_namespace(namespace).rstrip("/")
        self._timeout_s = timeout_s
        self._joints: dict[str, _Heard] = {}
        self._images: dict[str, ImageTopic] = {}
        self._descriptions: dict[str, str] = {}
        self._unheard: set[str] = set()  # topics without a message yet
        self._subscriptions: dict[str, Any] = {}
        self._known: set[str] = set()  # topics that are listened to, and those of commands
        self._known_s = time.monotonic()  # since then no other
        self._remarks: list[str] = []

    def listen(self, *, reads_description: bool) -> None:
        """Listen until every published topic was heard and no other appears, or for the whole timeout."""
        begin_s = now_s = time.monotonic()
        end_s = begin_s + max(self._timeout_s, LISTEN_S)
        while now_s < end_s and not self._has_heard_all(now_s):
            self._subscribe(reads_description=reads_description)
            self._note_new_topics()
            self._ros.spin(POLL_S)
            self._leave_heard_images()
            now_s = time.monotonic()
        if not self._has_positions():
            raise OperatorError(
                f"no JointState with names and positions in {self._namespace or '/'} within "
                f"{now_s - begin_s:.1f} s, expected a driver or joint_state_broadcaster that publishes one"
            )

    def view(self, urdf: Urdf | None) -> RobotView:
        """Return what was heard, and what the controllers say."""
        joints = [
            JointTopic(self._relative(topic), tuple(heard.names), heard.rate_hz)
            for topic, heard in self._joints.items()
            if heard.names
        ]
        images = [self._images[topic] for topic in sorted(self._images)]
        if urdf is None and self._descriptions:
            topic = max(self._descriptions, key=len)  # the robot's own goes before that of the root
            urdf = parse_urdf(self._descriptions[topic], topic)
        return RobotView(joints, images, self._find_commands(), urdf, self._remarks)

    def _has_heard_all(self, now_s: float) -> bool:
        return now_s - self._known_s >= LISTEN_S and not self._unheard and self._has_positions()

    def _note_new_topics(self) -> None:
        known = {*self._subscriptions, *self._find_takers()}
        if known - self._known:
            self._known_s = time.monotonic()
        self._known |= known

    def _has_positions(self) -> bool:
        return any(heard.names for heard in self._joints.values())

    def _topics(self) -> dict[str, str]:
        """Return the type of each topic in the namespace that has one type."""
        known = self._ros.node.get_topic_names_and_types()
        prefix = f"{self._namespace}/"
        return {name: types[0] for name, types in known if name.startswith(prefix) and len(types) == 1}

    def _subscribe(self, *, reads_description: bool) -> None:
        takers = {JOINT_STATE: self._take_joints, IMAGE: self._take_image, COMPRESSED_IMAGE: self._take_image}
        for topic, type_name in self._topics().items():
            if type_name in takers and self._ros.node.count_publishers(topic):
                self._listen_to(topic, type_name, takers[type_name], SENSOR_QOS)
        if reads_description:
            for topic in {in_namespace(self._namespace, DESCRIPTION_TOPIC), f"/{DESCRIPTION_TOPIC}"}:
                if self._ros.node.count_publishers(topic):
                    self._listen_to(topic, DESCRIPTION_TYPE, self._take_description, LATCHED_QOS)

    def _listen_to(self, topic: str, type_name: str, take: Any, qos: QoSProfile) -> None:
        if topic in self._subscriptions:
            return
        self._unheard.add(topic)
        if type_name == JOINT_STATE:
            self._joints[topic] = _Heard()
        elif type_name in (IMAGE, COMPRESSED_IMAGE):
            self._images[topic] = ImageTopic(self._relative(topic), type_name)
        self._subscriptions[topic] = self._ros.subscribe(
            message_class(type_name), topic, partial(take, topic), qos
        )

    def _take_joints(self, topic: str, message: Any) -> None:
        self._unheard.discard(topic)
        if not message.position:
            return
        heard, now_s = self._joints[topic], time.monotonic()
        heard.begun_s = heard.begun_s or now_s
        heard.newest_s = now_s
        heard.messages += 1
        heard.names |= dict.fromkeys(name for name in message.name if name)

    def _take_image(self, topic: str, message: Any) -> None:
        self._unheard.discard(topic)
        known = self._images[topic]
        if known.type == IMAGE:
            known = replace(known, encoding=message.encoding, width=message.width, height=message.height)
        else:
            known = replace(known, encoding=message.format or "no format is named")
        self._images[topic] = known

    def _take_description(self, topic: str, message: Any) -> None:
        self._unheard.discard(topic)
        self._descriptions[topic] = message.data

    def _leave_heard_images(self) -> None:
        """Unsubscribe from images that were heard: one of each is enough, and they are large."""
        for topic in self._images:
            if topic not in self._unheard and self._subscriptions[topic] is not None:
                self._ros.node.destroy_subscription(self._subscriptions[topic])
                self._subscriptions[topic] = None

    # -- controllers -----------------------------------------------------------------------------------------

    def _find_commands(self) -> list[CommandTopic]:
        commands = []
        for topic, (type_name, nodes) in sorted(self._find_takers().items()):
            names, kind = self._ask_controller(nodes[0])
            kind = "position" if type_name == TRAJECTORY else kind
            commands.append(CommandTopic(self._relative(topic), type_name, names, kind))
        return commands

    def _find_takers(self) -> dict[str, tuple[str, list[str]]]:
        """Return the type of each topic that nodes take commands from, and these nodes."""
        known, takers = COMMAND_INTERFACES.every_name, {}
        for topic, type_name in self._topics().items():
            if type_name not in known or topic in self._joints:
                continue
            infos = self._ros.node.get_subscriptions_info_by_topic(topic)
            nodes = sorted({full_name(info) for info in infos if _may_control(info.node_name)})
            if nodes:
                takers[topic] = (type_name, nodes)
        return takers

    def _ask_controller(self, node: str) -> tuple[tuple[str, ...], str]:
        """Return a controller's joints and its interface, as its parameters say; empty where they do not."""
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
        return tuple(joints.string_array_value), kind if kind in ("position", "velocity", "effort") else ""

    def _relative(self, topic: str) -> str:
        return topic.removeprefix(f"{self._namespace}/")


def _may_control(name: str) -> bool:
    return name != UNKNOWN_NODE and not is_observer(name)
