# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Statistics of a feature, as LeRobot takes them of an episode and makes those of a data set out of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Statistics = dict[str, NDArray[Any]]  # min, max, mean, std and quantiles by name; count `[1]`
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_IMAGE_SIDE_PX = 150  # images are thinned out to about this size
_LEVELS = np.arange(256) / 255
_KEPT_IMAGES = 4096  # of an episode, at 3 kB each


def vector_statistics(rows: NDArray[Any]) -> Statistics:
    """Return the statistics `[dim]` of an episode's frames `[n, dim]` or, with a dim of 1, `[n]`."""
    wide = rows.reshape(len(rows), -1).astype(np.float64)
    found: Statistics = {name: getattr(wide, name)(axis=0) for name in ("min", "max", "mean", "std")}
    quantiles = np.quantile(wide, list(QUANTILES.values()), axis=0, method="inverted_cdf")
    return found | {"count": np.array([len(wide)]), **dict(zip(QUANTILES, quantiles, strict=True))}


def combine(first: Statistics | None, second: Statistics) -> Statistics:
    """Return the statistics of both's frames; quantiles are weighted means, as LeRobot 0.6 has them."""
    if first is None:
        return second
    count = first["count"] + second["count"]
    share = second["count"] / count
    rises = {name: second[name] - first[name] for name in first}
    variance = (1 - share) * (first["std"] ** 2 + share * rises["mean"] ** 2) + share * second["std"] ** 2
    return {name: first[name] + share * rise for name, rise in rises.items()} | {
        "min": np.minimum(first["min"], second["min"]),
        "max": np.maximum(first["max"], second["max"]),
        "std": np.sqrt(variance),
        "count": count,
    }


class ImageStatistics:
    """Statistics of a camera over an episode, from the images that LeRobot samples: its end decides which.

    Kept is how often each level occurs in an image; in a long episode of each second, fourth ... image.
    """

    def __init__(self) -> None:
        self._kept: list[NDArray[np.uint32]] = []  # `[3, 256]` of each
        self._images, self._every = 0, 1

    def add(self, rgb: NDArray[np.uint8]) -> None:
        """Add an image `[height, width, 3]`."""
        if self._images % self._every == 0:
            step = max(1, max(rgb.shape[:2]) // _IMAGE_SIDE_PX)
            channels = rgb[::step, ::step].reshape(-1, 3).T
            self._kept.append(np.array([np.bincount(one, minlength=256) for one in channels], np.uint32))
        self._images += 1
        if len(self._kept) > _KEPT_IMAGES:
            self._kept, self._every = self._kept[::2], 2 * self._every

    def result(self) -> Statistics:
        """Return the statistics `[3, 1, 1]` of levels from 0 to 1, and how many images were sampled."""
        samples = max(min(100, self._images), min(int(self._images**0.75), 10_000))
        places = np.linspace(0, self._images - 1, samples).round().astype(int) // self._every
        counts = np.sum([self._kept[place] for place in places], axis=0)
        reached, total = counts.cumsum(axis=1), counts[0].sum()
        found = {"mean": counts @ _LEVELS / total, "min": _LEVELS[(counts > 0).argmax(axis=1)]}
        found["std"] = np.sqrt(np.maximum(0.0, counts @ _LEVELS**2 / total - found["mean"] ** 2))
        for name, share in {"max": 1.0, **QUANTILES}.items():
            found[name] = _LEVELS[(reached >= share * total).argmax(axis=1)]
        shaped: Statistics = {name: values.reshape(3, 1, 1) for name, values in found.items()}
        return shaped | {"count": np.array([samples])}
