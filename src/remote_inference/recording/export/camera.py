# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One camera of a LeRobot data set: its video, its statistics, and what `meta` says of both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.contract.contract import Contract
from remote_inference.core.contract.image_source import COMPRESSED_IMAGE
from remote_inference.core.drafts.lerobot import camera_key
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.export.layout import MAX_VIDEO_FILE_MB, VIDEO_PATH, file_place
from remote_inference.recording.export.statistics import ImageStatistics
from remote_inference.recording.export.video import CODEC, VideoTrack
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.images import ImageError, image_from_message

STATISTICS_EVERY = 10  # frames


class Camera:
    """A colour camera. `name` is the robot's for it, `key` the data set's."""

    def __init__(self, out: Path, name: str, key: str, contract: Contract) -> None:
        self.name = name
        self.key = key
        self.statistics = ImageStatistics()
        self._fps = contract.row_fps
        self._source = contract.images[name]
        self._track = VideoTrack(self._path, self._fps, MAX_VIDEO_FILE_MB << 20)
        self._out = out
        self._frames = 0
        self._message: Any = None  # the newest, and its image
        self._image: NDArray[np.uint8] = np.empty((0, 0, 3), np.uint8)

    @classmethod
    def all_of(cls, contract: Contract, out: Path) -> list[Camera]:
        """Return the contract's colour cameras, under the policy's names for them."""
        features = zip(contract.images.items(), contract.image_features, strict=True)
        return [
            cls(out, name, camera_key(feature.name), contract)
            for (name, source), feature in features
            if source.colour == "rgb"
        ]

    def _path(self, file_index: int) -> Path:
        chunk_index, file_index = file_place(file_index)
        return self._out / VIDEO_PATH.format(
            video_key=self.key, chunk_index=chunk_index, file_index=file_index
        )

    def begin_episode(self) -> dict[str, Any]:
        """Return where the episode's part of the video begins, as `meta/episodes` says it."""
        self._track.begin_episode()
        chunk_index, file_index = file_place(self._track.file_index)
        return {
            f"videos/{self.key}/chunk_index": chunk_index,
            f"videos/{self.key}/file_index": file_index,
            f"videos/{self.key}/from_timestamp": self._track.end_s,
        }

    def end_episode(self) -> dict[str, Any]:
        """Return where it ends."""
        return {f"videos/{self.key}/to_timestamp": self._track.end_s}

    def add(self, message: Any) -> None:
        """Write the next frame. Raises BagError for an image that cannot be read or has another size."""
        if message is not self._message:
            self._message, self._image = message, self._decode(message)
        try:
            self._track.add(self._image)
        except ValueError as error:
            raise BagError(f"{self._source.topic} ({self.name}): {error}") from error
        if self._frames % STATISTICS_EVERY == 0:
            self.statistics.add(self._image)
        self._frames += 1

    def _decode(self, message: Any) -> NDArray[np.uint8]:
        try:
            if self._source.type == COMPRESSED_IMAGE:
                return np.asarray(IMAGE_ENCODINGS.get(self._source.travels_as).decode(message.data))
            return np.asarray(image_from_message(message))
        except ImageError as error:
            raise BagError(f"{self._source.topic} ({self.name}): {error}") from error

    @property
    def feature(self) -> Mapping[str, Any]:
        """What `meta/info.json` says of the camera."""
        height, width = self._track.shape
        return {
            "dtype": "video",
            "shape": [height, width, 3],
            "names": ["height", "width", "channels"],
            "info": {
                "video.height": height,
                "video.width": width,
                "video.channels": 3,
                "video.codec": CODEC.removeprefix("lib").replace("x264", "h264"),
                "video.pix_fmt": self._track.pixel_format,
                "video.fps": self._fps,
                "video.is_depth_map": False,
                "has_audio": False,
            },
        }

    def close(self) -> None:
        """Complete the video."""
        self._track.close()
