# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The JPEG libraries: simplejpeg, and Pillow where simplejpeg is not installed.

Colour is subsampled 4:2:0, as in cameras and video: it takes about half the time and two thirds of the bytes
of 4:4:4 at quality 90.
"""

from __future__ import annotations

import io
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from remote_inference.wire.arrays import ByteBuffer

try:
    import simplejpeg
except ImportError:  # no distribution packages it, so a robot set up by rosdep has only Pillow
    simplejpeg = None


class JpegLibrary(Protocol):
    """Encodes and decodes uint8 RGB `[height, width, 3]`. Raises what the library raises."""

    name: str

    def encode(self, rgb: NDArray[np.uint8], quality: int) -> bytes:
        """Return the JPEG of a C-contiguous image with quality 1 to 100."""

    def size(self, data: ByteBuffer) -> tuple[int, int]:
        """Return `(height, width)` [px] from the header, without decoding the image."""

    def decode(self, data: ByteBuffer) -> NDArray[np.uint8]:
        """Return the decoded image; greyscale becomes RGB, and truncated data raises."""


class Simplejpeg:
    """libjpeg-turbo through simplejpeg."""

    name = "simplejpeg"

    def encode(self, rgb: NDArray[np.uint8], quality: int) -> bytes:
        encoded: bytes = simplejpeg.encode_jpeg(rgb, quality, "RGB", "420", fastdct=True)
        return encoded

    def size(self, data: ByteBuffer) -> tuple[int, int]:
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        return height, width

    def decode(self, data: ByteBuffer) -> NDArray[np.uint8]:
        rgb: NDArray[np.uint8] = simplejpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True)
        return rgb


class Pillow:
    """libjpeg-turbo through Pillow: slower, above all in decoding (benchmarks/image_codecs.py)."""

    name = "Pillow"

    def encode(self, rgb: NDArray[np.uint8], quality: int) -> bytes:
        out = io.BytesIO()
        PillowImage.fromarray(rgb).save(out, "JPEG", quality=quality, subsampling="4:2:0")
        return out.getvalue()

    def size(self, data: ByteBuffer) -> tuple[int, int]:
        with PillowImage.open(io.BytesIO(data), formats=["JPEG"]) as image:
            return image.height, image.width

    def decode(self, data: ByteBuffer) -> NDArray[np.uint8]:
        with PillowImage.open(io.BytesIO(data), formats=["JPEG"]) as image:
            return np.array(image.convert("RGB"))


# The installed libraries; the package uses the first.
JPEG_LIBRARIES: tuple[JpegLibrary, ...] = (Simplejpeg(), Pillow()) if simplejpeg else (Pillow(),)
