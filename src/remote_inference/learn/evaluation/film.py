# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Film strips: pictures of one episode at equal distances, to see why it failed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import (
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    FeatureKind,
)

FRAMES = 8
_FRAME_HEIGHT, _GAP = 108, 3  # px
_PAPER = (255, 255, 255)


class Film:
    """The pictures of one episode, as few as a strip shows."""

    def __init__(self, environment: Environment, wanted: tuple[str, ...], limit_steps: int) -> None:
        """wanted: features that the policy sees; without a camera among them, the environment renders."""
        self._environment = environment
        self._camera = find_camera(environment.spec, wanted)
        self._stride = max(1, -(-limit_steps // (FRAMES - 1)))
        self._frames: list[NDArray[np.uint8]] = []
        self._last: EnvironmentObservation | None = None

    def note(self, steps: int, observation: EnvironmentObservation) -> None:
        """Keep the picture after a number of steps, if the strip shows it."""
        self._last = observation
        if steps % self._stride == 0:
            self._frames.append(self._picture(observation))

    def finish(self) -> list[NDArray[np.uint8]]:
        """Return the pictures, with the episode's last one."""
        if self._last is not None and len(self._frames) < FRAMES:
            self._frames.append(self._picture(self._last))
        return self._frames

    def _picture(self, observation: EnvironmentObservation) -> NDArray[np.uint8]:
        if self._camera is None:
            return self._environment.render()
        picture: NDArray[np.uint8] = observation.values[self._camera]
        return picture


def find_camera(environment: EnvironmentSpec, wanted: tuple[str, ...]) -> str | None:
    """Return the first wanted camera; None without one."""
    features = environment.features
    return next((name for name in wanted if features[name].kind is FeatureKind.RGB), None)


def save_strip(frames: list[NDArray[np.uint8]], path: Path) -> None:
    """Write frames side by side as PNG; the file is there whole or not at all. Raises OSError."""
    from PIL import Image  # noqa: PLC0415  needed for strips alone

    height, width, _ = frames[0].shape
    size = (max(1, round(width * _FRAME_HEIGHT / height)), _FRAME_HEIGHT)
    strip = Image.new("RGB", (len(frames) * (size[0] + _GAP) - _GAP, size[1]), _PAPER)
    for place, frame in enumerate(frames):
        image = Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS)
        strip.paste(image, (place * (size[0] + _GAP), 0))
    content = io.BytesIO()
    strip.save(content, "PNG")
    draft = path.with_name(f".{path.name}.{os.getpid()}.draft")
    try:
        draft.write_bytes(content.getvalue())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
