# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A group as one picture: a row per rollout, its frames from the first to the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from remote_inference.learn.environment import FeatureKind
from remote_inference.learn.rollouts.group import Group, Trajectory

FRAMES = 8  # of each rollout
_FRAME_HEIGHT, _LABEL_WIDTH, _GAP = 108, 190, 3  # px
_SUCCESS, _FAILURE, _INK, _PAPER = (0, 120, 80), (190, 60, 40), (30, 30, 30), (255, 255, 255)


def find_camera(group: Group) -> str | None:
    """Return the first camera whose images the group has kept; None without one."""
    shown = [one.observations[0].values for one in group.trajectories if one.observations]
    features = group.environment.features
    return next((name for name in (shown or [{}])[0] if features[name].kind is FeatureKind.RGB), None)


def draw_film_strip(group: Group, camera: str, path: Path) -> None:
    """Write a picture, in the format of the name's ending, of the rollouts as a camera has seen them."""
    rows = [_pick(one, camera) for one in group.trajectories]
    height, width, _ = rows[0][0].shape
    size = (round(width * _FRAME_HEIGHT / height), _FRAME_HEIGHT)
    sheet = Image.new("RGB", (_LABEL_WIDTH + FRAMES * (size[0] + _GAP), len(rows) * (size[1] + _GAP)), _PAPER)
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(14)
    advantages = group.advantages
    for number, (one, frames) in enumerate(zip(group.trajectories, rows, strict=True)):
        top = number * (size[1] + _GAP)
        colour = _SUCCESS if one.is_success else _FAILURE
        pen.rectangle((0, top, 6, top + size[1]), fill=colour)
        outcome = "success" if one.is_success else "no success"
        lines = (
            f"rollout {number}, slot {one.slot}",
            f"{outcome}, {len(one)} steps",
            f"reward {one.total_reward:.3g}",
            f"advantage {advantages[number]:+.2f}",
        )
        pen.multiline_text((16, top + 14), "\n".join(lines), fill=_INK, font=font, spacing=6)
        for place, frame in enumerate(frames):
            image = Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS)
            sheet.paste(image, (_LABEL_WIDTH + place * (size[0] + _GAP), top))
    sheet.save(path)


def _pick(one: Trajectory, camera: str) -> list[NDArray[np.uint8]]:
    """Return frames at equal distances, the first and the last among them."""
    shown = one.observations or ()
    places = np.linspace(0, len(shown) - 1, FRAMES).round().astype(int)
    return [shown[place].values[camera] for place in places]
