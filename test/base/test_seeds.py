# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Seeds follow content alone."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from remote_inference.base.fingerprint import make_seed


def test_equal_content_gives_equal_seeds_whatever_holds_it():
    state = np.array([0.5, -1.0], np.float32)
    seed = make_seed([state, b"wave"])
    assert seed == make_seed([array("f", state), bytearray(b"wave")])
    assert 0 <= seed < 2**63


@pytest.mark.parametrize(
    "parts",
    [[b"ab", b"d"], [b"abc"], [b"a", b"bc"], [b"c", b"ab"], [b"ab", b"c", b""], []],
    ids=["a byte", "one part", "another border", "another order", "an empty part", "nothing"],
)
def test_other_content_gives_another_seed(parts: list[bytes]):
    assert make_seed(parts) != make_seed([b"ab", b"c"])


def test_seeds_spread_over_all_bits():
    seeds = [make_seed([bytes([number])]) for number in range(256)]
    assert len(set(seeds)) == 256
    assert all(sum(seed >> bit & 1 for seed in seeds) for bit in range(63))
