# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""GR00T's messages: what is written is read again, and what could harm the reader is refused in words."""

from __future__ import annotations

import io
from typing import Any

import msgpack
import numpy as np
import pytest

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.policies.remote.gr00t import pack, unpack


def message(npy: Any) -> bytes:
    return msgpack.packb({"__ndarray_class__": True, "as_npy": npy})


def npy_of(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(1, 2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.zeros((0, 3), np.uint8),
        np.array(3.0, np.float32),
    ],
    ids=["rows", "fortran", "empty", "scalar"],
)
def test_arrays_are_read_as_they_were_written(array: np.ndarray):
    found = unpack(pack({"a": [array]}))["a"][0]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


def test_a_modality_configuration_is_read_as_its_map():
    data = msgpack.packb({"video": {"__ModalityConfig_class__": True, "as_json": {"delta_indices": [0]}}})
    assert unpack(data) == {"video": {"delta_indices": [0]}}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (message(npy_of(np.array([{}], object))), r"dtype: found '\|O'"),
        (message(npy_of(np.zeros(3))[:-1]), "found 23 bytes of data, expected 24"),
        (message(header("{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 60,), }")), "no header"),
        (
            message(header("{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999,), }")),
            "found 0 by",
        ),
        (message(header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 0), }")), "found 0 bytes"),
        (message(header("{'descr': '<f8'")), "no header"),
        (message(b""), "no header"),
        (message(None), "as_npy: found a value of type NoneType"),
        (b"\xc1", "not msgpack"),
        (b"ERROR", "not msgpack"),
        (msgpack.packb(msgpack.ExtType(1, b"x")), "not msgpack"),
        (b"\x91" * 2000 + b"\xc0", "not msgpack"),
    ],
)
def test_what_could_harm_the_reader_is_refused(data: bytes, problem: str):
    with pytest.raises(WireError, match=problem):
        unpack(data)


@pytest.mark.parametrize("value", [np.array([{}], object), object(), np.zeros(1, complex)])
def test_what_the_wire_does_not_carry_is_not_written(value: Any):
    with pytest.raises(WireError, match="cannot be written"):
        pack(value)
