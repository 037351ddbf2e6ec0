# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The JPEG images of a bag: those in the observations, and those of recorded camera topics."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from remote_inference.core.contract.image_encodings import find_encoding
from remote_inference.core.contract.image_source import COMPRESSED_IMAGE
from remote_inference.recording.bags.bag_records import BagTopic
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.encodings.jpeg import encode_jpeg
from remote_inference.wire.images.images import ImageError

_QUALITY = 90  # of a picture that came in another encoding


@dataclass(frozen=True)
class Frame:
    """One JPEG image of a recorded camera topic or of an observation; depth and raw images are not kept."""

    t_s: float
    episode_id: int
    camera: int  # position among the observation's images
    name: str  # frame_id of the image, may be empty
    jpeg: bytes


@dataclass(frozen=True)
class ObservedImage:
    """A JPEG image as recorded; the image of a camera topic names neither camera nor episode."""

    t_s: float
    name: str  # frame_id
    jpeg: bytes
    camera: int | None = None
    episode_id: int | None = None


def camera_topics(topics: Mapping[str, BagTopic], namespace: str) -> list[str]:
    """Return the recorded camera topics in a robot's namespace."""
    return [
        topic.name
        for topic in topics.values()
        if topic.msgtype == COMPRESSED_IMAGE and topic.name.startswith(f"{namespace}/")
    ]


def observed_images(t_s: float, observation: Any) -> Iterator[ObservedImage]:
    """Yield the JPEG images of an observation."""
    for camera, image in enumerate(observation.images):
        for found in recorded_images(t_s, image):
            yield ObservedImage(t_s, found.name, found.jpeg, camera, int(observation.episode_id))


def recorded_images(t_s: float, image: Any) -> Iterator[ObservedImage]:
    """Yield a CompressedImage if it is colour, as JPEG."""
    jpeg = image.data.tobytes()
    encoding = find_encoding(image.format)
    if encoding is not None and encoding != "jpeg" and "rgb" in IMAGE_ENCODINGS.get(encoding).colours:
        try:
            jpeg = encode_jpeg(IMAGE_ENCODINGS.get(encoding).decode(image.data), _QUALITY)
        except ImageError:
            return
    try:
        with Image.open(io.BytesIO(jpeg), formats=["JPEG"]):
            yield ObservedImage(t_s, image.header.frame_id, jpeg)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError):
        return


def make_frames(
    images: Sequence[ObservedImage], tick_t_s: NDArray[np.float64], episode_id: NDArray[np.int64]
) -> tuple[Frame, ...]:
    """Return the images in order of time.

    The images of a camera topic, which is denser, join those of the observations' camera with the same
    frame_id. Their episode is that of the last tick.
    """
    cameras = {image.name: image.camera for image in images if image.camera is not None and image.name}
    frames: list[Frame] = []
    for image in images:
        if image.camera is not None and image.episode_id is not None:
            frames.append(Frame(image.t_s, image.episode_id, image.camera, image.name, image.jpeg))
            continue
        tick = int(np.searchsorted(tick_t_s, image.t_s, side="right")) - 1
        camera = cameras.get(image.name)
        if camera is not None and tick >= 0:
            frames.append(Frame(image.t_s, int(episode_id[tick]), camera, image.name, image.jpeg))
    return tuple(sorted(frames, key=lambda frame: frame.t_s))
