# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract's sections about cameras: which image messages a robot sends, and how the policy gets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Protocol

from numpy.typing import NDArray
from pydantic import Field, model_validator

from remote_inference.base.contract.fields import Topic, require_unique
from remote_inference.base.documents.document import Document, DocumentError, NameIn, parse_document
from remote_inference.base.documents.registry import Registry

# -- How a camera's images travel; `wire.images.encodings` adds the encodings that are built in ----------

Colour = Literal["rgb", "depth"]  # what a camera shows
RAW = "raw"  # in the place of an encoding: the images travel as sensor_msgs/Image
BY_COLOUR: dict[Colour, str] = {"rgb": "jpeg", "depth": "png"}  # where a contract names no encoding


class ImageEncoding(Protocol):
    """Encodes on the robot, decodes on the server.

    Colour is uint8 RGB `[height, width, 3]`, depth is uint16 `[height, width]` in millimetres. Each method
    raises a wire.ImageError for what it cannot take; data comes from the network.
    """

    colours: ClassVar[tuple[Colour, ...]]  # of the cameras whose images it can carry
    formats: ClassVar[tuple[str, ...]]  # how a CompressedImage's `format` may call it, in small letters
    options: ClassVar[type[Document]]  # what a contract may set; Document: nothing

    @staticmethod
    def encode(image: NDArray[Any], options: Any) -> bytes:
        """Return an encoded image. options: of its own model."""

    @staticmethod
    def decode(data: Any) -> NDArray[Any]:
        """Return the image in bytes or a view of them.

        One for which a smaller image is quicker also has `decode_at_least(data, least)`: the height and width
        that are needed; (0, 0): those it has.
        """

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


# What an image may have been before image_transport has compressed it. It makes grey pictures of what it does
# not know as colour, of Bayer patterns and YUV for example, and ends the format with `bgr8` where it kept it.
ORIGINS: dict[Colour, tuple[str, ...]] = {
    "rgb": ("rgb8", "bgr8", "rgba8", "bgra8", "mono8", "rgb16", "bgr16", "8UC3", "8UC4"),
    "depth": ("16UC1", "mono16"),
}
DEPTH_ENCODINGS = ("16UC1", "32FC1", "mono16")  # of images that are no colour


def find_wrong_origin(image_format: str, colour: Colour) -> str:
    """Return what is wrong with what a CompressedImage was made of, for a camera's colour; else nothing.

    image_format: such as "yuv422_yuy2; jpeg compressed mono8". One without a semicolon does not say it.
    """
    origin, has_origin, words = (part.strip() for part in image_format.rpartition(";"))
    keeps_colour = colour == "rgb" and words.endswith("bgr8") and origin not in DEPTH_ENCODINGS
    if not (has_origin and origin) or keeps_colour or origin.lower() in map(str.lower, ORIGINS[colour]):
        return ""
    return f"found {image_format!r}, made of {origin}, expected {colour} made of {', '.join(ORIGINS[colour])}"


IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"


class ImageSource(Document):
    """One camera. `jpeg_quality` 0: its images travel unencoded. Encoded images pass through."""

    topic: Topic
    type: Literal["sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"]
    """message type of the topic; a CompressedImage that is JPEG is passed through"""
    colour: Colour = "rgb"
    """depth: 16 bit, travels as PNG, without loss"""
    jpeg_quality: Annotated[int, Field(ge=0, le=100)] = 90
    """quality of the robot's JPEG encoder; 0: an Image travels unencoded"""

    encoding: Annotated[str, NameIn(IMAGE_ENCODINGS)] | None = None
    """how its images travel, instead of jpeg_quality; left out: rgb as JPEG, depth as PNG"""
    options: Mapping[str, Any] = {}
    """what the encoding asks for, with keys of its own"""
    max_skew_s: Annotated[float | None, Field(gt=0.0, le=60.0)] = None
    """time between an image and those of the other cameras that have this key; a request waits for a set that
    fits; left out: any [s]"""

    @model_validator(mode="after")
    def _encoding_fits(self) -> ImageSource:
        if self.encoding is None:
            if self.options:
                raise ValueError(f"options: found {dict(self.options)}, expected them with `encoding`")
            return self
        if "jpeg_quality" in self.model_fields_set:
            found = f"encoding: found {self.encoding!r} and jpeg_quality"
            raise ValueError(f"{found}, expected one of the two: `options` holds what an encoding asks for")
        colours = IMAGE_ENCODINGS.get(self.encoding).colours
        if self.colour not in colours:
            expected = f"expected one that carries it: {self.encoding} carries {' and '.join(colours)}"
            raise ValueError(f"encoding: found {self.encoding!r} for {self.colour}, {expected}")
        try:
            self.read_options()
        except DocumentError as error:
            raise ValueError(str(error)) from None
        return self

    def read_options(self) -> Document:
        """Return the options as the encoding's own document. Raises DocumentError naming the key."""
        content = dict(self.options)
        if self.encoding is None and self.colour == "rgb":
            content = {"quality": self.jpeg_quality}
        return parse_document(content, IMAGE_ENCODINGS.get(self.travels_as).options, "options")

    @property
    def travels_as(self) -> str:
        """Encoding in which the image travels: a name of IMAGE_ENCODINGS, or "raw"."""
        if self.encoding is None and self.type == IMAGE and self.jpeg_quality == 0:
            return RAW
        return self.encoding or BY_COLOUR[self.colour]

    @property
    def is_encoded_here(self) -> bool:
        """Whether the robot encodes the images: they come as an Image, and do not travel as one."""
        return self.type == IMAGE and self.travels_as != RAW


def check_cameras(images: Mapping[str, ImageSource]) -> None:
    """Refuse two cameras of one topic, and a max_skew_s of one camera alone. Raises ValueError."""
    require_unique([image.topic for image in images.values()], "image topics")
    bounded = [name for name, image in images.items() if image.max_skew_s is not None]
    if len(bounded) == 1:
        raise ValueError(
            f"images.{bounded[0]}.max_skew_s: found in this camera alone, expected in each of those that "
            "belong together; the parameter max_observation_skew_s bounds all sources"
        )
