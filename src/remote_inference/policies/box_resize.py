# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Area resampling of camera images to the size a policy was trained at."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def box_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` resampled to channels-first `[3, height, width]`.

    Every output pixel is the mean of its area in the input; a border pixel counts by its part in the area.
    """
    image_height, image_width, channels = image.shape
    if (image_height, image_width) == (height, width):
        return np.ascontiguousarray(image.transpose(2, 0, 1))
    # The weights repeat gcd(size in, size out) times along an axis, so a small product per repeat suffices.
    row_repeats, column_repeats = math.gcd(image_height, height), math.gcd(image_width, width)
    pixels = image.astype(np.float32).reshape(
        row_repeats, image_height // row_repeats, image_width * channels
    )
    rows = _area_weights(image_height // row_repeats, height // row_repeats) @ pixels
    planes = np.ascontiguousarray(rows.reshape(height, image_width, channels).transpose(2, 0, 1))
    column_weights = _area_weights(image_width // column_repeats, width // column_repeats)
    resized = planes.reshape(-1, image_width // column_repeats) @ column_weights.T
    rounded: NDArray[np.uint8] = (resized + 0.5).astype(np.uint8)
    return rounded.reshape(channels, height, width)


def letterbox_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as `[3, height, width]` with its own proportions, in the middle of black."""
    image_height, image_width, channels = image.shape
    scale = min(height / image_height, width / image_width)
    inner_height, inner_width = (
        max(1, min(room, round(scale * side)))
        for room, side in ((height, image_height), (width, image_width))
    )
    boxed = np.zeros((channels, height, width), np.uint8)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    inner = box_resize(image, inner_height, inner_width)
    boxed[:, top : top + inner_height, left : left + inner_width] = inner
    return boxed


def crop_resize(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return RGB `[h, w, 3]` as `[3, height, width]`: the largest middle part of these proportions."""
    image_height, image_width, _ = image.shape
    scale = min(image_height / height, image_width / width)
    inner_height, inner_width = (
        max(1, min(side, round(scale * size)))
        for side, size in ((image_height, height), (image_width, width))
    )
    top, left = (image_height - inner_height) // 2, (image_width - inner_width) // 2
    return box_resize(image[top : top + inner_height, left : left + inner_width], height, width)


@lru_cache(maxsize=64)
def _area_weights(size_in: int, size_out: int) -> NDArray[np.float32]:
    """Return the weights `[size_out, size_in]` of input pixels in output pixels; every row sums to 1."""
    edges = np.arange(size_out + 1) * (size_in / size_out)
    pixel = np.arange(size_in)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    weights: NDArray[np.float32] = (np.clip(covered, 0.0, None) * (size_out / size_in)).astype(np.float32)
    return weights
