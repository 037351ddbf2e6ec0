# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One camera of a LeRobot data set: its video, its statistics, and what `meta` says of both."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.export.format import MAX_VIDEO_FILE_MB, VIDEO_PATH, file_place, place_columns
from remote_inference.bags.export.statistics import ImageStatistics
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE
from remote_inference.base.lerobot_format import camera_key
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message

CODEC = "libx264"
_OPTIONS = {"g": 2, "crf": 18, "preset": "superfast"}  # key frames: a data loader asks for any frame
_EXTRA_OPTIONS = {"bf": 0}  # with it two thirds of the time of "veryfast", no larger


class Camera:
    """A colour camera and its video: frames at a fixed rate, in files of bounded size.

    `name` is the robot's for it, `key` the data set's. A file ends with an episode, once it is large enough.
    """

    def __init__(self, out: Path, name: str, key: str, contract: Contract) -> None:
        self.name = name
        self.key = key
        self.statistics = ImageStatistics()  # of the episode
        self._rate = Fraction(contract.row_fps).limit_denominator(1001)
        self._source = contract.images[name]
        self._out = out
        self._message: Any = None  # the newest, and its image
        self._image: NDArray[np.uint8] = np.empty((0, 0, 3), np.uint8)
        self._shape = (0, 0)  # height and width [px] of the first frame
        self._container: Any = None  # the file in progress
        self._stream: Any = None
        self._file_index = -1
        self._file_bytes = self._file_frames = 0

    @classmethod
    def all_of(cls, contract: Contract, out: Path) -> list[Camera]:
        """Return the contract's colour cameras, under the policy's names for them."""
        features = zip(contract.images.items(), contract.image_features, strict=True)
        return [
            cls(out, name, camera_key(feature.name), contract)
            for (name, source), feature in features
            if source.colour == "rgb"
        ]

    def begin_episode(self) -> dict[str, Any]:
        """Return where the episode's part of the video begins, as `meta/episodes` says it."""
        if self._container is None or self._file_bytes >= MAX_VIDEO_FILE_MB << 20:
            self.close()
            self._file_index += 1
            self._file_bytes = self._file_frames = 0
        self.statistics = ImageStatistics()
        place = place_columns(f"videos/{self.key}", self._file_index)
        return {**place, f"videos/{self.key}/from_timestamp": self._end_s}

    def end_episode(self) -> dict[str, Any]:
        return {f"videos/{self.key}/to_timestamp": self._end_s}

    @property
    def _end_s(self) -> float:
        """Where the next frame begins in the file in progress."""
        return float(self._file_frames / self._rate)

    def add(self, message: Any) -> None:
        """Write the next frame. Raises BagError for an image that cannot be read or has another size."""
        if message is not self._message:
            self._message, self._image = message, self._decode(message)
        self._shape = self._shape if any(self._shape) else self._image.shape[:2]
        if self._image.shape[:2] != self._shape:
            expected = f"{self._shape} px as before it"
            raise self._error(f"found an image of {self._image.shape[:2]} px, expected {expected}")
        if self._container is None:
            self._open()
        frame = av.VideoFrame.from_ndarray(self._image, format="rgb24")
        frame.pts = self._file_frames
        frame.time_base = 1 / self._rate
        self._write(frame)
        self._file_frames += 1
        self.statistics.add(self._image)

    def _decode(self, message: Any) -> NDArray[np.uint8]:
        try:
            if self._source.type == COMPRESSED_IMAGE:
                return np.asarray(IMAGE_ENCODINGS.get(self._source.travels_as).decode(message.data))
            return np.asarray(image_from_message(message))
        except ImageError as error:
            raise self._error(str(error)) from error

    def _error(self, problem: str) -> BagError:
        return BagError(f"{self._source.topic} ({self.name}): {problem}")

    def _open(self) -> None:
        path = self._out / VIDEO_PATH.format(video_key=self.key, **file_place(self._file_index))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(path), "w")
        options = {name: str(value) for name, value in (_OPTIONS | _EXTRA_OPTIONS).items()}
        self._stream = self._container.add_stream(CODEC, rate=self._rate, options=options)
        self._stream.height, self._stream.width = self._shape
        self._stream.pix_fmt = self._pixel_format
        self._stream.codec_context.thread_type = "FRAME"  # three quarters of the time of slices on two cores
        self._stream.codec_context.time_base = 1 / self._rate

    @property
    def _pixel_format(self) -> str:
        """How colours are stored: with half the resolution, as in JPEG, unless a side is odd."""
        return "yuv420p" if self._shape[0] % 2 == self._shape[1] % 2 == 0 else "yuv444p"

    def _write(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._file_bytes += packet.size
            self._container.mux(packet)

    @property
    def feature(self) -> Mapping[str, Any]:
        """What `meta/info.json` says of the camera."""
        height, width = self._shape
        return {
            "dtype": "video",
            "shape": [height, width, 3],
            "names": ["height", "width", "channels"],
            "info": {
                "video.height": height,
                "video.width": width,
                "video.channels": 3,
                "video.codec": CODEC.removeprefix("lib").replace("x264", "h264"),
                "video.pix_fmt": self._pixel_format,
                "video.fps": int(self._rate),
                "has_audio": False,
                "is_depth_map": False,
                # With these LeRobot's tools encode anew what they cut.
                **{f"video.{name}": value for name, value in _OPTIONS.items()},
                "video.extra_options": _EXTRA_OPTIONS,
                "video.fast_decode": 0,
                "video.video_backend": "pyav",
            },
        }

    def close(self) -> None:
        if self._container is not None:
            self._write(None)
            self._container.close()
            self._container = None
