# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Forms of an orientation: known rotations, there and back, and numbers that say none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from remote_inference.base.rotations import ROTATION_FORMS

HALF = math.sqrt(0.5)
QUARTER = math.pi / 2
# A quarter turn about z, whose matrix has the rows (0 -1 0), (1 0 0), (0 0 1); then one about x.
ABOUT_Z = [0.0, 0.0, HALF, HALF]
ABOUT_X = [HALF, 0.0, 0.0, HALF]
KNOWN = [
    ("rotation_vector", ABOUT_Z, [0.0, 0.0, QUARTER]),
    ("rotation_vector", ABOUT_X, [QUARTER, 0.0, 0.0]),
    ("roll_pitch_yaw", ABOUT_Z, [0.0, 0.0, QUARTER]),
    ("roll_pitch_yaw", ABOUT_X, [QUARTER, 0.0, 0.0]),
    ("roll_pitch_yaw", [0.5, 0.5, 0.5, 0.5], [QUARTER, 0.0, QUARTER]),  # x to y to z: roll first, then yaw
    ("rotation_6d_rows", ABOUT_Z, [0.0, -1.0, 0.0, 1.0, 0.0, 0.0]),
    ("rotation_6d_rows", ABOUT_X, [1.0, 0.0, 0.0, 0.0, 0.0, -1.0]),
    ("rotation_6d_columns", ABOUT_Z, [0.0, 1.0, 0.0, -1.0, 0.0, 0.0]),
    ("rotation_6d_columns", ABOUT_X, [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
]
FORMS = ROTATION_FORMS.names
number = st.floats(-1.0, 1.0, allow_subnormal=False)
vectors = st.tuples(number, number, number).filter(lambda vector: math.hypot(*vector) > 1e-3)
quaternions = st.tuples(number, number, number, number).filter(lambda q: math.hypot(*q) > 0.1)


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """Return how far two unit quaternions are from the same orientation."""
    return float(min(np.abs(one - other).max(), np.abs(one + other).max()))


@pytest.mark.parametrize(("name", "quaternion", "numbers"), KNOWN)
def test_a_known_rotation_has_the_numbers_of_the_books(
    name: str, quaternion: list[float], numbers: list[float]
):
    form = ROTATION_FORMS.get(name)
    np.testing.assert_allclose(form.of_quaternions(np.array([quaternion]))[0], numbers, atol=1e-12)
    assert apart(form.to_quaternions(np.array([numbers]))[0], np.array(quaternion)) < 1e-12


@pytest.mark.parametrize("name", FORMS)
@given(quaternion=quaternions, length=st.floats(0.2, 5.0))
def test_there_and_back_is_the_same_orientation(name: str, quaternion: tuple[float, ...], length: float):
    form = ROTATION_FORMS.get(name)
    unit = np.array(quaternion) / np.linalg.norm(quaternion)
    numbers = form.of_quaternions(np.array([length * unit, -unit]))
    if abs(unit[3]) > 1e-6:  # at half a turn an axis may point either way
        np.testing.assert_allclose(numbers[0], numbers[1], atol=1e-7)  # length and sign say nothing
    assert numbers.shape == (2, form.width)
    assert np.abs(numbers).max() <= form.most + 1e-12
    for found in form.to_quaternions(numbers):
        assert apart(found, unit) < 1e-7


@given(vector=vectors, scale=st.floats(0.2, 9.0))
def test_six_numbers_need_not_be_orthogonal_nor_of_length_one(vector: tuple[float, ...], scale: float):
    form = ROTATION_FORMS.get("rotation_6d_rows")
    quaternion = ROTATION_FORMS.get("rotation_vector").to_quaternions(np.array([vector]))
    rows = form.of_quaternions(quaternion)
    sheared = rows.copy()
    sheared[:, :3] *= scale
    sheared[:, 3:] += 0.5 * rows[:, :3]
    assert apart(form.to_quaternions(sheared)[0], quaternion[0]) < 1e-9


def test_rows_are_the_inverse_of_columns():
    numbers = np.array([[0.6, 0.8, 0.0, -0.8, 0.6, 0.0]])
    rows = ROTATION_FORMS.get("rotation_6d_rows").to_quaternions(numbers)[0]
    columns = ROTATION_FORMS.get("rotation_6d_columns").to_quaternions(numbers)[0]
    assert apart(rows * [-1.0, -1.0, -1.0, 1.0], columns) < 1e-12
    assert apart(rows, columns) > 0.1


@given(pitch=st.sampled_from([-QUARTER, QUARTER]), roll=st.floats(-3.0, 3.0), yaw=st.floats(-3.0, 3.0))
def test_straight_up_or_down_is_an_orientation_as_any_other(pitch: float, roll: float, yaw: float):
    form = ROTATION_FORMS.get("roll_pitch_yaw")
    quaternion = form.to_quaternions(np.array([[roll, pitch, yaw]]))
    numbers = form.of_quaternions(quaternion)
    assert apart(form.to_quaternions(numbers)[0], quaternion[0]) < 1e-5


@pytest.mark.parametrize("name", FORMS)
def test_a_quaternion_of_no_length_says_nothing(name: str):
    assert np.isnan(ROTATION_FORMS.get(name).of_quaternions(np.zeros((1, 4)))).all()


@pytest.mark.parametrize("name", ["rotation_6d_rows", "rotation_6d_columns"])
@pytest.mark.parametrize(
    "numbers", [[0.0] * 6, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 2.0, 0.0, -2.0, -4.0, 0.05]]
)
def test_six_numbers_without_a_plane_say_no_orientation(name: str, numbers: list[float]):
    assert not ROTATION_FORMS.get(name).to_quaternions(np.array([numbers])).any()


@given(quaternion=quaternions)
def test_a_rotation_vector_is_never_longer_than_half_a_turn(quaternion: tuple[float, ...]):
    (vector,) = ROTATION_FORMS.get("rotation_vector").of_quaternions(np.array([quaternion]))
    assume(np.isfinite(vector).all())
    assert np.linalg.norm(vector) <= math.pi + 1e-12
