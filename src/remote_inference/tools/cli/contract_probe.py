# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads topics, controllers and URDF of a running robot for `remote-inference contract suggest`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rclpy.action.graph import get_action_names_and_types
from rclpy.qos import QoSProfile

from remote_inference.base.clients.operator_client import OperatorClient, OperatorError
from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.base.contract.commands.controller_facts import ControllerFacts, is_observer
from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.exchange import in_namespace
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.message_types import find_remedy, message_class
from remote_inference.base.wire.qos import LATCHED_QOS, SENSOR_QOS
from remote_inference.base.wire.sensors.fields import number_paths
from remote_inference.robot.nodes.controllers import LIST_TYPE, ControllerReader, ManagerWatch
from remote_inference.tools.cli.common import open_client
from remote_inference.tools.contracts.running_robot import (
    CommandTopic,
    ImageTopic,
    JointTopic,
    OtherTopic,
    RobotView,
)
from remote_inference.tools.contracts.urdf import JointLimits, Urdf, parse_urdf
from remote_inference.tools.deployment.bringup import absolute_namespace

OWN_NAME = "contract_verb"
LISTEN_S = 2.0  # at least, and since the last topic became known: others of its node may follow
POLL_S = 0.1
DESCRIPTION_TOPIC = "robot_description"
DESCRIPTION_TYPE = "std_msgs/msg/String"
GRIPPER_ACTION = "GripperCommand"  # of the action types of gripper controllers
OWN_TOPICS = "remote_inference/"  # of a robot's node
TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"


@contextmanager
def probe_robot(namespace: str, timeout_s: float, urdf: Urdf | None) -> Iterator[RobotView]:
    """Yield what the robot in a namespace publishes and subscribes to.

    urdf: the robot's description; None: that of its topic `robot_description`, if there is one.

    Raises OperatorError when no JointState with positions arrives in time, DocumentError for an invalid URDF.
    """
    with open_client(OWN_NAME) as ros:
        probe = _Probe(ros, namespace, timeout_s)
        probe.receive(reads_description=urdf is None)
        yield probe.view(urdf)


@dataclass
class _JointSamples:
    """The joints of a JointState topic and the times of its messages."""

    names: dict[str, None] = field(default_factory=dict)  # in the order of their first message
    times_s: list[float] = field(default_factory=list)

    @property
    def rate_hz(self) -> float:
        times_s = self.times_s
        return (len(times_s) - 1) / max(times_s[-1] - times_s[0], 1e-9) if len(times_s) > 1 else 0.0


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
        self._known: set[str] = set()  # topics
        self._changed_s = time.monotonic()  # when the last topic became known
        self._remarks: list[str] = []
        self._joint_limits: dict[str, JointLimits] = {}  # by controller

    def receive(self, *, reads_description: bool) -> None:
        """Receive until every topic has a message and no new one appears, or for the whole timeout."""
        begin_s = now_s = time.monotonic()
        end_s = begin_s + max(self._timeout_s, LISTEN_S)
        while now_s < end_s and not self._is_complete(now_s):
            self._subscribe(reads_description=reads_description)
            known = {*self._topics(), *self._subscriptions, *self._find_controllers()}
            if known - self._known:
                self._changed_s = time.monotonic()
            self._known |= known
            self._ros.spin(POLL_S)
            for topic in self._images:  # one of each is enough, and they are large
                if topic not in self._silent and self._subscriptions[topic] is not None:
                    self._ros.node.destroy_subscription(self._subscriptions[topic])
                    self._subscriptions[topic] = None
            now_s = time.monotonic()
        if not self._has_positions():
            raise OperatorError(
                f"no JointState with names and positions in {self._namespace or '/'} within "
                f"{now_s - begin_s:.1f} s, expected a driver or joint_state_broadcaster that publishes one"
            )

    def view(self, urdf: Urdf | None) -> RobotView:
        """Return what was received, and the controllers' parameters."""
        joints = []
        for name, samples in ((self._relative(topic), samples) for topic, samples in self._joints.items()):
            if samples.names:
                joints.append(JointTopic(name, tuple(samples.names), samples.rate_hz))
            else:
                self._remarks.append(f"{name}: left out, no message with names and positions came")
        images = [self._images[topic] for topic in sorted(self._images)]
        if urdf is None and self._descriptions:
            topic = max(self._descriptions, key=len)  # the robot's own goes before that of the root
            urdf = parse_urdf(self._descriptions[topic], topic)
        commands = self._find_commands()
        others = self._find_others(commands)
        return RobotView(joints, images, commands, urdf, self._remarks, others, self._joint_limits)

    def _is_complete(self, now_s: float) -> bool:
        return now_s - self._changed_s >= LISTEN_S and not self._silent and self._has_positions()

    def _has_positions(self) -> bool:
        return any(samples.names for samples in self._joints.values())

    def _topics(self) -> dict[str, str]:
        """Return the type of each topic in the namespace that has one type."""
        return {name: types[0] for name, types in self._every_topic() if len(types) == 1}

    def _every_topic(self) -> list[tuple[str, list[str]]]:
        """Return the topics in the namespace with their types, without the hidden ones of actions."""
        known = self._ros.node.get_topic_names_and_types()
        return [one for one in known if one[0].startswith(f"{self._namespace}/") and "/_" not in one[0]]

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
        samples = self._joints[topic]
        samples.times_s.append(time.monotonic())
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

    # -- controllers -----------------------------------------------------------------------------------------

    def _find_commands(self) -> list[CommandTopic]:
        """Return the command topics. Of several that listen, one that is active and names joints counts."""
        found = sorted(self._find_controllers().items())
        known = self._read_controllers({node for _, (_, nodes) in found for node in nodes})
        states = self._find_inactive(known)
        commands = []
        for topic, (type_name, nodes) in found:
            facts = min(
                (known[node] for node in nodes), key=lambda one: (states[one.node] != "", not one.joints)
            )
            self._remarks += [facts.problem] if facts.problem else []
            self._joint_limits |= {facts.node: facts.joint_limits} if facts.joint_limits else {}
            state = states[facts.node]
            inactive = f"{facts.node} is {state}" if state else ""
            # What its parameters say, as far as they say one kind.
            said = (facts.interface,) if facts.interface else facts.command_interfaces
            known_kind = said[0] if len(said) == 1 and said[0] in MOTIONS else ""
            kind = "position" if type_name == TRAJECTORY else known_kind
            commands.append(CommandTopic(self._relative(topic), type_name, facts.joints, kind, inactive))
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

    def _read_controllers(self, nodes: set[str]) -> dict[str, ControllerFacts]:
        """Return what the parameters of nodes say, by full name: each is asked only for those that it has."""
        readers = {node: ControllerReader(self._ros.node, node) for node in nodes}

        def poll() -> None:
            for reader in readers.values():
                reader.poll()

        self._ros.spin_until(lambda: all(one.facts for one in readers.values()), self._timeout_s, poll)
        problem = f"did not say within {self._timeout_s:g} s which joints it takes"
        return {
            node: reader.facts or ControllerFacts(node, problem=f"{node} {problem}")
            for node, reader in readers.items()
        }

    def _find_inactive(self, nodes: Iterable[str]) -> dict[str, str]:
        """Return the state of each node that a controller manager calls not active; of others nothing."""
        managers = ManagerWatch(self._ros.node, None, self._namespace or "/")
        is_answered = self._ros.spin_until(lambda: managers.is_answered, self._timeout_s, managers.poll)
        has_manager = any(LIST_TYPE in kinds for _, kinds in self._ros.node.get_service_names_and_types())
        unknown = "which controllers are active is not known"
        if has_manager and (remedy := find_remedy(LIST_TYPE)):
            self._remarks.append(f"{unknown}: {remedy}")
        elif not is_answered:
            self._remarks.append(f"{unknown}: no answer of the controller manager in {self._timeout_s:g} s")
        return {node: managers.find_inactive(node) for node in nodes}

    # -- what is neither -------------------------------------------------------------------------------------

    def _find_others(self, commands: Iterable[CommandTopic]) -> list[OtherTopic]:
        """Return the topics that are left, with their numbers."""
        taken = {command.topic for command in commands}
        others = []
        for topic, types in sorted(self._every_topic()):
            name = self._relative(topic)
            is_description = name.rpartition("/")[2] == DESCRIPTION_TOPIC  # with --urdf nobody reads it
            if topic in self._subscriptions or name in taken or is_description or name.startswith(OWN_TOPICS):
                continue
            if len(types) > 1:
                self._remarks.append(f"{name}: left out, it has several types: {', '.join(types)}")
                continue
            listeners = self._ros.node.get_subscriptions_info_by_topic(topic)
            is_taken = any(not is_observer(listener.node_name) for listener in listeners)
            is_published = self._ros.node.count_publishers(topic) > 0
            others.append(OtherTopic(name, types[0], is_published, is_taken, *_numbers_of(types[0])))
        return others + [
            OtherTopic(self._relative(action), kind, False, True, *_numbers_of(kind))
            for action, (kind, *_) in sorted(get_action_names_and_types(self._ros.node))
            if action.startswith(f"{self._namespace}/") and kind.endswith(GRIPPER_ACTION)
        ]

    def _relative(self, topic: str) -> str:
        return topic.removeprefix(f"{self._namespace}/")


def _numbers_of(type_name: str) -> tuple[tuple[str, ...], str]:
    """Return the paths of a message's numbers; where its type is not installed, none and the remedy."""
    try:
        return tuple(number_paths(type_name)), ""
    except WireError as error:
        return (), str(error)
