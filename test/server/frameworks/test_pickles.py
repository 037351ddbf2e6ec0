# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Pickles of strangers: what they would call is named, never called; what is broken is refused in words."""

from __future__ import annotations

import builtins
import os
import pickle
import pickletools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.pickles import MAX_INSTRUCTIONS, Call, Name, read_pickle, to_numpy
from support.lerobot_messages import observation_pickle, wish_pickle

PROTOCOLS = (3, 4, 5)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


class Harmful:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> Any:
        return self._call


@given(PLAIN, st.sampled_from(PROTOCOLS))
def test_plain_values_are_read_as_the_standard_library_reads_them(value: Any, protocol: int):
    assert read_pickle(pickle.dumps(value, protocol)) == value


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 4, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(6, dtype=np.int64)[::-2],
        np.zeros((0, 3), np.float64),
        np.float32(1.5),
        np.int64(-7),
        np.bool_(True),
    ],
)
def test_numpy_s_arrays_and_numbers_keep_value_and_type(array: Any, protocol: int):
    found = to_numpy(read_pickle(pickle.dumps(array, protocol)))
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_a_pickle_would_run_is_not_run(tmp_path: Path, protocol: int):
    proof = tmp_path / "proof"
    harmful = pickle.dumps(Harmful(os.system, f"touch {proof}"), protocol)
    found = read_pickle(harmful)
    assert isinstance(found, Call)
    assert found.function.endswith(".system")
    assert found.arguments == (f"touch {proof}",)
    assert not proof.exists()
    with pytest.raises(WireError, match=r"found a call of posix.system, expected an array"):
        to_numpy(found)


def test_no_module_is_imported_for_a_name(monkeypatch: pytest.MonkeyPatch):
    def refuse(name: str, *_: Any, **__: Any) -> Any:
        raise AssertionError(f"imported {name}")

    data = b"\x80\x04\x8c\x09antigrav1\x8c\x04fly1\x93)R."
    monkeypatch.setattr(builtins, "__import__", refuse)
    found = read_pickle(data)
    monkeypatch.undo()
    assert found.function == "antigrav1.fly1"
    assert "antigrav1" not in sys.modules


def test_instructions_that_no_message_needs_are_refused_by_name():
    used = {
        info.name for data in (wish_pickle(), observation_pickle()) for info, _, _ in pickletools.genops(data)
    }
    for name, data in {
        "INST": b"(Nios\nsystem\n.",
        "OBJ": b"(cos\nsystem\no.",
        "PERSID": b"Pname\n.",
        "EXT1": b"\x82\x01.",
        "NEXT_BUFFER": b"\x80\x05\x97.",
        "FROZENSET": b"\x80\x04(\x91.",
        "INT": b"I5\n.",
        "DUP": b"\x80\x04N2.",
    }.items():
        assert name not in used
        with pytest.raises(WireError, match=f"pickle: found the instruction {name}, which no message needs"):
            read_pickle(data)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "cannot be read"),
        (b"\x80\x04N", "cannot be read"),
        (b"\x80\x04.", "cannot be read"),
        (b"\x80\x04e.", "cannot be read"),
        (b"\x80\x04h\x05.", "cannot be read"),
        (b"\x80\x04NR.", "cannot be read"),
        (b"\x80\x04K\x01)R.", "found a value of type int, expected Name"),
        (b"\x80\x04K\x01K\x02\x93.", "found a value of type int, expected str"),
        (b"\x80\x04}]Ns.", "found a value of type list, expected str"),
        (b"\x80\x04]Nb.", "found a value of type list, expected Call"),
        (b"\x80\x04}(N\x8c\x01au.", "found a value of type NoneType, expected str"),
    ],
)
def test_a_broken_pickle_is_refused_in_words(data: bytes, problem: str):
    with pytest.raises(WireError, match=problem):
        read_pickle(data)


def test_a_value_may_hold_itself_and_costs_no_more_than_its_bytes():
    loop: list[Any] = []
    loop.append(loop)
    found = read_pickle(pickle.dumps(loop))
    assert found[0] is found
    doubled: list[Any] = []
    for _ in range(60):  # 2**60 leaves, for whoever walks them
        doubled = [doubled, doubled]
    assert len(read_pickle(pickle.dumps(doubled))) == 2


def test_instructions_beyond_the_limit_are_not_carried_out():
    with pytest.raises(WireError, match=f"more than {MAX_INSTRUCTIONS} instructions"):
        read_pickle(b"\x80\x04" + b"N" * MAX_INSTRUCTIONS + b".")


@pytest.mark.parametrize("kind", ["|O", "|V8", "<U3", "M8[s]"])
def test_arrays_of_other_types_are_refused(kind: str):
    data = pickle.dumps(np.zeros(2, kind))
    with pytest.raises(WireError):
        to_numpy(read_pickle(data))


def test_an_array_whose_data_do_not_fill_its_shape_is_refused():
    whole = read_pickle(pickle.dumps(np.arange(8, dtype=np.uint8)))
    version, _, dtype, order, data = whole.state
    whole.state = (version, (1 << 40,), dtype, order, data)
    with pytest.raises(WireError, match="elements at most"):
        to_numpy(whole)
    whole.state = (version, (9,), dtype, order, data)
    with pytest.raises(WireError, match="found 8 bytes of data, expected 9"):
        to_numpy(whole)


def test_a_name_alone_is_no_value_of_anything():
    assert read_pickle(pickle.dumps(os.system)) == Name("posix.system")
