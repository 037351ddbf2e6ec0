# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Colour as JPEG."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from remote_inference.core.documents.document import Document
from remote_inference.wire.arrays import ByteBuffer
from remote_inference.wire.images.images import ImageError, require_image, require_size, undecodable
from remote_inference.wire.images.jpeg import JPEG_LIBRARIES

_JPEG = JPEG_LIBRARIES[0]


class JpegOptions(Document):
    """What the robot's encoder asks for."""

    quality: Annotated[int, Field(ge=1, le=100, description="of the encoder; larger images at more")] = 90


class Jpeg:
    """The encoding `jpeg`."""

    colours = ("rgb",)
    is_lossless = False
    formats = ("jpeg", "jpg")
    options = JpegOptions

    @staticmethod
    def encode(image: NDArray[np.uint8], options: JpegOptions) -> bytes:
        return encode_jpeg(image, options.quality)

    @staticmethod
    def decode(data: ByteBuffer) -> NDArray[np.uint8]:
        return decode_jpeg(data)

    @staticmethod
    def size(data: ByteBuffer) -> tuple[int, int]:
        return jpeg_size(data)


def encode_jpeg(rgb: NDArray[np.uint8], quality: int) -> bytes:
    """Return the JPEG of uint8 RGB `[height, width, 3]` with quality 1 to 100.

    Raises ImageError for another shape, type or quality.
    """
    require_image(rgb, np.uint8, (3,))
    if not 1 <= quality <= 100:
        raise ImageError(f"JPEG quality: found {quality}, expected 1 to 100")
    return _JPEG.encode(np.ascontiguousarray(rgb), quality)


def decode_jpeg(data: ByteBuffer) -> NDArray[np.uint8]:
    """Return uint8 RGB `[height, width, 3]`; greyscale becomes RGB.

    Raises ImageError for corrupt or truncated data, or a size beyond MAX_SIDE or MAX_PIXELS.
    """
    jpeg_size(data)
    try:
        return _JPEG.decode(data)
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
