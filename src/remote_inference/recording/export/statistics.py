# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of a data set's features, as LeRobot's `meta/stats.json` holds them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_IMAGE_SIDE_PX = 150  # images are thinned out to about this size
_LEVELS = 256


class VectorStatistics:
    """Statistics of a feature `[dim]` over all frames, exact: its values are kept, as float32."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.float32]] = []

    def add(self, rows: NDArray[Any]) -> None:
        """Take frames `[n, dim]`."""
        self._parts.append(rows.astype(np.float32))

    def as_json(self) -> dict[str, Any]:
        """Return min, max, mean, std and quantiles `[dim]`, and the count `[1]`."""
        columns = [np.concatenate(column) for column in zip(*(part.T for part in self._parts), strict=True)]
        wide = [column.astype(np.float64) for column in columns]
        statistics = {
            "min": [float(column.min()) for column in wide],
            "max": [float(column.max()) for column in wide],
            "mean": [float(column.mean()) for column in wide],
            "std": [float(column.std()) for column in wide],
            "count": [len(wide[0])],
        }
        quantiles = [np.quantile(column, list(QUANTILES.values())) for column in wide]
        return statistics | {
            name: [float(values[place]) for values in quantiles] for place, name in enumerate(QUANTILES)
        }


class ImageStatistics:
    """Statistics of a camera over some frames: how often each level occurs in each channel."""

    def __init__(self) -> None:
        self._counts = np.zeros((3, _LEVELS), np.int64)
        self._images = 0

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Take an image `[height, width, 3]`."""
        step = max(1, max(rgb.shape[:2]) // _IMAGE_SIDE_PX)
        for channel in range(3):
            levels = rgb[::step, ::step, channel].ravel()
            self._counts[channel] += np.bincount(levels, minlength=_LEVELS)
        self._images += 1

    def as_json(self) -> dict[str, Any]:
        """Return min, max, mean, std and quantiles `[3, 1, 1]` of levels from 0 to 1, and the count `[1]`."""
        levels = np.arange(_LEVELS) / (_LEVELS - 1)
        shares = self._counts / self._counts.sum(axis=1, keepdims=True)
        mean = shares @ levels
        rises = shares.cumsum(axis=1)
        present = self._counts > 0
        statistics = {
            "min": levels[present.argmax(axis=1)],
            "max": levels[_LEVELS - 1 - present[:, ::-1].argmax(axis=1)],
            "mean": mean,
            "std": np.sqrt(np.maximum(0.0, shares @ levels**2 - mean**2)),
        }
        for name, share in QUANTILES.items():
            # The rounding of a sum of shares must not step over the level in question.
            statistics[name] = levels[(rises >= share - 1e-12).argmax(axis=1)]
        shaped = {name: [[[float(value)]] for value in values] for name, values in statistics.items()}
        return {**shaped, "count": [self._images]}
