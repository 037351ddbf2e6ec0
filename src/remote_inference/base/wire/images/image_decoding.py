# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Decodes the images of one request side by side."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.typing import NDArray
from sensor_msgs.msg import CompressedImage, Image

from remote_inference.base.contract.image_source import RAW
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message

_DECODING_THREADS = 4


@dataclass(frozen=True)
class EncodedImage:
    """An image as it came. what: names it in errors. encoding: the one that its camera was offered with."""

    what: str
    encoding: str
    message: CompressedImage | Image


def decode_images(images: Sequence[EncodedImage]) -> list[NDArray[Any]]:
    """Return decoded images, in order.

    Raises ImageError naming the first one that cannot be decoded.
    """
    encoded = [index for index, image in enumerate(images) if image.encoding != RAW]
    # This thread decodes the first image, a pool the others: the libraries release the GIL.
    begun = {index: _decoding_pool().submit(_decode, images[index]) for index in encoded[1:]}
    try:
        return [
            begun[index].result() if index in begun else _decode(image) for index, image in enumerate(images)
        ]
    finally:  # when one image fails, the rest must not delay the next request
        wait([future for future in begun.values() if not future.cancel()])


def announced_pixels(encoding: str, message: CompressedImage | Image) -> int:
    """Return the pixels that an image's header tells; 0 for one that cannot be decoded."""
    if encoding == RAW:
        return int(message.height * message.width)
    try:
        height, width = IMAGE_ENCODINGS.get(encoding).size(message.data)
    except ImageError:
        return 0
    return height * width


@cache
def _decoding_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_DECODING_THREADS, thread_name_prefix="decode")


def _decode(image: EncodedImage) -> NDArray[Any]:
    try:
        if image.encoding == RAW:
            return image_from_message(image.message)
        if image.message.format != image.encoding:
            raise ImageError(f"format: found {image.message.format!r}, expected {image.encoding!r}")
        return IMAGE_ENCODINGS.get(image.encoding).decode(image.message.data)
    except ImageError as error:
        raise ImageError(f"{image.what}: {error}") from error
