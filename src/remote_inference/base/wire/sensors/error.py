# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every reader of sensors raises, and when a number is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.errors import cut_lines


class SensorError(ValueError):
    """A sensor message differs from the contract; the text names topic, what was found and expected."""

    def __init__(self, text: str) -> None:
        super().__init__(cut_lines(text))


def find_non_finite(names: Sequence[str], values: NDArray[np.float64]) -> str:
    """Return which of the values `[n]` are not finite, by their names, or an empty string."""
    if np.isfinite(values).all():
        return ""
    pairs = zip(names, values, strict=True)
    odd = [f"{name} = {value}" for name, value in pairs if not np.isfinite(value)]
    return f"found {', '.join(odd)}, expected finite values"
