# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Arrays in msgpack, in the bytes of each program that writes them: the openpi and the GR00T end read all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from remote_inference.base.policy import PolicyError
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks import openpi
from remote_inference.server.policies.remote import gr00t
from remote_inference.server.policies.remote.policy import require_actions

ROWS = np.array([[0.5, -1.0], [2.0, 0.0]], np.float32)
# {"actions": ROWS} as each writes it.
ANSWERS = {
    "openpi-client 0.1.2": (
        "81a7616374696f6e7384c40b5f5f6e6461727261795f5fc3c40464617461c4100000003f000080bf0000004000000000c405"
        "6474797065a33c6634c4057368617065920202"
    ),
    "msgpack-numpy 0.4.8": (
        "81a7616374696f6e7385c4026e64c3c40474797065a33c6634c4046b696e64c400c4057368617065920202c40464617461c4"
        "100000003f000080bf0000004000000000"
    ),
    "vLLM-Omni before its #4506": (
        "81a7616374696f6e7385a26e64c3a474797065a33c6634a46b696e64a166a57368617065920202a464617461c4100000003f"
        "000080bf0000004000000000"
    ),
    "lists": (
        "81a7616374696f6e739292cb3fe0000000000000cbbff000000000000092cb4000000000000000cb0000000000000000"
    ),
}
# Further values of msgpack-numpy 0.4.8.
VALUES = {
    "transposed": (
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
        "85c4026e64c3c40474797065a37c7531c4046b696e64c400c4057368617065920302c40464617461c406000301040205",
    ),
    "numbers": (
        [np.float32(0.5), np.int64(-3), np.bool_(True), np.float64(0.25)],
        "9483c4026e64c2c40474797065a33c6634c40464617461c4040000003f83c4026e64c2c40474797065a33c6938c404646174"
        "61c408fdffffffffffffff83c4026e64c2c40474797065a37c6231c40464617461c40101cb3fd0000000000000",
    ),
    "array of no dimension": (
        np.array(7, np.int16),
        "85c4026e64c3c40474797065a33c6932c4046b696e64c400c405736861706590c40464617461c4020700",
    ),
    "empty array": (
        np.empty((0, 3)),
        "85c4026e64c3c40474797065a33c6638c4046b696e64c400c4057368617065920003c40464617461c400",
    ),
}

each_end = pytest.mark.parametrize("unpack", [openpi.unpack, gr00t.unpack], ids=["openpi", "gr00t"])
Unpack = Callable[[bytes], Any]


@each_end
@pytest.mark.parametrize("frame", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_read_in_the_bytes_of_each_peer(frame: str, unpack: Unpack):
    rows = require_actions("a server", unpack(bytes.fromhex(frame))["actions"], ROWS.shape)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, ROWS)


@each_end
@pytest.mark.parametrize(("value", "frame"), VALUES.values(), ids=VALUES)
def test_a_value_of_msgpack_numpy_is_read_as_it_was(value: Any, frame: str, unpack: Unpack):
    read = unpack(bytes.fromhex(frame))
    np.testing.assert_equal(read, value)
    assert np.asarray(read).dtype == np.asarray(value).dtype


@each_end
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"type": [["a", "<f4"]], "kind": b"V"}, "dtype: found a value of type list"),
        ({"type": "|O", "kind": b"O"}, r"dtype: found '\|O', expected one of"),
        ({"shape": [3]}, "found 8 bytes of data, expected 12 for shape"),
        ({"nd": False}, "found 8 bytes of data, expected 4 for shape"),
    ],
)
def test_what_could_harm_the_reader_is_refused(changes: dict[str, Any], problem: str, unpack: Unpack):
    fields = {"nd": True, "type": "<f4", "kind": b"", "shape": [2], "data": bytes(8), **changes}
    with pytest.raises(WireError, match=problem):
        unpack(msgpack.packb({"a": {key.encode(): value for key, value in fields.items()}}))


@each_end
def test_a_map_that_only_has_a_key_of_that_name_stays_a_map(unpack: Unpack):
    plain = {"a": {"nd": True, "type": "lidar"}, "b": {"nd": 2, "type": "x", "data": b""}}
    assert unpack(msgpack.packb(plain)) == plain


def test_a_gr00t_server_of_n1_7_describes_its_modalities_by_another_word():
    data = msgpack.packb({"video": {"__ModalityConfig__": True, "as_json": {"delta_indices": [0]}}})
    assert gr00t.unpack(data) == {"video": {"delta_indices": [0]}}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([[0.0], [0.0, 1.0]], "found lists of several lengths, or of what is no number, expected an array"),
        (
            [["a", "b"], ["c", "d"]],
            "found lists of several lengths, or of what is no number, expected an array",
        ),
        ([[True, False], [True, True]], "found bool, expected floating-point numbers"),
        ([[0.0, 1.0]], r"found shape \[1, 2\], expected \[2, 2\]"),
        ([], r"found shape \[0\], expected \[2, 2\]"),
    ],
)
def test_lists_that_are_no_chunk_are_refused(rows: Any, problem: str):
    with pytest.raises(PolicyError, match=problem):
        require_actions("a server", rows, (2, 2))


def test_whole_numbers_in_lists_are_numbers():
    """As JavaScript writes 0.0."""
    np.testing.assert_array_equal(require_actions("a server", [[0, 1], [2, 3]], (2, 2)), [[0, 1], [2, 3]])
