# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What comes over ROS: requests, chunks, offers, replies, sensor messages and images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import numpy as np
from fuzz_target import Target
from geometry_msgs.msg import Pose, PoseArray
from mutation import spoil_bytes, spoil_message
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float32MultiArray

import remote_inference.server.policies  # noqa: F401  names the back ends
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE, ImageSource
from remote_inference.base.contract.state_source import StateSource
from remote_inference.base.exchange import SCHEMA_VERSION_MAX, ImageFeature, SessionReply
from remote_inference.base.wire.arrays import SensorError, WireError, bytes_field
from remote_inference.base.wire.chunk import chunk_from_bytes
from remote_inference.base.wire.images.encodings.jpeg import decode_jpeg, encode_jpeg, jpeg_size
from remote_inference.base.wire.images.encodings.png import decode_png, encode_png, png_size
from remote_inference.base.wire.images.images import ImageError, image_from_message, image_to_message
from remote_inference.base.wire.sensors.joint_merge import JointReader
from remote_inference.base.wire.sensors.state_readers import CameraReader, make_state_reader
from remote_inference.base.wire.session import (
    offer_from_request,
    offer_to_request,
    reply_from_response,
    reply_to_response,
    status_from_response,
)
from remote_inference.msg import ActionChunk, Observation, ServerStatus
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.requests.request_decoder import RequestDecoder
from remote_inference.srv import GetStatus, OpenSession
from support.builders import make_offer, make_spec

GOLDEN = Path(__file__).parents[1] / "base" / "wire" / "golden"
RGB = np.arange(8 * 12 * 3, dtype=np.uint8).reshape(8, 12, 3)
DEPTH = np.arange(8 * 12, dtype=np.uint16).reshape(8, 12) * 600
OFFER = make_offer(
    images=(
        ImageFeature("front", "jpeg", 8, 12),
        ImageFeature("depth", "png", 8, 12),
        ImageFeature("raw", "raw", 8, 12),
    ),
    tags={"site": "lab_2"},
)
MANIFEST = Manifest(model=ModelSource(backend="hold", path="policy.json"), default_task="wave")
JOINTS = StateSource(
    topic="joint_states", type="sensor_msgs/msg/JointState", field="position", names=("shoulder", "elbow")
)
MARKS = StateSource(
    topic="marks",
    type="geometry_msgs/msg/PoseArray",
    fields=("poses[1].position.y", "poses[0].orientation.w", "header.stamp.sec"),
)
PAD = StateSource(topic="pad", type="std_msgs/msg/Float32MultiArray", fields=("data[1:4]",))
_CAMERAS = {image.name: (8, 12, 3) for image in OFFER.images}
_DECODER = RequestDecoder(MANIFEST, make_spec(image_shapes=_CAMERAS))
_HISTORY_DECODER = RequestDecoder(MANIFEST, make_spec(image_shapes=_CAMERAS, observation_steps=3))


def _images() -> tuple[list[CompressedImage], list[Image]]:
    jpeg = CompressedImage(format="jpeg", data=bytes_field(encode_jpeg(RGB, 90)))
    png = CompressedImage(format="png", data=bytes_field(encode_png(DEPTH)))
    return [jpeg, png], [image_to_message(RGB)]


def _compressed(index: int) -> list[bytes]:
    return [serialize_message(_images()[0][index])]


def _observations() -> list[bytes]:
    images, raw_images = _images()
    whole = Observation(
        schema_version=SCHEMA_VERSION_MAX,
        session_id="s",
        state=[0.1, 0.2],
        images=images,
        raw_images=raw_images,
        task="wave",
        prefix_length=2,
        prefix_model=[0.1] * 4,
        prefix_robot=[0.1] * 4,
        extras=bytes_field(msgpack.packb({"a": 1})),
    )
    return [serialize_message(whole), (GOLDEN / "observation.bin").read_bytes()]


def _read_observation(data: bytes) -> None:
    _, message = _DECODER.request(data)
    _DECODER.observation(message, OFFER)


def _histories() -> list[bytes]:
    """Return observations of three steps; in the second, the cameras have not renewed their images."""
    (images, raw_images), empty, raw_empty = _images(), [CompressedImage()] * 2, [Image()]
    whole = Observation(
        schema_version=SCHEMA_VERSION_MAX,
        session_id="s",
        state=[0.1, 0.2],
        images=images,
        raw_images=raw_images,
        history_steps=2,
        history_state=[0.1, 0.2, 0.3, 0.4],
        history_images=[*images, *empty],
        history_raw_images=[*raw_images, *raw_empty],
    )
    return [serialize_message(whole)]


def _read_history(data: bytes) -> None:
    _, message = _HISTORY_DECODER.request(data)
    _HISTORY_DECODER.observation(message, OFFER)


def _chunks() -> list[bytes]:
    chunk = ActionChunk(
        schema_version=SCHEMA_VERSION_MAX,
        horizon=3,
        action_dim=2,
        chunk_model=[0.1] * 6,
        chunk_robot=[0.1] * 6,
    )
    return [serialize_message(chunk), (GOLDEN / "action_chunk.bin").read_bytes()]


def _replies() -> list[bytes]:
    reply = SessionReply(accepted=True, session_id="s", action_names=("shoulder", "elbow"), chunk_size=20)
    return [serialize_message(reply_to_response(reply))]


def _raw_images() -> list[bytes]:
    messages = [image_to_message(RGB), image_to_message(DEPTH)]
    for encoding, pixel in (("bgra8", 4), ("mono8", 1), ("32FC1", 4)):
        data = bytes_field(bytes(8 * 12 * pixel))
        messages.append(Image(height=8, width=12, encoding=encoding, step=12 * pixel, data=data))
    return [serialize_message(message) for message in messages]


def _of(message_type: type[Any], use: Any) -> Any:
    """Return what feeds a function with messages of which rclpy has read the bytes, as a subscription does.

    Bytes that are no message never reach the function.
    """

    def run(data: bytes) -> None:
        try:
            message = deserialize_message(data, message_type)
        except Exception:  # the middleware drops such bytes, see test_garbage_on_topics.py
            return
        use(message)

    return run


def _camera(type_name: str, colour: str, encoding: str, quality: int = 90) -> Any:
    """Return what feeds a camera's reader."""
    source = ImageSource(topic="t", type=type_name, colour=colour, jpeg_quality=quality)
    feature = ImageFeature("front", encoding)
    message_type = {IMAGE: Image, COMPRESSED_IMAGE: CompressedImage}[type_name]
    return _of(message_type, lambda message: CameraReader(source, feature).read(message))


def _read_status(message: ServerStatus) -> None:
    status_from_response(GetStatus.Response(status=message))


def _marks() -> list[bytes]:
    return [serialize_message(PoseArray(poses=[Pose(), Pose()]))]


def _pads() -> list[bytes]:
    return [serialize_message(Float32MultiArray(data=[0.0, 1.0, 2.0, 3.0]))]


TARGETS = (
    Target("observation", _read_observation, _observations, spoil_message(Observation), (WireError,), 3),
    Target("history", _read_history, _histories, spoil_message(Observation), (WireError,), 3),
    Target("chunk", chunk_from_bytes, _chunks, spoil_message(ActionChunk), (WireError,), 6),
    Target("jpeg", decode_jpeg, lambda: [encode_jpeg(RGB, 90)], spoil_bytes, (ImageError,), 6),
    Target("jpeg_size", jpeg_size, lambda: [encode_jpeg(RGB, 90)], spoil_bytes, (ImageError,), 4),
    Target("png", decode_png, lambda: [encode_png(DEPTH)], spoil_bytes, (ImageError,), 6),
    Target("png_size", png_size, lambda: [encode_png(DEPTH)], spoil_bytes, (ImageError,), 4),
    Target("raw_image", _of(Image, image_from_message), _raw_images, spoil_message(Image), (ImageError,), 3),
    *(
        Target(name, run, seeds, spoil_message(kind), (SensorError,), 2, "t (front): ")
        for name, run, seeds, kind in (
            ("camera", _camera(COMPRESSED_IMAGE, "rgb", "jpeg"), lambda: _compressed(0), CompressedImage),
            (
                "depth_camera",
                _camera(COMPRESSED_IMAGE, "depth", "png"),
                lambda: _compressed(1),
                CompressedImage,
            ),
            ("raw_camera", _camera(IMAGE, "rgb", "jpeg"), _raw_images, Image),
            ("unencoded_camera", _camera(IMAGE, "rgb", "raw", 0), _raw_images, Image),
            ("raw_depth", _camera(IMAGE, "depth", "png"), lambda: _raw_images()[::-1], Image),
        )
    ),
    Target(
        "joint_state",
        _of(JointState, lambda message: JointReader(JOINTS).read(message)),
        lambda: [serialize_message(JointState(name=["elbow", "shoulder"], position=[0.1, 0.2]))],
        spoil_message(JointState),
        (SensorError,),
        4,
        "joint_states: position: ",
    ),
    *(
        Target(name, _of(kind, reader.read), seeds, spoil_message(kind), (SensorError,), 2, f"{name}: ")
        for name, kind, reader, seeds in (
            ("marks", PoseArray, make_state_reader(MARKS, "state.0"), _marks),
            ("pad", Float32MultiArray, make_state_reader(PAD, "state.0"), _pads),
        )
    ),
    Target(
        "offer",
        _of(OpenSession.Request, offer_from_request),
        lambda: [serialize_message(offer_to_request(OFFER))],
        spoil_message(OpenSession.Request),
        (WireError,),
        3,
    ),
    Target(
        "reply",
        _of(OpenSession.Response, reply_from_response),
        _replies,
        spoil_message(OpenSession.Response),
        (),
        2,
    ),
    Target(
        "server_status",
        _of(ServerStatus, _read_status),
        lambda: [serialize_message(ServerStatus(server="/policy_server", sessions=["a", "b"]))],
        spoil_message(ServerStatus),
        (),
        2,
    ),
)
