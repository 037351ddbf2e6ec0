# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a camera's images travel; `wire.images.encodings` adds the encodings that are built in."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

from numpy.typing import NDArray

from remote_inference.core.documents.document import Document
from remote_inference.core.documents.registry import Registry

Colour = Literal["rgb", "depth"]  # what a camera shows
RAW = "raw"  # in the place of an encoding: the images travel as sensor_msgs/Image
BY_COLOUR: dict[Colour, str] = {"rgb": "jpeg", "depth": "png"}  # where a contract names no encoding


class ImageEncoding(Protocol):
    """Encodes on the robot, decodes on the server.

    Colour is uint8 RGB `[height, width, 3]`, depth is uint16 `[height, width]` in millimetres. Each method
    raises a wire.ImageError for what it cannot take; data comes from the network.
    """

    colours: ClassVar[tuple[Colour, ...]]  # of the cameras whose images it can carry
    is_lossless: ClassVar[bool]
    formats: ClassVar[tuple[str, ...]]  # how a CompressedImage's `format` may call it, in small letters
    options: ClassVar[type[Document]]  # what a contract may set; Document: nothing

    @staticmethod
    def encode(image: NDArray[Any], options: Any) -> bytes:
        """Return an encoded image. options: of its own model."""

    @staticmethod
    def decode(data: Any) -> NDArray[Any]:
        """Return the image in bytes or a view of them."""

    @staticmethod
    def size(data: Any) -> tuple[int, int]:
        """Return `(height, width)` [px] from the header alone."""


IMAGE_ENCODINGS = Registry[type[ImageEncoding]]("image encoding")


def first_word(image_format: str) -> str:
    """Return what a format such as "png" or "rgb8; jpeg compressed bgr8" calls the encoding."""
    words = image_format.rpartition(";")[2].lower().split()
    return words[0] if words else ""


def find_encoding(image_format: str) -> str | None:
    """Return the encoding of a CompressedImage by its `format`, None if unknown."""
    word = first_word(image_format)
    return next((name for name in IMAGE_ENCODINGS.names if word in IMAGE_ENCODINGS.get(name).formats), None)
