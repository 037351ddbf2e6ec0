# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's sensors by contract: keeps the newest message of each topic and reads it for a request."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from sensor_msgs.msg import JointState

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import ImageSource
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.nodes.robot_logger import calm
from remote_inference.base.nodes.runtime import StartupError
from remote_inference.base.wire.arrays import SensorError, WireError
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.observation import ReadyImage
from remote_inference.base.wire.qos import JOINTS_QOS, SENSOR_QOS
from remote_inference.base.wire.sensors.content_time import ContentClock, stamp_reader
from remote_inference.base.wire.sensors.joint_merge import JointDrivers, needs_of
from remote_inference.base.wire.sensors.state_readers import (
    CameraReader,
    StateReader,
    find_class,
    make_state_reader,
    make_state_readers,
)
from remote_inference.robot.queue.observation_history import TickSample

ENCODING_TIMEOUT_S = 1.0
MOST_LOOKS = 512  # that wait for the worker
LOOK_GAP_NS = 2_000_000  # between two of a topic: joints of 1 kHz would cost the worker a quarter of a core


@dataclass(frozen=True)
class Snapshot:
    """The newest messages of an instant, or those of a set, and the monotonic times of their content [ns]."""

    messages: Mapping[str, Any]
    arrivals: Mapping[str, int]

    @classmethod
    def of(cls, sample: TickSample) -> Snapshot:
        """Return what a sample holds: a snapshot, or by topic the one that had the message of a set."""
        if isinstance(sample.content, Snapshot):
            return sample.content
        return cls({topic: seen.messages[topic] for topic, seen in sample.content.items()}, sample.arrivals)


class _Camera:
    """One camera's reader, and its images that are ready for the wire or are being encoded.

    An image is read once, also for several requests; the same message gives the same object.
    """

    def __init__(self, source: ImageSource, feature: ImageFeature, encoders: ThreadPoolExecutor) -> None:
        self._topic = source.topic
        self._is_encoded_here = source.is_encoded_here
        self._encoders = encoders
        self._images: dict[int, tuple[Any, Future[ReadyImage]]] = {}  # with its message, by identity of it
        self.reader = CameraReader(source, feature)

    def prepare(self, steps: Sequence[Snapshot]) -> None:
        """Begin to encode the newest messages of some instants, and forget those of others."""
        messages = [step.messages[self._topic] for step in steps if self._topic in step.messages]
        before, self._images = self._images, {}
        for message in messages:
            image = before.pop(id(message), None) or self._images.get(id(message))
            if image is None and self._is_encoded_here:
                image = (message, self._encoders.submit(self.reader.read, message))
            if image is not None:
                self._images[id(message)] = image
        for _, unused in before.values():
            unused.cancel()  # if no encoder has begun it, it is not needed any more

    def read(self, snapshot: Snapshot) -> ReadyImage:
        """Return the image of a prepared instant, ready for the wire. Raises SensorError."""
        message = snapshot.messages[self._topic]
        if id(message) not in self._images:
            image: Future[ReadyImage] = Future()
            image.set_result(self.reader.read(message))
            self._images[id(message)] = (message, image)
        try:
            return self._images[id(message)][1].result(ENCODING_TIMEOUT_S)
        except FutureTimeoutError as error:
            raise SensorError(f"{self._topic}: not encoded within {ENCODING_TIMEOUT_S:g} s") from error


class SensorHub:
    """Subscribes to the contract's sensor topics. Callbacks only deposit and notify."""

    def __init__(self, node: Node, contract: Contract, notify: Callable[[], None]) -> None:
        """notify: called on the executor's thread at each arrival.

        Raises StartupError for a message type that is not installed, or fields that it does not have.
        """
        self._calm = calm(node)
        self._contract = contract
        self._notify = notify
        self._newest: dict[str, tuple[Any, int]] = {}
        self._looks: deque[TickSample] = deque(maxlen=MOST_LOOKS)
        self._keeps_looks = False
        self._looked_ns: dict[str, int] = {}  # the newest content of each topic that is in them
        self._lacks: dict[str, str] = {}  # in words, by topic whose messages lack joints
        try:
            sources, images = contract.state_sources, contract.images
            classes = {source.topic: find_class(source, place) for place, source in sources.items()}
            classes |= {image.topic: message_class(image.type) for image in images.values()}
            self._readers = make_state_readers(contract)
            self._measuring = [
                (measurement.source.topic, make_state_reader(measurement.source, measurement.place))
                for measurement in contract.measurements
            ]
        except WireError as error:
            raise StartupError(f"contract: {error}") from error
        self._units = contract.state_units
        wanted = contract.measured_actions
        self._measured = [contract.actions.names.index(name) for name in wanted]
        read = [name for measurement in contract.measurements for name in measurement.actions]
        # Where the number of each measured action stands in what is read; None when one is missing.
        self._places = np.array([read.index(name) for name in wanted]) if set(wanted) <= set(read) else None
        self._drivers = {
            topic: JointDrivers(needs_of(contract.joint_sources, topic))
            for topic in {source.topic for source in contract.joint_sources}
        }
        # The JPEG libraries release the GIL: images are encoded side by side.
        encoders = ThreadPoolExecutor(max(1, len(contract.images)), thread_name_prefix="encode")
        self._cameras = {
            feature.name: _Camera(source, feature, encoders)
            for source, feature in zip(contract.images.values(), contract.image_features, strict=True)
        }
        self._clocks = {topic: ContentClock() for topic in classes if topic not in self._drivers}
        self._stamps = {topic: stamp_reader(kind) for topic, kind in classes.items()}
        for topic, kind in classes.items():
            joints = topic in self._drivers
            take = partial(self._deposit_joints if joints else self._deposit, topic)
            node.create_subscription(kind, topic, take, JOINTS_QOS if joints else SENSOR_QOS)

    def _deposit(self, topic: str, message: Any) -> None:
        """Keep a message with the time of its content, unless it repeats the last one."""
        content_ns = self._clocks[topic].content_ns(self._stamps[topic](message), time.monotonic_ns())
        if content_ns is not None:
            self._keep(topic, (message, content_ns))

    def _deposit_joints(self, topic: str, message: JointState) -> None:
        """Keep what is known of a topic's joints with this message: several drivers may share the topic."""
        drivers = self._drivers[topic]
        known = drivers.take(message, time.monotonic_ns())
        if known is not None:
            self._keep(topic, known)
        elif drivers.missing:
            self._lacks[topic] = drivers.describe_missing()

    def _keep(self, topic: str, content: tuple[Any, int]) -> None:
        self._newest[topic] = content
        if self._keeps_looks and content[1] - self._looked_ns.get(topic, 0) >= LOOK_GAP_NS:
            self._looked_ns[topic] = content[1]
            seen = self.snapshot()
            self._looks.append(TickSample(seen, seen.arrivals))
        self._notify()

    def with_looks(self, ticks: list[TickSample], *, keep: bool) -> list[TickSample]:
        """Return samples of control ticks and, in turn, what was newest at each arrival since the last call.

        keep: whether the next call is to have the latter. Only those have no `tick_ns`.
        """
        self._keeps_looks = keep
        looks = [self._looks.popleft() for _ in range(len(self._looks))]
        # By what grows with each arrival: that of a driver which lags moves no newest time.
        return sorted([*looks, *ticks], key=lambda one: sum(one.arrivals.values())) if looks else ticks

    @property
    def lacks(self) -> Mapping[str, str]:
        """What the messages of topics that do not deliver lack, in words. Any thread may read it."""
        return {topic: lack for topic, lack in self._lacks.copy().items() if topic not in self._newest}

    def snapshot(self) -> Snapshot:
        newest = dict(self._newest)
        return Snapshot(
            {topic: message for topic, (message, _) in newest.items()},
            {topic: arrival_ns for topic, (_, arrival_ns) in newest.items()},
        )

    def read_state(self, snapshot: Snapshot) -> NDArray[np.float32]:
        """Return the state as the policy has it, in its units and forms. Raises SensorError."""
        with np.errstate(over="ignore"):
            state = self._units.to_policy(_read(self._readers, snapshot)).astype(np.float32)
        if not np.isfinite(state).all():  # the readers have refused what is not, in double precision
            place = int(np.argmin(np.isfinite(state)))
            name = self._contract.policy_state_names[place]
            if np.isnan(state[place]):
                raise SensorError(f"state: {name}: found a quaternion of length 0, expected an orientation")
            raise SensorError(f"state: {name}: found a number beyond single precision, expected less")
        return state

    def read_images(self, steps: Sequence[Snapshot], features: Sequence[str]) -> list[list[ReadyImage]]:
        """Return each step's images of some of the policy's features, ready for the wire.

        An image that was the newest in several steps is one object. Raises SensorError.
        """
        self.prepare_images(steps, features)
        return [[self._cameras[feature].read(step) for feature in features] for step in steps]

    def prepare_images(self, steps: Sequence[Snapshot], features: Sequence[str]) -> None:
        """Begin to encode the images of steps, and forget others; `read_images` will report their errors."""
        for feature in features:
            self._cameras[feature].prepare(steps)

    def measured_positions(self, snapshot: Snapshot) -> NDArray[np.float64] | None:
        """Return positions and poses `[action_dim]` in the order of the actions, 0 where one is neither.

        None when not each of them is measured, or when they cannot be read yet.
        """
        if self._places is None or any(topic not in snapshot.messages for topic, _ in self._measuring):
            return None
        positions = np.zeros(self._contract.action_dim)
        try:
            positions[self._measured] = _read(self._measuring, snapshot)[self._places]
        except SensorError as error:
            self._calm.warning(f"where the robot is cannot be read, so it counts as silent: {error}")
            return None
        return positions

    def measured_stamps(self, snapshot: Snapshot) -> dict[str, int]:
        """Return the stamps of what `measured_positions` reads, by topic, 0 where a driver has none."""
        return {
            topic: self._stamps[topic](snapshot.messages[topic])
            for topic in self._contract.measured_topics
            if topic in snapshot.messages
        }

    def add_sizes(self, features: Sequence[ImageFeature]) -> tuple[ImageFeature, ...]:
        """Return cameras with the sizes seen so far [px]."""
        sizes = [self._cameras[feature.name].reader.size for feature in features]
        return tuple(
            replace(feature, height=height, width=width)
            for feature, (height, width) in zip(features, sizes, strict=True)
        )


def _read(readers: Sequence[tuple[str, StateReader]], snapshot: Snapshot) -> NDArray[np.float64]:
    """Return what readers find in the messages of their topics, in turn. Raises SensorError."""
    return np.concatenate([reader.read(snapshot.messages[topic]) for topic, reader in readers])
