# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A path is read as it is written, gives its numbers names, and is refused in words when it is no path."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.field_path import MOST_ITEMS, FieldPart, parse_field_path

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,8}", fullmatch=True)
INDICES = st.none() | st.integers(0, 99_999)
SLICES = st.tuples(st.integers(0, 900_000), st.integers(1, MOST_ITEMS)).map(lambda s: (s[0], s[0] + s[1]))


PARTS = st.builds(FieldPart, NAMES, INDICES)
LAST_PARTS = st.builds(FieldPart, NAMES, INDICES | SLICES)


@given(st.lists(PARTS, max_size=4), LAST_PARTS)
def test_a_path_is_read_as_it_is_written(way: list[FieldPart], last: FieldPart):
    parts = (*way, last)
    text = ".".join(map(str, parts))
    path = parse_field_path(text)
    assert path.parts == parts
    assert path.text == text
    assert path.slice == (last.index if isinstance(last.index, tuple) else None)
    assert len(path.names) == (last.index[1] - last.index[0] if isinstance(last.index, tuple) else 1)
    for name in path.names[:3]:
        assert parse_field_path(name).names == (name,), "each number has a path of its own"


def test_the_numbers_of_a_slice_have_their_indices_or_count_from_0_in_a_name_of_their_own():
    path = parse_field_path("pads[1].data[4:7]")
    assert path.names == ("pads[1].data[4]", "pads[1].data[5]", "pads[1].data[6]")
    assert path.name_items("left") == ("left[0]", "left[1]", "left[2]")
    assert parse_field_path("wrench.force.x").name_items("fx") == ("fx",)


@given(PARTS, st.sampled_from("-[]:. \n/é"), LAST_PARTS)
def test_what_is_no_path_is_refused_in_words_that_quote_it(begin: FieldPart, alien: str, end: FieldPart):
    text = f"{begin}{alien}.{end}"
    with pytest.raises(ValueError, match=f"^found {re.escape(repr(text))}, expected names of fields"):
        parse_field_path(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "expected names of fields with dots"),
        ("a b", "expected names of fields with dots"),
        ("__class__.x", "expected names of fields with dots"),
        ("data[-1]", "expected names of fields with dots"),
        ("data[0][1]", "expected names of fields with dots"),
        ("data[0:3:2]", "expected names of fields with dots"),
        ("data[1000000]", "expected names of fields with dots"),
        ("poses[0:2].x", r"the slice poses\[0:2\] within 'poses\[0:2\].x'"),
        ("data[3:3]", "found 0 items"),
        ("data[5:3]", "found -2 items"),
        ("data[0:4097]", "found 4097 items .* expected 1 to 4096"),
    ],
)
def test_each_kind_of_mistake_has_words_of_its_own(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        parse_field_path(text)
