# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Errors of predicted actions by joint and by row of the chunk, summed up without keeping them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.recording.timeline.joint_records import FloatArray

QUANTILE = 0.95
# Errors are counted in classes whose bounds grow by RATIO, so that a quantile is exact to 1 % at any unit.
RATIO = 1.01
SMALLEST = 1e-9
LARGEST = 1e6  # what is larger counts as this in a quantile
CLASSES = 3_500


@dataclass(frozen=True)
class JointErrors:
    """The errors of one joint, in its unit."""

    name: str
    unit: str
    mean_abs: float
    rms: float
    p95: float  # of the absolute error, exact to 1 %
    max: float
    mean_abs_by_row: tuple[float, ...]  # NaN where no row was compared

    def to_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {**vars(self), "mean_abs_by_row": list(self.mean_abs_by_row)}


class ErrorSums:
    """Takes the errors of chunks, any number of them."""

    def __init__(self, names: Sequence[str], units: Sequence[str], chunk_size: int) -> None:
        """names, units: of the actions [action_dim]. chunk_size: rows of a chunk."""
        self._names = tuple(names)
        self._units = tuple(units)
        dim = len(self._names)
        self._rows = np.zeros(chunk_size, np.int64)
        self._absolute = np.zeros((chunk_size, dim))
        self._square = np.zeros(dim)
        self._largest = np.zeros(dim)
        self._classes = np.zeros((dim, CLASSES), np.int64)

    @property
    def rows(self) -> int:
        """Rows that were compared."""
        return int(self._rows.sum())

    def add(self, rows: Sequence[int], predicted: FloatArray, expected: FloatArray) -> None:
        """Take rows of one chunk: their places in it, and both values `[len(rows), action_dim]`."""
        places = np.asarray(rows, np.intp)
        if not len(places):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.abs(np.asarray(predicted, np.float64) - np.asarray(expected, np.float64))
            self._sum_up(places, errors)

    def _sum_up(self, places: NDArray[np.intp], errors: FloatArray) -> None:
        self._rows[places] += 1
        self._absolute[places] += errors
        self._square += (errors**2).sum(axis=0)
        self._largest = np.maximum(self._largest, errors.max(axis=0))
        counted = np.clip(np.nan_to_num(errors, nan=LARGEST), SMALLEST, LARGEST)
        classes = (np.log(counted / SMALLEST) / np.log(RATIO)).astype(np.intp)
        for joint in range(errors.shape[1]):
            self._classes[joint] += np.bincount(classes[:, joint], minlength=CLASSES)

    def mean_abs(self, rows: int) -> FloatArray:
        """Return the mean absolute errors `[action_dim]` of the first rows of the chunks; NaN without any."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._absolute[:rows].sum(axis=0) / self._rows[:rows].sum(), np.float64)

    def by_joint(self) -> tuple[JointErrors, ...]:
        """Return the errors of each joint; none when no row was compared."""
        if not self.rows:
            return ()
        with np.errstate(invalid="ignore"):
            by_row = self._absolute / self._rows[:, np.newaxis]
        return tuple(
            JointErrors(
                name,
                unit,
                float(self._absolute[:, joint].sum() / self.rows),
                float(np.sqrt(self._square[joint] / self.rows)),
                self._quantile(joint),
                float(self._largest[joint]),
                tuple(by_row[:, joint].tolist()),
            )
            for joint, (name, unit) in enumerate(zip(self._names, self._units, strict=True))
        )

    def _quantile(self, joint: int) -> float:
        counts = np.cumsum(self._classes[joint])
        place = int(np.searchsorted(counts, QUANTILE * counts[-1]))
        if place == 0:
            return 0.0
        return float(min(SMALLEST * RATIO ** (place + 0.5), self._largest[joint]))
