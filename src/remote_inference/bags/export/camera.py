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
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE
from remote_inference.base.lerobot_format import camera_key
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_IMAGE_SIDE_PX = 150  # images are thinned out to about this size
_LEVELS = 256


class VectorStatistics:
    """Statistics of a feature `[dim]` over all frames, exact: its values are kept, as float32."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.float32]] = []

    def add(self, rows: NDArray[Any]) -> None:
        """Add frames `[n, dim]`."""
        self._parts.append(rows.astype(np.float32))

    def as_json(self) -> dict[str, Any]:
        """Return min, max, mean, std and quantiles `[dim]`, and the count `[1]`."""
        columns = [np.concatenate(column) for column in zip(*(part.T for part in self._parts), strict=True)]
        wide = [column.astype(np.float64) for column in columns]
        statistics: dict[str, list[float]] = {
            name: [float(getattr(column, name)()) for column in wide]
            for name in ("min", "max", "mean", "std")
        }
        statistics["count"] = [len(wide[0])]
        quantiles = [np.quantile(column, list(QUANTILES.values())) for column in wide]
        return statistics | {
            name: [float(values[place]) for values in quantiles] for place, name in enumerate(QUANTILES)
        }


class ImageStatistics:
    """Statistics of a camera over some frames: how often each level occurs in each channel."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, _LEVELS), np.int64)
        self._images = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Add an image `[height, width, 3]`."""
        step = max(1, max(rgb.shape[:2]) // _IMAGE_SIDE_PX)
        for channel in range(3):
            levels = rgb[::step, ::step, channel].ravel()
            self._counts[channel] += np.bincount(levels, minlength=_LEVELS)
        self._images += 1

    def as_json(self) -> dict[str, Any]:
        """Return min, max, mean, std and quantiles `[3, 1, 1]` of levels from 0 to 1, and the count `[1]`."""
        levels = np.arange(_LEVELS) / (_LEVELS - 1)
        shares = self._counts / self._counts.sum(axis=1, keepdims=True)
        mean = shares @ levels
        rises = shares.cumsum(axis=1)
        present = self._counts > 0
        statistics = {
            "min": levels[present.argmax(axis=1)],
            "max": levels[_LEVELS - 1 - present[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(0.0, shares @ levels**2 - mean**2)),
        }
        for name, share in QUANTILES.items():
            # The rounding of a sum of shares must not step over the level in question.
            statistics[name] = levels[(rises >= share - 1e-12).argmax(axis=1)]
        shaped = {name: [[[float(value)]] for value in values] for name, values in statistics.items()}
        return {**shaped, "count": [self._images]}


CODEC, KEY_FRAME_EVERY = "libx264", 2  # every second frame: a data loader asks for frames in any order
_OPTIONS = {"preset": "superfast", "crf": "18", "bf": "0"}  # two thirds of the time of "veryfast", no larger
STATISTICS_EVERY = 10  # frames


class Camera:
    """A colour camera and its video: frames at a fixed rate, in files of bounded size.

    `name` is the robot's for it, `key` the data set's. A file ends with an episode, once it is large enough.
    """

    def __init__(self, out: Path, name: str, key: str, contract: Contract) -> None:
        self.name = name
        self.key = key
        self.statistics = ImageStatistics()
        self._fps = contract.row_fps
        self._rate = Fraction(self._fps).limit_denominator(1001)
        self._source = contract.images[name]
        self._out = out
        self._frames = 0  # of all files
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
            raise self._error(
                f"found an image of {self._image.shape[:2]} px, expected {self._shape} px as before it"
            )
        if self._container is None:
            self._open()
        frame = av.VideoFrame.from_ndarray(self._image, format="rgb24")
        frame.pts = self._file_frames
        frame.time_base = 1 / self._rate
        self._write(frame)
        self._file_frames += 1
        if self._frames % STATISTICS_EVERY == 0:
            self.statistics.add(self._image)
        self._frames += 1

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
        self._stream = self._container.add_stream(CODEC, rate=self._rate, options=_OPTIONS)
        self._stream.height, self._stream.width = self._shape
        self._stream.pix_fmt = self._pixel_format
        self._stream.codec_context.gop_size = KEY_FRAME_EVERY
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
                "video.fps": self._fps,
                "video.is_depth_map": False,
                "has_audio": False,
            },
        }

    def close(self) -> None:
        if self._container is not None:
            self._write(None)
            self._container.close()
            self._container = None
