# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes a camera's images ready for the wire: they are passed on, or encoded as the contract says."""

from __future__ import annotations

from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, RAW, ImageSource, first_word
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.wire.arrays import SensorError, bytes_field
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message, image_to_message

_RAW_ENCODINGS = {"rgb": "rgb8", "depth": "16UC1"}


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
