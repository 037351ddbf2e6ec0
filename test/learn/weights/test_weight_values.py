# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Values as bits: conversions are torch's, and what cannot be served is found."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, strategies as st

from remote_inference.learn.weights import WeightReceiver
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import (
    DTYPES,
    TensorSpec,
    check_values,
    convert,
    copy_as,
    describe,
    entries_digest,
    find_difference,
    state_digest,
    table_from_list,
    table_to_list,
)
from support.weights.weight_models import handled_as_in, view

FLOATS = [name for name, dtype in DTYPES.items() if dtype.is_floating]


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
@given(seed=st.integers(0, 2**32))
@example(seed=5037246)  # a double that float16 and float32 round apart
def test_conversions_round_as_torch_does(source: str, target: str, seed: int):
    bits = np.frombuffer(np.random.default_rng(seed).bytes(8 * 300), DTYPES[source].bits)
    tensor = torch.from_numpy(bits.copy().view(np.uint8)).view(getattr(torch, source))
    found = convert(bits, DTYPES[source], DTYPES[target])
    expected = view({"t": tensor.to(getattr(torch, target))})["t"]
    is_number = ~torch.isnan(tensor).numpy()
    assert np.array_equal(found[is_number], expected[is_number])
    nan = torch.from_numpy(found[~is_number].copy().view(np.uint8)).view(getattr(torch, target))
    assert torch.isnan(nan).all()


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
@given(seed=st.integers(0, 2**32))
def test_what_has_travelled_once_travels_unchanged(source: str, target: str, seed: int):
    """A bucket's type rounds once: both ends have the same bits after any number of transfers."""
    bits = np.frombuffer(np.random.default_rng(seed).bytes(8 * 300), DTYPES[source].bits)
    back = [DTYPES[source], DTYPES[target], DTYPES[source]]
    once = convert(convert(bits, back[0], back[1]), back[1], back[2])
    twice = convert(convert(once, back[0], back[1]), back[1], back[2])
    assert np.array_equal(once, twice)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_values_that_are_not_finite_are_found(dtype: str, value: float):
    tensor = torch.zeros(9, dtype=getattr(torch, dtype))
    tensor[4] = value
    bits = view({"t": tensor})["t"]
    with pytest.raises(WeightsError, match="t: found 1 values that are not finite") as caught:
        check_values(bits, DTYPES[dtype], "t", allow_nonfinite=False)
    assert caught.value.reason is Reason.VALUES
    check_values(bits, DTYPES[dtype], "t", allow_nonfinite=True)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_number_is_finite(dtype: str):
    tensor = torch.tensor([torch.finfo(getattr(torch, dtype)).max, -0.0], dtype=getattr(torch, dtype))
    check_values(view({"t": tensor})["t"], DTYPES[dtype], "t", allow_nonfinite=False)


def test_a_bool_is_true_or_false():
    with pytest.raises(WeightsError, match="found a bool of 2"):
        check_values(np.array([0, 1, 2], np.uint8), DTYPES["bool"], "t", allow_nonfinite=True)


def test_numpy_and_torch_are_seen_alike():
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.array(True), "c": np.arange(3)}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    assert describe(arrays) == describe(tensors)
    for name, bits in view(arrays).items():
        assert np.array_equal(bits, view(tensors)[name])


def test_what_is_written_to_the_bits_is_in_the_tensor():
    tensor = torch.zeros(2, 2, dtype=torch.bfloat16)
    view({"t": tensor})["t"][3] = 0x3F80
    assert tensor[1, 1] == 1.0


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.zeros(4, 4).t(), "not contiguous"),
        (np.zeros((4, 4)).T, "not contiguous"),
        (np.frombuffer(bytes(8), np.float32), "read-only"),
        (np.zeros(2, ">f4"), "found '>f4'"),
        (torch.zeros(2, device="meta"), "on meta"),
        (torch.zeros(2, dtype=torch.complex64), "found 'complex64'"),
    ],
)
def test_tensors_that_cannot_be_changed_in_place_are_refused(tensor, words: str):
    with pytest.raises(WeightsError, match=words):
        WeightReceiver({"t": tensor})


def test_a_tensor_of_a_gpu_that_is_not_contiguous_is_refused():
    with handled_as_in("device code"), pytest.raises(WeightsError, match="t: its memory is not contiguous"):
        WeightReceiver({"t": torch.zeros(4, 4).t()})


def test_a_trainer_s_tensor_is_copied_in_the_server_s_type():
    spec = TensorSpec("t", DTYPES["bfloat16"], (3, 2))
    tensor = torch.randn(2, 3, requires_grad=True).t()
    bits = copy_as(tensor, spec)
    assert np.array_equal(bits, view({"t": tensor.detach().bfloat16().contiguous()})["t"])
    own = torch.zeros(3, 2, dtype=torch.bfloat16)
    copy_as(own, spec)[:] = 7
    assert (own == 0).all()


@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_only_floating_point_numbers_change_their_type(dtype: str):
    with pytest.raises(WeightsError, match=f"t: found float32, expected {dtype}"):
        copy_as(torch.zeros(3), TensorSpec("t", DTYPES[dtype], (3,)))


def test_differences_of_tables_are_named():
    table = describe({"a": torch.zeros(2), "b": torch.zeros(3)})
    assert find_difference(table, table) == ""
    assert table_from_list(table_to_list(table)) == table
    for other, words in (
        ({"a": torch.zeros(2)}, "'b': missing"),
        ({"a": torch.zeros(3), "b": torch.zeros(3)}, "'a': found shape (3,), expected (2,)"),
        ({"a": torch.zeros(2), "b": torch.zeros(3).half()}, "'b': found float16, expected float32"),
        ({"a": torch.zeros(2), "b": torch.zeros(3), "c": torch.zeros(1)}, "'c': not part of this model"),
    ):
        assert find_difference(describe(other), table).replace('"', "'") == words


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@given(seed=st.integers(0, 2**32))
def test_any_changed_bit_changes_the_digest(dtype: str, seed: int):
    random = np.random.default_rng(seed)
    bits = np.frombuffer(random.bytes(160), DTYPES[dtype].bits).copy()
    spec = TensorSpec("t", DTYPES[dtype], bits.shape)
    before = state_digest([(spec, bits)])
    place, bit = random.integers(bits.size), random.integers(8 * bits.itemsize)
    bits[place] ^= bits.dtype.type(1 << int(bit))
    assert state_digest([(spec, bits)]) != before


def test_exchanged_values_and_tensors_change_the_digest():
    specs = [TensorSpec(name, DTYPES["int8"], (2,)) for name in ("a", "b")]
    first, second = np.array([1, 2], np.uint8), np.array([2, 1], np.uint8)
    digests = {
        state_digest(zip(specs, pair, strict=True))
        for pair in ((first, second), (second, first), (first, first), (second, second))
    }
    assert len(digests) == 4


def test_the_digest_follows_from_the_one_before():
    random = np.random.default_rng(0)
    before, after = random.integers(0, 99, (2, 200_000)).astype(np.uint16)
    spec = TensorSpec("t", DTYPES["float16"], before.shape)
    places = np.flatnonzero(before != after)
    step = entries_digest(spec, places, after[places]) - entries_digest(spec, places, before[places])
    whole = state_digest([(spec, before)])
    assert (whole + step) % 2**64 == state_digest([(spec, after)])
