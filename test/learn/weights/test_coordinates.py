# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Places in a tensor travel as narrow steps, and come back as they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.learn.weights.patch import Coordinates, decode, encode
from remote_inference.learn.weights.reasons import WeightsError
from remote_inference.learn.weights.tensors import DTYPES, TensorSpec

STEPS = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


@st.composite
def places_in_matrices(draw):
    rows, columns = draw(st.integers(1, 400)), draw(st.integers(1, 400))
    share, seed = draw(st.sampled_from((0.0, 0.001, 0.1, 0.9, 1.0))), draw(st.integers(0, 2**32))
    return np.flatnonzero(np.random.default_rng(seed).random(rows * columns) < share), columns, rows * columns


@given(places_in_matrices())
def test_places_come_back_as_they_were(sample):
    places, columns, count = sample
    assert np.array_equal(decode(encode(places, columns), columns, count), places)


def test_places_beyond_four_billion_come_back():
    count = 3 << 40
    places = np.array([0, 1 << 33, (1 << 40) + 7, count - 1])
    assert np.array_equal(decode(encode(places, 1 << 40), 1 << 40, count), places)


@given(places_in_matrices())
def test_each_step_has_the_narrowest_type(sample):
    places, columns, _ = sample
    for steps in encode(places, columns):
        most = int(steps.max()) if steps.size else 0
        assert steps.dtype == next(kind for kind in STEPS.values() if most <= np.iinfo(kind).max)


def test_columns_are_steps_in_a_row_and_absolute_where_one_begins():
    found = encode(np.array([3, 5, 12, 19]), 10)
    assert [list(steps) for steps in found] == [[0, 1], [2, 2], [3, 2, 2, 7]]


@pytest.mark.parametrize(
    ("shape", "columns"), [((), 1), ((7,), 7), ((2, 3), 3), ((2, 3, 4), 12), ((2, 3, 4, 5), 60), ((3, 0), 0)]
)
def test_tensors_of_any_rank_are_seen_as_a_matrix(shape, columns):
    assert TensorSpec("t", DTYPES["float32"], shape).columns == columns


@pytest.mark.parametrize(
    ("rows", "counts", "columns", "words"),
    [
        ([0], [1], [100], "a column beyond its row"),
        ([0], [2], [9, 1], "a column beyond its row"),
        ([0], [2], [3, 0], "go back"),
        ([0, 0], [1, 1], [3, 2], "beyond its row"),
        ([10], [1], [0], "a row beyond"),
        ([0], [2], [1], "do not add up"),
        ([0, 1], [1, 0], [1], "do not add up"),
        ([], [], [1], "beyond the tensor"),
        ([0], [1], [], "rows without entries"),
        ([0, 1], [1, 1, 1], [0, 1, 2], "2 rows with 3 counts"),
        ([0], [1, 1], [0, 1], "1 rows with 2 counts"),
        ([2**63], [1], [0], "beyond the tensor"),
        ([0], [1], [2**64 - 1], "beyond the tensor"),
    ],
)
def test_places_outside_the_tensor_or_out_of_order_are_refused(rows, counts, columns, words):
    steps = (np.array(values, np.uint64) for values in (rows, counts, columns))
    with pytest.raises(WeightsError, match=words):
        decode(Coordinates(*steps), 10, 100)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 30), max_size=6), min_size=3, max_size=3))
def test_any_steps_decode_to_ascending_places_or_are_refused(steps):
    try:
        places = decode(Coordinates(*(np.array(values, np.uint64) for values in steps)), 10, 95)
    except WeightsError:
        return
    assert (np.diff(places) > 0).all()
    assert not places.size or 0 <= places[0] <= places[-1] < 95
