# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the trainers and servers of these tests have: tensors of several types, larger than a message."""

from __future__ import annotations

import numpy as np

DEADLINE_S = 60.0
SHAPES = {"encoder": (900, 1000), "head.weight": (3, 5, 7), "head.bias": (7,), "scale": ()}

Tensors = dict[str, np.ndarray]


def make_tensors(seed: int = 0) -> Tensors:
    random = np.random.default_rng(seed)
    made = {name: random.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    return made | {"steps": random.integers(0, 1000, 4, np.int64)}


def change(tensors: Tensors, share: float, random: np.random.Generator) -> None:
    """Give a share of all values others, in place."""
    for tensor in tensors.values():
        flat = tensor.reshape(-1)
        where = np.flatnonzero(random.random(flat.size) < share)
        flat[where] = (1000.0 * random.standard_normal(where.size)).astype(flat.dtype)
