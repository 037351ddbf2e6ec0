# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Converts between ROS messages and plain data: observations, chunks, sessions, sensors, commands, images.

Received arrays are read as views into the message, and every field is assigned as an `array.array`, so
rclpy copies no array element by element.
"""

from remote_inference.base.wire.arrays import (
    WireError,
    bytes_field,
    float32_field,
    float64_field,
    from_float32_field,
    read_message,
)
from remote_inference.base.wire.chunk import chunk_from_bytes, chunk_from_message, chunk_to_message
from remote_inference.base.wire.commands import (
    CommandReader,
    CommandWriter,
    make_command_reader,
    make_command_writer,
    make_command_writers,
    make_sink_reader,
)
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.encodings.jpeg import JPEG_LIBRARIES, decode_jpeg, encode_jpeg
from remote_inference.base.wire.images.encodings.png import decode_png, encode_png
from remote_inference.base.wire.images.images import ImageError, image_from_message, image_to_message
from remote_inference.base.wire.message_types import message_class
from remote_inference.base.wire.observation import (
    SensedStep,
    observation_from_message,
    observation_to_message,
    request_from_message,
)
from remote_inference.base.wire.sensors import CameraReader, JointReader, SensorError
from remote_inference.base.wire.session import (
    offer_from_request,
    offer_to_request,
    reply_from_response,
    reply_to_response,
    status_from_response,
)

__all__ = [
    "IMAGE_ENCODINGS",
    "JPEG_LIBRARIES",
    "CameraReader",
    "CommandReader",
    "CommandWriter",
    "ImageError",
    "JointReader",
    "SensedStep",
    "SensorError",
    "WireError",
    "bytes_field",
    "chunk_from_bytes",
    "chunk_from_message",
    "chunk_to_message",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "float32_field",
    "float64_field",
    "from_float32_field",
    "image_from_message",
    "image_to_message",
    "make_command_reader",
    "make_command_writer",
    "make_command_writers",
    "make_sink_reader",
    "message_class",
    "observation_from_message",
    "observation_to_message",
    "offer_from_request",
    "offer_to_request",
    "read_message",
    "reply_from_response",
    "reply_to_response",
    "request_from_message",
    "status_from_response",
]
