# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A film strip of what the robot's cameras saw during one episode."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from remote_inference.bags.timeline.timeline import Frame, Timeline
from remote_inference.base.errors import UserError

_FRAME_WIDTH = 240  # [px]
_GAP, _CAPTION, _PERFORATION = 8, 22, 18  # [px]
_FILM, _HOLE, _TEXT = "#1B1B1B", "#F4F4F4", "#F4F4F4"


class FramesError(UserError):
    """No film strip can be drawn; the message names the camera or window without images."""


def draw_film_strip(
    timeline: Timeline, path: Path, count: int = 8, window_s: tuple[float, float] | None = None
) -> None:
    """Draw `count` frames, evenly spaced over one episode or over a part of it, to a PNG file.

    The episode is that of the first image in `window_s` (begin, end) [s]; without a window, in the bag.
    A second row shows the same moments by the next camera, if there is one.

    Raises FramesError when the first camera has no image in the window.
    """
    begin, end = window_s or (0.0, timeline.duration_s)
    inside = [f for f in timeline.frames if begin <= f.t_s <= end]
    first_row = [f for f in inside if f.camera == 0]
    if not first_row:
        seen = ", ".join(map(str, sorted({f.camera for f in timeline.frames}))) or "none"
        found = f"{timeline.namespace}: camera 0 has no JPEG image from {begin:.2f} to {end:.2f} s"
        raise FramesError(f"{found}; cameras with images in the bag: {seen}")
    episode = first_row[0].episode_id
    shown = [f for f in inside if f.episode_id == episode]
    cameras = sorted({f.camera for f in shown})[:2]
    rows = [[f for f in shown if f.camera == camera] for camera in cameras]
    moments = np.linspace(rows[0][0].t_s, rows[0][-1].t_s, count)
    strips = [_strip(_nearest(row, moments)) for row in rows]
    size = max(strip.width for strip in strips), sum(strip.height + _GAP for strip in strips) - _GAP
    sheet = Image.new("RGB", size, "white")
    y = 0
    for strip in strips:
        sheet.paste(strip, (0, y))
        y += strip.height + _GAP
    sheet.save(path)


def _nearest(frames: Sequence[Frame], moments: np.ndarray) -> list[Frame]:
    """Return the frame nearest to each moment; neighbours may share one when there are few."""
    t_s = np.array([f.t_s for f in frames])
    return [frames[int(np.argmin(np.abs(t_s - moment)))] for moment in moments]


def _strip(frames: list[Frame]) -> Image.Image:
    """Return one row: the frames side by side with captions, between the perforations of a film."""
    pictures = [_picture(frame) for frame in frames]
    height = max(p.height for p in pictures)
    font = ImageFont.load_default(13)
    size = len(frames) * (_FRAME_WIDTH + _GAP) + _GAP, height + _CAPTION + 2 * _PERFORATION
    strip = Image.new("RGB", size, _FILM)
    draw = ImageDraw.Draw(strip)
    for x in range(6, strip.width - 10, 20):
        for y in (5, strip.height - 13):
            draw.rounded_rectangle((x, y, x + 10, y + 7), radius=2, fill=_HOLE)
    for i, (frame, picture) in enumerate(zip(frames, pictures, strict=True)):
        x = _GAP + i * (_FRAME_WIDTH + _GAP)
        strip.paste(picture, (x, _PERFORATION))
        y = _PERFORATION + height + _CAPTION // 2
        camera = frame.name or f"camera {frame.camera}"
        draw.text((x + 2, y), f"{camera}, episode {frame.episode_id}", _TEXT, font, anchor="lm")
        draw.text((x + _FRAME_WIDTH - 2, y), f"{frame.t_s:.2f} s", _TEXT, font, anchor="rm")
    return strip


def _picture(frame: Frame) -> Image.Image:
    image = Image.open(io.BytesIO(frame.jpeg))
    size = (_FRAME_WIDTH, round(image.height * _FRAME_WIDTH / image.width))
    return image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
