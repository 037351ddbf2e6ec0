# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The images of a run's observations for a page: down-sampled, and thinned out in a long run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from remote_inference.core.contract.image_encodings import find_encoding
from remote_inference.recording.provenance.motion import Request
from remote_inference.recording.provenance.page.thinned import Thinned
from remote_inference.recording.timeline.answers import RequestKey
from remote_inference.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.wire.images.images import ImageError, image_from_message

MAX_SIDE = 320  # [px] of an image
MAX_BYTES = 24 << 20  # of the images of all observations; a third more in the page, where they are text
_QUALITY = 70


@dataclass(frozen=True)
class Shot:
    """The images of one observation as JPEG, None where one cannot be read."""

    request: RequestKey
    jpegs: tuple[bytes | None, ...]


class Album:
    """Keeps the observations' images within MAX_BYTES: when there are too many, every second one goes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._shots: Thinned[Shot] = Thinned(max_bytes)
        self._max_bytes = max_bytes
        self.unreadable = 0

    @property
    def shots(self) -> Sequence[Shot]:
        return self._shots.items

    def take(self, request: Request, pictures: Sequence[Any]) -> None:
        """Take the images' messages of a request."""
        if not self._shots.takes_next:
            self._shots.skip()
            return
        jpegs = tuple(map(shrink, pictures))
        self.unreadable += jpegs.count(None)
        shot = Shot((request.session_id, request.seq_id), jpegs)
        self._shots.add(shot, sum(len(jpeg or b"") for jpeg in jpegs))

    def left_out(self) -> list[str]:
        """Return what of the images is not kept, in words."""
        told = []
        if self._shots.every > 1:
            missing = self._shots.offered - len(self._shots.items)
            of, limit = self._shots.offered, self._max_bytes / 2**20
            told.append(f"the images of {missing} of {of} observations: all would be over {limit:g} MiB")
        if self.unreadable:
            told.append(f"{self.unreadable} images that cannot be read")
        return told


def shrink(picture: Any) -> bytes | None:
    """Return an image as a small JPEG; None when it cannot be read."""
    try:
        image = _open(picture)
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.BOX)
        data = io.BytesIO()
        image.convert("RGB").save(data, "JPEG", quality=_QUALITY)
    except (ImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return data.getvalue()


def _open(picture: Any) -> Image.Image:
    if not hasattr(picture, "format"):
        return _as_image(np.asarray(image_from_message(picture)))
    encoding = find_encoding(picture.format)
    if encoding is not None and encoding != "jpeg":  # JPEG is drafted small, or tried
        return _as_image(IMAGE_ENCODINGS.get(encoding).decode(picture.data))
    image = Image.open(io.BytesIO(picture.data), formats=["JPEG"])
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))
    return image


def _as_image(pixels: np.ndarray) -> Image.Image:
    """Return colour as it is, and depth as grey: black is near, or not measured."""
    if pixels.ndim == 2:
        pixels = (pixels / max(1, int(pixels.max())) * 255).astype(np.uint8)
    return Image.fromarray(pixels)
