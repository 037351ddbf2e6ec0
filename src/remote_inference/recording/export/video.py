# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One camera's video: frames at a fixed rate, in files of bounded size."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

CODEC, KEY_FRAME_EVERY = "libx264", 2  # every second frame: a data loader asks for frames in any order
_OPTIONS = {"preset": "superfast", "crf": "18", "bf": "0"}  # two thirds of the time of "veryfast", no larger


class VideoTrack:
    """Writes the frames of one camera. A file ends with an episode, once it is large enough.

    place: returns the path of the file with a number. Times are seconds from the begin of a file.
    """

    def __init__(self, place: Callable[[int], Path], fps: float, max_file_bytes: int) -> None:
        self._place = place
        self._rate = Fraction(fps).limit_denominator(1001)
        self._max_file_bytes = max_file_bytes
        self._container: Any = None
        self._stream: Any = None
        self._bytes = self._frames = 0
        self.file_index = -1  # of the file in progress
        self.shape = (0, 0)  # height and width [px] of the first frame

    @property
    def end_s(self) -> float:
        """Where the next frame begins in the file in progress."""
        return float(self._frames / self._rate)

    @property
    def pixel_format(self) -> str:
        """How colours are stored: with half the resolution, as in JPEG, unless a side is odd."""
        return "yuv420p" if self.shape[0] % 2 == self.shape[1] % 2 == 0 else "yuv444p"

    def begin_episode(self) -> None:
        """Begin the next file if there is none yet, or the one in progress is large enough."""
        if self._container is not None and self._bytes < self._max_file_bytes:
            return
        self.close()
        self.file_index += 1
        self._bytes = self._frames = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Write an image `[height, width, 3]`. Raises ValueError for another size than the first."""
        self.shape = self.shape if any(self.shape) else rgb.shape[:2]
        if rgb.shape[:2] != self.shape:
            raise ValueError(f"found an image of {rgb.shape[:2]} px, expected {self.shape} px as before it")
        if self._container is None:
            self._open()
        frame = av.VideoFrame.from_ndarray(rgb, format="rgb24")
        frame.pts = self._frames
        frame.time_base = 1 / self._rate
        self._write(frame)
        self._frames += 1

    def _open(self) -> None:
        path = self._place(self.file_index)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._container = av.open(str(path), "w")
        self._stream = self._container.add_stream(CODEC, rate=self._rate, options=_OPTIONS)
        self._stream.height, self._stream.width = self.shape
        self._stream.pix_fmt = self.pixel_format
        self._stream.codec_context.gop_size = KEY_FRAME_EVERY
        self._stream.codec_context.thread_type = "FRAME"  # three quarters of the time of slices on two cores
        self._stream.codec_context.time_base = 1 / self._rate

    def _write(self, frame: Any) -> None:
        for packet in self._stream.encode(frame):
            self._bytes += packet.size
            self._container.mux(packet)

    def close(self) -> None:
        """Complete the file in progress."""
        if self._container is not None:
            self._write(None)
            self._container.close()
            self._container = None
