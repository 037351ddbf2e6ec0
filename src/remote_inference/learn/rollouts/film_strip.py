# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Film strips: pictures of an episode at equal distances, to see why it failed, or of a group's rollouts."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import (
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    FeatureKind,
)
from remote_inference.learn.rollouts.group import Group, Trajectory

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FRAMES = 8  # of each episode
_FRAME_HEIGHT, _LABEL_WIDTH, _GAP = 108, 190, 3  # px
_SUCCESS, _FAILURE, _INK, _PAPER = (0, 120, 80), (190, 60, 40), (30, 30, 30), (255, 255, 255)


class Film:
    """The pictures of one episode, as few as a strip shows."""

    def __init__(self, environment: Environment, wanted: tuple[str, ...], limit_steps: int) -> None:
        """wanted: features that the policy sees; without a camera among them, the environment renders."""
        self._environment = environment
        self._camera = _first_camera(environment.spec, wanted)
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
        return self._environment.render() if self._camera is None else observation.values[self._camera]


def to_png(frames: list[NDArray[np.uint8]]) -> bytes:
    """Return frames side by side, as a file's content."""
    content = io.BytesIO()
    _join(frames).save(content, "PNG")
    return content.getvalue()


def find_camera(group: Group) -> str | None:
    """Return the first camera whose images the group has kept; None without one."""
    shown = [one.observations[0].values for one in group.trajectories if one.observations]
    return _first_camera(group.environment, (shown or [{}])[0])


def draw_film_strip(group: Group, camera: str, path: Path) -> None:
    """Write a picture, in the format of the name's ending, of the rollouts as a camera has seen them."""
    from PIL import Image, ImageDraw, ImageFont  # noqa: PLC0415  needed for strips alone

    strips = [_join(_pick(one, camera)) for one in group.trajectories]
    width, height = strips[0].size
    sheet = Image.new("RGB", (_LABEL_WIDTH + width + _GAP, len(strips) * (height + _GAP)), _PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(14)
    advantages = group.advantages
    for number, (one, strip) in enumerate(zip(group.trajectories, strips, strict=True)):
        top = number * (height + _GAP)
        colour = _SUCCESS if one.is_success else _FAILURE
        pen.rectangle((0, top, 6, top + height), fill=colour)
        outcome = "success" if one.is_success else "no success"
        lines = (
            f"rollout {number}, slot {one.slot}",
            f"{outcome}, {len(one)} steps",
            f"reward {one.total_reward:.3g}",
            f"advantage {advantages[number]:+.2f}",
        )
        pen.multiline_text((16, top + 14), "\n".join(lines), fill=_INK, font=font, spacing=6)
        sheet.paste(strip, (_LABEL_WIDTH, top))
    sheet.save(path)


def _first_camera(environment: EnvironmentSpec, names: Iterable[str]) -> str | None:
    return next((name for name in names if environment.features[name].kind is FeatureKind.RGB), None)


def _pick(one: Trajectory, camera: str) -> list[NDArray[np.uint8]]:
    """Return frames at equal distances, the first and the last among them."""
    shown = one.observations or ()
    places = np.linspace(0, len(shown) - 1, FRAMES).round().astype(int)
    return [shown[place].values[camera] for place in places]


def _join(frames: list[NDArray[np.uint8]]) -> Picture:
    from PIL import Image  # noqa: PLC0415  needed for strips alone

    height, width, _ = frames[0].shape
    size = (max(1, round(width * _FRAME_HEIGHT / height)), _FRAME_HEIGHT)
    strip = Image.new("RGB", (len(frames) * (size[0] + _GAP) - _GAP, size[1]), _PAPER)
    for place, frame in enumerate(frames):
        image = Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS)
        strip.paste(image, (place * (size[0] + _GAP), 0))
    return strip
