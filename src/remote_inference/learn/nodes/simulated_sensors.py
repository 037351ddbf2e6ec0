# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The sensors of a simulated robot: an environment's observation on the topics of a contract."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.publisher import Publisher
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Header

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import BY_COLOUR, COMPRESSED_IMAGE, RAW, ImageSource
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.wire.arrays import SensorError, WireError, bytes_field, float64_field
from remote_inference.base.wire.commands import make_sink_reader
from remote_inference.base.wire.commands.writer import CommandReader
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.qos import COMMAND_QOS, SENSOR_QOS
from remote_inference.learn.environment import EnvError, EnvironmentObservation, EnvironmentSpec, FeatureKind

# -- The controllers of a simulated robot: they receive a contract's commands ----------------------------


class SimulatedControllers:
    """Subscribes to the topics of a contract's commands, and keeps the newest target of each action."""

    def __init__(
        self,
        node: Node,
        contract: Contract,
        spec: EnvironmentSpec,
        *,
        before_command: Callable[[], None],
        after_commands: Callable[[], None],
    ) -> None:
        """before_command: called when a command has come, before `targets` has it.

        after_commands: called each time that every controller was commanded since the last call, or `hold`.
        Raises EnvError when the environment takes other actions than the contract's, or of another kind.
        """
        actions = contract.actions
        if set(actions.kinds) != {spec.actions.kind}:
            found = " and ".join(dict.fromkeys(actions.kinds))
            raise EnvError(f"{spec.name}: takes {spec.actions.kind} actions, the contract has {found}")
        if set(actions.names) != set(spec.actions.names):
            found, expected = ", ".join(actions.names), ", ".join(spec.actions.names)
            raise EnvError(f"{spec.name}: takes the actions {expected}; the contract has {found}")
        self._node = node
        self._before_command = before_command
        self._after_commands = after_commands
        self._topics = frozenset(sink.topic for sink in contract.topic_commands)
        self._waiting = self._topics  # for their commands
        self.targets = np.zeros(len(spec.actions.names))  # [A], in the environment's order
        for sink in contract.commands:
            try:
                reader = make_sink_reader(sink, contract)
            except WireError:
                raise EnvError(
                    f"{spec.name}: {sink.destination}: no simulated controller takes a {sink.type}"
                ) from None
            places = [spec.actions.names.index(name) for name in sink.names]
            take = partial(self._on_command, sink.topic, reader, places)
            node.create_subscription(reader.message_type, sink.topic, take, COMMAND_QOS)

    def hold(self, targets: NDArray[np.float64]) -> None:
        """Set targets `[A]` until the next command."""
        self.targets = targets.copy()
        self._waiting = self._topics

    def _on_command(self, topic: str, reader: CommandReader, places: list[int], message: Any) -> None:
        try:
            values = reader.read(message)
        except SensorError as error:
            calm(self._node).error(f"command ignored: {error}")
            return
        self._before_command()
        self.targets[places] = values
        self._waiting -= {topic}
        if not self._waiting:
            self._waiting = self._topics
            self._after_commands()


COMPRESSED = "/compressed"  # what image_transport adds to the topic of the raw images
_KINDS = {"rgb": FeatureKind.RGB, "depth": FeatureKind.DEPTH}

# The values of a JointState: by joint and array, the feature that holds the value, and its place there.
_Entries = dict[tuple[str, str], tuple[str, int]]


class SimulatedSensors:
    """Publishes an environment's state and cameras where a contract expects them.

    A camera is published raw and compressed, as image_transport does, each while it has subscribers.
    """

    def __init__(self, node: Node, contract: Contract, spec: EnvironmentSpec) -> None:
        """Raise EnvError naming what the contract reads and the environment does not show."""
        self._spec = spec
        self._state = spec.feature_of(FeatureKind.STATE)
        velocities = [name for name, one in spec.features.items() if one.kind is FeatureKind.QVEL]
        fits = len(velocities) == 1 and spec.features[velocities[0]].shape == (len(spec.state_names),)
        self._velocity = velocities[0] if fits else ""  # feature with the velocities of the state's joints
        self._joints = [
            (node.create_publisher(JointState, topic, SENSOR_QOS), entries)
            for topic, entries in self._find_joints(contract).items()
        ]
        features = [image.name for image in contract.image_features]
        self._cameras = [
            _Camera(node, name, source, _find_image(spec, feature, source))
            for feature, (name, source) in zip(features, contract.images.items(), strict=True)
        ]
        self.wanted: tuple[str, ...] = (
            self._state,
            *([self._velocity] if self._velocity else []),
            *dict.fromkeys(features),
        )

    def publish(self, observation: EnvironmentObservation, stamp: Any) -> None:
        """Publish what an environment shows. stamp: of the node's clock, builtin_interfaces/Time."""
        for publisher, entries in self._joints:
            publisher.publish(_joint_state(entries, observation, Header(stamp=stamp)))
        for camera in self._cameras:
            camera.publish(observation, stamp)

    def _find_joints(self, contract: Contract) -> dict[str, _Entries]:
        topics: dict[str, _Entries] = {}
        for source in contract.state_sources.values():
            if source.field is None:  # which field of the joints is read
                raise EnvError(
                    f"{self._spec.name}: {source.topic}: found {source.type}, expected {JOINT_STATE}: "
                    "simulated robots show joints and cameras"
                )
            entries = topics.setdefault(source.topic, {})
            for joint, entry in zip(source.joints, source.state_names, strict=True):
                name = contract.rename.get(f"joints.{entry}", entry)
                if name not in self._spec.state_names:
                    shown = ", ".join(self._spec.state_names)
                    raise EnvError(
                        f"{self._spec.name}: {source.topic}: found no {name} in the state, which has {shown}"
                    )
                place = self._spec.state_names.index(name)
                entries.setdefault((joint, source.field), (self._state, place))
                if self._velocity and source.field == "position":
                    entries.setdefault((joint, "velocity"), (self._velocity, place))
        return topics


class _Camera:
    """One camera of the contract, on two topics if they are named as image_transport names them."""

    def __init__(self, node: Node, name: str, source: ImageSource, feature: str) -> None:
        self._name = name
        self._feature = feature
        self._is_depth = source.colour == "depth"
        self._format = BY_COLOUR[source.colour] if source.travels_as == RAW else source.travels_as
        self._encoding = IMAGE_ENCODINGS.get(self._format)
        quiet = source.jpeg_quality == 0  # the robot does not encode: other subscribers get the default
        self._options = self._encoding.options() if quiet else source.read_options()
        base, is_compressed = source.topic.removesuffix(COMPRESSED), source.type == COMPRESSED_IMAGE
        self._raw: Publisher | None = None
        if not is_compressed or base != source.topic:
            self._raw = node.create_publisher(Image, base, SENSOR_QOS)
        topic = source.topic if is_compressed else base + COMPRESSED
        self._compressed = node.create_publisher(CompressedImage, topic, SENSOR_QOS)

    def publish(self, observation: EnvironmentObservation, stamp: Any) -> None:
        header = Header(stamp=stamp, frame_id=self._name)
        picture = observation.values[self._feature]
        if self._is_depth:
            picture = _to_millimetres(picture)
        if self._raw and self._raw.get_subscription_count():
            image = image_to_message(picture)
            image.header = header
            self._raw.publish(image)
        if self._compressed.get_subscription_count():
            data = bytes_field(self._encoding.encode(picture, self._options))
            self._compressed.publish(CompressedImage(header=header, format=self._format, data=data))


def _joint_state(entries: _Entries, observation: EnvironmentObservation, header: Header) -> JointState:
    """Return a message with an array for each field that a joint has; joints without it have NaN there."""
    joints = list(dict.fromkeys(joint for joint, _ in entries))
    message = JointState(header=header, name=joints)
    for field in dict.fromkeys(field for _, field in entries):
        values = np.full(len(joints), np.nan)
        for (joint, its_field), (feature, place) in entries.items():
            if its_field == field:
                values[joints.index(joint)] = observation.values[feature][place]
        setattr(message, field, float64_field(values))
    return message


def _find_image(spec: EnvironmentSpec, feature: str, source: ImageSource) -> str:
    kind = _KINDS[source.colour]
    if feature in spec.features and spec.features[feature].kind is kind:
        return feature
    known = [name for name, found in spec.features.items() if found.kind is kind]
    shown = ", ".join(known) or "none"
    raise EnvError(f"{spec.name}: {source.topic}: found no {kind.value} image {feature}, expected of {shown}")


def _to_millimetres(depth_m: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return depth as cameras publish it; what is farther than 65 m is unknown, which is 0."""
    depth_mm = np.rint(depth_m * 1e3)
    return np.where(depth_mm <= np.iinfo(np.uint16).max, depth_mm, 0).astype(np.uint16)
