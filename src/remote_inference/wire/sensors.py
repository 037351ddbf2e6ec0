# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the robot's sensor messages as the contract says: joints by name, images ready to be sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image, JointState

from remote_inference.core.contract.image_encodings import RAW, first_word
from remote_inference.core.contract.sections import COMPRESSED_IMAGE, ImageSource, StateSource
from remote_inference.core.exchange import ImageFeature
from remote_inference.errors import cut_lines
from remote_inference.wire.arrays import bytes_field
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.images import ImageError, image_from_message, image_to_message

_RAW_ENCODINGS = {"rgb": "rgb8", "depth": "16UC1"}


class SensorError(ValueError):
    """A sensor message differs from the contract; the text names topic, what was found and expected."""

    def __init__(self, text: str) -> None:
        super().__init__(cut_lines(text))


class JointReader:
    """Picks a state source's joints out of JointState messages, in any order of the message."""

    def __init__(self, source: StateSource) -> None:
        self._source = source
        self._seen: Sequence[str] = ()  # names of the last message, to which _index applies
        self._index: NDArray[np.intp] = np.empty(0, np.intp)

    def read(self, message: JointState) -> NDArray[np.float64]:
        """Return float64 `[len(source.names)]` in the source's order and the message's units.

        Raises SensorError naming topic, field and joints when a joint is missing, the field does not have one
        value for each name, or the value of one of the source's joints is not finite.
        """
        source = self._source
        if message.name != self._seen:
            self._index = self._locate(message.name)
            self._seen = list(message.name)
        field = getattr(message, source.field)
        if len(field) != len(message.name):
            raise self._error(
                f"found {len(field)} values for {len(message.name)} names, expected one for each"
            )
        values: NDArray[np.float64] = np.frombuffer(field, np.float64)[self._index]
        if not np.isfinite(values).all():
            odd = [
                f"{name} = {value}"
                for name, value in zip(source.names, values, strict=True)
                if not np.isfinite(value)
            ]
            raise self._error(f"found {', '.join(odd)}, expected finite values")
        return values

    def find_missing(self, names: Sequence[str]) -> list[str]:
        """Return the source's joints that a message with these names does not have."""
        return [name for name in self._source.names if name not in names]

    def _locate(self, names: Sequence[str]) -> NDArray[np.intp]:
        positions = {name: position for position, name in enumerate(names)}
        if missing := self.find_missing(names):
            raise self._error(f"found no {', '.join(missing)} among {', '.join(names) or 'no names'}")
        return np.array([positions[name] for name in self._source.names], np.intp)

    def _error(self, problem: str) -> SensorError:
        return SensorError(f"{self._source.topic}: {self._source.field}: {problem}")


class CameraReader:
    """Turns one camera's messages into images for Observation, and encodes raw images if need be."""

    def __init__(self, source: ImageSource, feature: ImageFeature) -> None:
        self._source = source
        self._feature = feature
        self._encoding = None if feature.encoding == RAW else IMAGE_ENCODINGS.get(feature.encoding)
        self._options = source.read_options() if source.is_encoded_here else None
        self._size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """`(height, width)` [px] of the last image, (0, 0) before the first."""
        return self._size

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
        self._size = self._encoding.size(message.data)
        return CompressedImage(header=message.header, format=name, data=message.data)

    def _encode(self, message: Image) -> CompressedImage | Image:
        image = image_from_message(message)
        if (image.ndim == 2) != (self._source.colour == "depth"):
            raise ImageError(f"encoding: found {message.encoding!r}, expected one of {self._source.colour}")
        height, width = image.shape[:2]
        self._size = (height, width)
        if self._encoding is None:
            if message.encoding == _RAW_ENCODINGS[self._source.colour]:
                return message
            raw = image_to_message(image)
            raw.header = message.header
            return raw
        data = self._encoding.encode(image, self._options)
        return CompressedImage(header=message.header, format=self._feature.encoding, data=bytes_field(data))
