# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Colour as JPEG."""

from __future__ import annotations

import io
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage
from pydantic import Field

from remote_inference.base.documents.document import Document
from remote_inference.base.wire.arrays import ByteBuffer
from remote_inference.base.wire.images.images import ImageError, require_image, require_size, undecodable

# -- The JPEG libraries: simplejpeg, and Pillow where simplejpeg is not installed -----------------------

try:
    import simplejpeg
except ImportError:  # no distribution packages it, so a robot set up by rosdep has only Pillow
    simplejpeg = None


class Simplejpeg:
    """libjpeg-turbo through simplejpeg: encodes and decodes uint8 RGB `[height, width, 3]`.

    Raises what the library raises, also for truncated data. `Pillow` below has the same methods.
    """

    name = "simplejpeg"

    def encode(self, rgb: NDArray[np.uint8], quality: int) -> bytes:
        """Return the JPEG of a C-contiguous image with quality 1 to 100."""
        encoded: bytes = simplejpeg.encode_jpeg(rgb, quality, "RGB", "420", fastdct=True)
        return encoded

    def size(self, data: ByteBuffer) -> tuple[int, int]:
        """Return `(height, width)` [px] from the header, without decoding the image."""
        height, width, _, _ = simplejpeg.decode_jpeg_header(data)
        return height, width

    def decode(self, data: ByteBuffer, least: tuple[int, int] = (0, 0)) -> NDArray[np.uint8]:
        """Return the decoded image; greyscale becomes RGB. least: as of `decode_jpeg`."""
        rgb: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, "RGB", fastdct=True, fastupsample=True, min_height=least[0], min_width=least[1]
        )
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

    def decode(self, data: ByteBuffer, least: tuple[int, int] = (0, 0)) -> NDArray[np.uint8]:
        with PillowImage.open(io.BytesIO(data), formats=["JPEG"]) as image:
            if any(least):
                image.draft("RGB", least[::-1])
            return np.array(image.convert("RGB"))


# The installed libraries; the package uses the first.
JPEG_LIBRARIES: tuple[Simplejpeg | Pillow, ...] = (Simplejpeg(), Pillow()) if simplejpeg else (Pillow(),)
_JPEG = JPEG_LIBRARIES[0]


class JpegOptions(Document):
    """What the robot's encoder asks for."""

    quality: Annotated[int, Field(ge=1, le=100)] = 90
    """of the encoder; larger images at more"""


def encode_jpeg(rgb: NDArray[np.uint8], quality: int) -> bytes:
    """Return the JPEG of uint8 RGB `[height, width, 3]` with quality 1 to 100.

    Raises ImageError for another shape, type or quality.
    """
    require_image(rgb, np.uint8, (3,))
    if not 1 <= quality <= 100:
        raise ImageError(f"JPEG quality: found {quality}, expected 1 to 100")
    return _JPEG.encode(np.ascontiguousarray(rgb), quality)


def decode_jpeg(data: ByteBuffer, least: tuple[int, int] = (0, 0)) -> NDArray[np.uint8]:
    """Return uint8 RGB `[height, width, 3]`; greyscale becomes RGB.

    least: height and width that are needed. An image that is twice as large or more, both ways, is made
    smaller as it is decoded, which takes a fraction of the time; (0, 0): none is.

    Raises ImageError for corrupt or truncated data, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    height, width = jpeg_size(data)
    if height < 2 * least[0] or width < 2 * least[1]:
        least = (0, 0)
    try:
        return _JPEG.decode(data, least)
    except Exception as error:  # decoders raise a dozen types on corrupt data
        raise undecodable(data, "JPEG", error) from error


def jpeg_size(data: ByteBuffer) -> tuple[int, int]:
    """Return `(height, width)` [px] from a JPEG's header.

    Raises ImageError for data that is not JPEG, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    try:
        height, width = _JPEG.size(data)
    except Exception as error:
        raise undecodable(data, "JPEG", error) from error
    require_size(height, width)
    return height, width


class Jpeg:
    """The encoding `jpeg`."""

    colours = ("rgb",)
    formats = ("jpeg", "jpg")
    options = JpegOptions

    @staticmethod
    def encode(image: NDArray[np.uint8], options: JpegOptions) -> bytes:
        return encode_jpeg(image, options.quality)

    decode = decode_at_least = staticmethod(decode_jpeg)
    size = staticmethod(jpeg_size)
