# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which reader takes the messages of each of the contract's sources of state, and those of a camera."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import (
    COMPRESSED_IMAGE,
    RAW,
    ImageSource,
    find_wrong_origin,
    first_word,
)
from remote_inference.base.contract.state_source import MESSAGE_READERS, MessageReader, StateSource
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.wire.arrays import SensorError, WireError, bytes_field, find_non_finite, naming
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message, image_to_message
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.sensors.fields import FieldReader
from remote_inference.base.wire.sensors.joint_merge import JointReader

# -- Reads messages that carry names beside their numbers, in an order that may change with each message
#
# They are read by the fields that they have, not by their class: control_msgs need not be installed here.

_DOF_FIELDS = ("reference", "feedback", "feedback_dot", "error", "error_dot", "time_step", "output")


def read_dynamic_joints(message: Any) -> Mapping[str, float]:
    """Return the values of a control_msgs/msg/DynamicJointState as `joint.interface`.

    Raises SensorError for a list that is not as long as that of its names.
    """
    joints, groups = message.joint_names, message.interface_values
    _require_pairs("joint_names", len(joints), "interface_values", len(groups))
    found: dict[str, float] = {}
    for joint, group in zip(joints, groups, strict=True):
        names, values = group.interface_names, group.values
        _require_pairs(f"interface_names of {joint}", len(names), "values", len(values))
        for name, value in zip(names, values, strict=True):
            found[f"{joint}.{name}"] = value
    return found


def read_degrees_of_freedom(message: Any) -> Mapping[str, float]:
    """Return the values of a control_msgs/msg/MultiDOFStateStamped as `name.feedback`, `name.error`, ..."""
    return {
        f"{state.name}.{field}": getattr(state, field)
        for state in message.dof_states
        for field in _DOF_FIELDS
        if hasattr(state, field)  # not every release of control_msgs has them all
    }


def _require_pairs(names: str, count: int, values: str, found: int) -> None:
    if count != found:
        raise SensorError(f"found {found} {values} for {count} {names}, expected one for each")


class StateReader(Protocol):
    """Takes the messages of one source."""

    def read(self, message: Any) -> NDArray[np.float64]:
        """Return float64 `[n]` in the order of the source's entries and the message's units.

        Raises SensorError naming the topic, what was found and expected.
        """


def make_state_readers(contract: Contract) -> list[tuple[str, StateReader]]:
    """Return each source's topic and reader, in the order in which the state is concatenated.

    Raises WireError, which begins with a place in the contract as in `state.1.fields.0`, for fields that the
    message type does not have, a type that is not installed, and a reader that cannot be imported.
    """
    return [
        (source.topic, make_state_reader(source, f"state.{place}"))
        for place, source in enumerate(contract.state)
    ]


def make_state_reader(source: StateSource, place: str) -> StateReader:
    """Return the reader of one source. place: in the contract. Raises WireError as `make_state_readers`."""
    if source.is_joints:
        return JointReader(source)
    if not source.paths:
        return _WholeReader(source, place)
    find_class(source, place)
    with naming(f"{place}."):
        return FieldReader(source.type, source.paths, source.topic)


def find_class(source: StateSource, place: str) -> Any:
    """Return the message class of a source. Raises WireError naming the place when it is not installed."""
    with naming(f"{place}.type: "):
        return message_class(source.type)


class _WholeReader:
    """Lets the function that is registered for a message type read the whole message."""

    def __init__(self, source: StateSource, place: str) -> None:
        self._topic = source.topic
        self._names = source.names
        try:
            self._take: MessageReader = MESSAGE_READERS.get(source.type)
        except Exception as error:  # whatever a stranger's module raises when it is imported
            reader = MESSAGE_READERS.describe(source.type)
            reason = f"{type(error).__name__}: {error}"
            raise WireError(f"{place}.type: the reader of {reader} cannot be used: {reason}") from error

    def read(self, message: Any) -> NDArray[np.float64]:
        try:
            found = self._take(message)
            if isinstance(found, Mapping):
                found = self._pick(found)
            values = np.array(found, np.float64)
        except SensorError as error:
            raise SensorError(f"{self._topic}: {error}") from error
        except Exception as error:  # whatever a stranger's function raises
            raise SensorError(f"{self._topic}: the reader failed: {type(error).__name__}: {error}") from error
        if values.shape != (len(self._names),):
            shape = " x ".join(map(str, values.shape)) or "one number"
            problem = f"the reader returned {shape}, expected {len(self._names)} numbers"
            raise SensorError(f"{self._topic}: {problem}")
        if odd := find_non_finite(self._names, values):
            raise SensorError(f"{self._topic}: {odd}")
        return values

    def _pick(self, found: Mapping[str, float]) -> list[float]:
        if missing := [name for name in self._names if name not in found]:
            raise SensorError(f"found no {', '.join(missing)} among {', '.join(found) or 'no names'}")
        return [found[name] for name in self._names]


# -- Makes a camera's images ready for the wire: they are passed on, or encoded as the contract says -----

_RAW_ENCODINGS = {"rgb": "rgb8", "depth": "16UC1"}


class CameraReader:
    """Turns one camera's messages into images for Observation, and encodes raw images if need be."""

    def __init__(self, source: ImageSource, feature: ImageFeature) -> None:
        self._source = source
        self._feature = feature
        self._encoding = None if feature.encoding == RAW else IMAGE_ENCODINGS.get(feature.encoding)
        self._options = source.read_options() if source.is_encoded_here else None
        self.size = (0, 0)
        """`(height, width)` [px] of the last image, (0, 0) before the first."""

    def read(self, message: CompressedImage | Image) -> CompressedImage | Image:
        """Return the image in the feature's encoding, with the sensor message's header.

        Data that has this encoding already passes unchanged. Raises SensorError naming topic and feature.
        """
        try:
            return self._pass_on(message) if self._source.type == COMPRESSED_IMAGE else self._encode(message)
        except ImageError as error:
            raise SensorError(f"{self._source.topic} ({self._feature.name}): {error}") from error

    def _pass_on(self, message: CompressedImage) -> CompressedImage:
        name = self._feature.encoding
        if self._encoding is None or first_word(message.format) not in self._encoding.formats:
            raise ImageError(f"format: found {message.format!r}, expected {name} for {self._source.colour}")
        if problem := find_wrong_origin(message.format, self._source.colour):
            raise ImageError(f"format: {problem}: let the driver publish one, or take its raw topic")
        self.size = self._encoding.size(message.data)
        return CompressedImage(header=message.header, format=name, data=message.data)

    def _encode(self, message: Image) -> CompressedImage | Image:
        image = image_from_message(message, self._source.colour)
        height, width = image.shape[:2]
        self.size = (height, width)
        if self._encoding is None:
            if message.encoding == _RAW_ENCODINGS[self._source.colour]:
                return message
            raw = image_to_message(image)
            raw.header = message.header
            return raw
        data = self._encoding.encode(image, self._options)
        return CompressedImage(header=message.header, format=self._feature.encoding, data=bytes_field(data))
