# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Orientations in the forms in which policies say them, and as quaternions x, y, z, w, as ROS has them.

Six numbers are two orthogonal unit vectors of the rotation matrix, made so by Gram-Schmidt, as in Zhou et al.
2019, *On the Continuity of Rotation Representations in Neural Networks*, arXiv:1812.07035, whose vectors are
columns. PyTorch3D, Diffusion Policy and UMI take rows, and then the same numbers are the inverse: only the
code with which a policy was trained says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.documents.registry import Registry

LEAST = 1e-6  # length of a vector that has a direction
NOISE = 0.1  # length of a policy's vector that has none: of a trained one it is about 1

Float64Array: TypeAlias = NDArray[np.float64]
Convert: TypeAlias = Callable[[Float64Array], Float64Array]


@dataclass(frozen=True)
class RotationForm:
    """A form of `width` numbers `[n, width]`, each from -most to most.

    to_quaternions: returns `[n, 4]` of length 1, or 0 where the numbers say no orientation. of_quaternions:
    takes them of any length and sign, and returns NaN where one says no orientation.
    """

    width: int
    most: float
    unit: str  # of each number; empty: none
    to_quaternions: Convert
    of_quaternions: Convert


def _unit(vectors: Float64Array, least: float = LEAST) -> Float64Array:
    """Return vectors `[n, width]` of length 1, and zeros for those that are shorter than the least."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Float64Array = np.where(lengths < least, 0.0, vectors / np.maximum(lengths, least))
    return found


def _upper(quaternions: Float64Array) -> Float64Array:
    """Return quaternions `[n, 4]` of length 1 with w >= 0, and NaN for those that say no orientation."""
    found = _unit(quaternions)
    found = np.where(found[:, 3:] < 0.0, -found, found)
    return np.where(found.any(axis=1, keepdims=True), found, np.nan)


def _of_rotation_vectors(vectors: Float64Array) -> Float64Array:
    half = 0.5 * np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.concatenate([0.5 * np.sinc(half / np.pi) * vectors, np.cos(half)], axis=1)


def _to_rotation_vectors(quaternions: Float64Array) -> Float64Array:
    """Return rotation vectors `[n, 3]` no longer than pi."""
    found = _upper(quaternions)
    sine = np.linalg.norm(found[:, :3], axis=1, keepdims=True)
    angle = 2.0 * np.arctan2(sine, found[:, 3:])
    vectors: Float64Array = found[:, :3] * np.where(sine < LEAST, 2.0, angle / np.maximum(sine, LEAST))
    return vectors


def _of_roll_pitch_yaw(angles: Float64Array) -> Float64Array:
    (sr, sp, sy), (cr, cp, cy) = np.sin(0.5 * angles).T, np.cos(0.5 * angles).T
    return np.stack(
        [
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
            cr * cp * cy + sr * sp * sy,
        ],
        axis=1,
    )


def _to_roll_pitch_yaw(quaternions: Float64Array) -> Float64Array:
    """Return angles `[n, 3]`; at a pitch of 90 degrees, where only one of roll and yaw counts, roll is 0."""
    matrices = _matrices(_upper(quaternions))
    flat = np.hypot(matrices[:, 0, 0], matrices[:, 1, 0])
    pitch = np.arctan2(-matrices[:, 2, 0], flat)
    is_level = flat < LEAST
    roll = np.where(is_level, 0.0, np.arctan2(matrices[:, 2, 1], matrices[:, 2, 2]))
    yaw = np.where(
        is_level,
        np.arctan2(-matrices[:, 0, 1], matrices[:, 1, 1]),
        np.arctan2(matrices[:, 1, 0], matrices[:, 0, 0]),
    )
    return np.stack([np.where(np.isnan(pitch), np.nan, roll), pitch, yaw], axis=1)


def _of_two_rows(numbers: Float64Array) -> Float64Array:
    first = _unit(numbers[:, :3], NOISE)
    across = numbers[:, 3:] - np.sum(first * numbers[:, 3:], axis=1, keepdims=True) * first
    second = _unit(across, NOISE)
    matrices = np.stack([first, second, np.cross(first, second)], axis=1)
    is_whole = first.any(axis=1, keepdims=True) & second.any(axis=1, keepdims=True)
    return np.where(is_whole, _quaternions(matrices), 0.0)


def _to_two_rows(quaternions: Float64Array) -> Float64Array:
    rows: Float64Array = _matrices(_upper(quaternions))[:, :2].reshape(-1, 6)
    return rows


def _matrices(quaternions: Float64Array) -> Float64Array:
    """Return rotation matrices `[n, 3, 3]` of unit quaternions `[n, 4]`."""
    x, y, z, w = quaternions.T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
        [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
        [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def _quaternions(matrices: Float64Array) -> Float64Array:
    """Return unit quaternions `[n, 4]` of rotation matrices `[n, 3, 3]`, by Shepperd's method.

    Each row of q qT is q times one of its numbers; the longest of the four loses no digits.
    """
    m = matrices
    trace = np.trace(m, axis1=1, axis2=2)
    products = np.empty((len(m), 4, 4))
    for one in range(3):
        products[:, one, one] = 1.0 + 2.0 * m[:, one, one] - trace
        for other in range(one):
            products[:, one, other] = products[:, other, one] = m[:, one, other] + m[:, other, one]
        before, after = (one + 1) % 3, (one + 2) % 3
        products[:, one, 3] = products[:, 3, one] = m[:, after, before] - m[:, before, after]
    products[:, 3, 3] = 1.0 + trace
    longest = np.argmax(np.einsum("nii->ni", products), axis=1)
    return _unit(products[np.arange(len(m)), longest])


ROTATION_FORMS = Registry[RotationForm]("form of a rotation")
ROTATION_FORMS.add(
    "rotation_vector", RotationForm(3, math.pi, "rad", _of_rotation_vectors, _to_rotation_vectors)
)
ROTATION_FORMS.add("roll_pitch_yaw", RotationForm(3, math.pi, "rad", _of_roll_pitch_yaw, _to_roll_pitch_yaw))
ROTATION_FORMS.add("rotation_6d_rows", RotationForm(6, 1.0, "", _of_two_rows, _to_two_rows))
INVERSE = np.array([-1.0, -1.0, -1.0, 1.0])  # the columns of a rotation are the rows of its inverse
ROTATION_FORMS.add(
    "rotation_6d_columns",
    RotationForm(6, 1.0, "", lambda n: _of_two_rows(n) * INVERSE, lambda q: _to_two_rows(q * INVERSE)),
)
