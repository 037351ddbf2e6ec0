# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads LeRobot data sets of version 3.0: states, actions and images of one episode at a time."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

from remote_inference.bags.export.format import DATA_PATH, VIDEO_PATH
from remote_inference.base.documents.problems import show_value
from remote_inference.base.errors import UserError
from remote_inference.base.lerobot_format import ACTION, PICTURES, STATE, Feature, read_info

Float32Array = NDArray[np.float32]
RgbImage = NDArray[np.uint8]
HALF_FRAME = 0.5  # a frame belongs to the tick that is nearest to its time


class DatasetError(UserError):
    """A data set cannot be read; the message names the file."""


@dataclass(frozen=True)
class EpisodeEntry:
    """Where an episode is stored. videos: file and first second, by camera."""

    index: int
    tasks: tuple[str, ...]
    length: int
    data: Path
    videos: Mapping[str, tuple[Path, float]]


@dataclass(frozen=True)
class EpisodeData:
    """states: `[T, S]`; actions: `[T, A]`, both in the units and the order of the data set."""

    states: Float32Array
    actions: Float32Array


class LeRobotDatasetReader:
    """One data set. Not thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Read what describes it. Raises DatasetError, or DocumentError for its `info.json`."""
        self.folder = folder
        path = folder / "meta" / "info.json"
        with _reading(path):
            text = path.read_bytes()
        info = read_info(text, str(path))
        self.fps = float(info.fps)
        self.state_names = _names(path, STATE, info.features[STATE])
        self.action_names = _names(path, ACTION, info.features[ACTION])
        self.action_units = tuple(map(str, info.features[ACTION].units or ()))  # empty: it says none
        self.cameras = {
            key: _picture_shape(path, key, one)
            for key, one in info.features.items()
            if one.dtype in PICTURES and not one.is_depth
        }
        self._kinds = {key: info.features[key].dtype for key in self.cameras}
        self.episodes = self._read_places()

    def read(self, place: EpisodeEntry) -> EpisodeData:
        """Return an episode's states and actions. Raises DatasetError."""
        table = self._read_rows(place, [STATE, ACTION])
        states = self._matrix(place, table, STATE, len(self.state_names))
        return EpisodeData(states, self._matrix(place, table, ACTION, len(self.action_names)))

    def pictures(self, place: EpisodeEntry, camera: str) -> Iterator[RgbImage]:
        """Yield a camera's pictures `[H, W, 3]` of an episode, one for each tick. Raises DatasetError."""
        if self._kinds[camera] == "video":
            source, shown = place.videos[camera][0], self._decode_video(place, camera)
        else:
            source, shown = place.data, self._decode_images(place, camera)
        count = 0
        for picture in islice(shown, place.length):
            if picture.shape != self.cameras[camera]:
                found, expected = list(picture.shape), list(self.cameras[camera])
                raise DatasetError(f"{place.data}: {camera}: found shape {found}, expected {expected}")
            count += 1
            yield picture
        if count < place.length:
            raise DatasetError(
                f"{source}: episode {place.index}: found {count} pictures, expected {place.length}"
            )

    def _read_places(self) -> list[EpisodeEntry]:
        files = sorted((self.folder / "meta" / "episodes").glob("chunk-*/file-*.parquet"))
        rows: list[dict[str, Any]] = []
        for file in files:
            with _reading(file):
                rows += pq.read_table(str(file)).to_pylist()
        if not rows:
            raise DatasetError(
                f"{self.folder / 'meta' / 'episodes'}: found no episode, expected one at least"
            )
        try:
            places = [self._place(row) for row in rows]
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{files[0]}: found no usable {error}, expected a data set's episodes"
            ) from error
        return sorted(places, key=lambda one: one.index)

    def _place(self, row: Mapping[str, Any]) -> EpisodeEntry:
        def file(template: str, key: str, **names: str) -> Path:
            places = {part: int(row[f"{key}/{part}"]) for part in ("chunk_index", "file_index")}
            return self.folder / template.format(**places, **names)

        videos = {
            camera: (
                file(VIDEO_PATH, f"videos/{camera}", video_key=camera),
                float(row[f"videos/{camera}/from_timestamp"]),
            )
            for camera, kind in self._kinds.items()
            if kind == "video"
        }
        tasks = tuple(str(task) for task in row["tasks"])
        return EpisodeEntry(
            int(row["episode_index"]), tasks, int(row["length"]), file(DATA_PATH, "data"), videos
        )

    def _read_rows(self, place: EpisodeEntry, columns: Sequence[str]) -> pa.Table:
        with _reading(place.data):
            chosen = [("episode_index", "=", place.index)]
            table = pq.read_table(str(place.data), columns=list(columns), filters=chosen)
        if table.num_rows != place.length or not place.length:
            raise DatasetError(
                f"{place.data}: episode {place.index}: found {table.num_rows} ticks, expected {place.length}"
            )
        return table

    def _matrix(self, place: EpisodeEntry, table: pa.Table, column: str, width: int) -> Float32Array:
        try:
            values = np.array(table[column].to_pylist(), np.float32).reshape(place.length, width)
        except (TypeError, ValueError) as error:
            raise DatasetError(f"{place.data}: {column}: expected {width} numbers a tick: {error}") from error
        if not np.isfinite(values).all():
            raise DatasetError(f"{place.data}: {column}: episode {place.index}: expected finite numbers")
        return values

    def _decode_images(self, place: EpisodeEntry, camera: str) -> Iterator[RgbImage]:
        for entry in self._read_rows(place, [camera])[camera].to_pylist():
            with _reading(place.data, camera):
                content = entry["bytes"] or (self.folder / entry["path"]).read_bytes()
                yield np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    def _decode_video(self, place: EpisodeEntry, camera: str) -> Iterator[RgbImage]:
        path, begin_s = place.videos[camera]
        with _reading(path), av.open(str(path)) as container:
            stream = container.streams.video[0]
            container.seek(int(begin_s / stream.time_base), stream=stream)  # to the key frame before it
            for frame in container.decode(stream):
                if frame.time > begin_s - HALF_FRAME / self.fps:
                    yield frame.to_ndarray(format="rgb24")


@contextmanager
def _reading(path: Path, what: str = "") -> Iterator[None]:
    """Turn errors of a file into DatasetError."""
    try:
        yield
    except (OSError, pa.ArrowException, av.FFmpegError, IndexError, KeyError, TypeError) as error:
        name = f"{path}: {what}" if what else str(path)
        raise DatasetError(f"{name}: cannot be read: {' '.join(str(error).split())}") from error


def _names(path: Path, key: str, feature: Feature) -> tuple[str, ...]:
    try:
        return feature.read_joints()
    except ValueError as error:
        raise DatasetError(f"{path}: features.{key}.names: {error}") from error


def _picture_shape(path: Path, key: str, feature: Feature) -> tuple[int, ...]:
    shape = feature.shape if isinstance(feature.shape, (list, tuple)) else ()
    if len(shape) != 3 or shape[2] != 3 or not all(isinstance(size, int) for size in shape):
        found = show_value(feature.shape)
        raise DatasetError(f"{path}: features.{key}.shape: found {found}, expected [height, width, 3]")
    return tuple(shape)
