# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tags: any printable note passes, in bounds; a refusal says what was found and what was expected."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.tags import MAX_TAGS, parse_tags, write_tags
from remote_inference.robot.config import RobotConfig

keys = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,31}", fullmatch=True)
values = st.text(min_size=1, max_size=128).filter(str.isprintable)


@given(st.dictionaries(keys, values, max_size=MAX_TAGS))
def test_any_printable_notes_survive_in_their_order(tags: dict[str, str]):
    assert list(parse_tags(write_tags(tags)).items()) == list(tags.items())


def test_a_value_may_hold_spaces_and_equals_signs():
    assert parse_tags(["note=a = b, ü"]) == {"note": "a = b, ü"}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["site"], "found 'site', expected key=value"),
        ([""], "found '', expected key=value"),
        (["=lab"], "found the key '', expected a letter, then letters, digits or _, 32 characters at most"),
        (["2nd=x"], "found the key '2nd', expected a letter"),
        (["my site=x"], "found the key 'my site', expected a letter"),
        (["s" * 33 + "=x"], f"found the key '{'s' * 33}', expected a letter"),
        (["site="], "site: found '', expected 1 to 128 printable characters"),
        (["site=a\nb"], r"site: found 'a\nb', expected 1 to 128 printable characters"),
        (["site=\x1b[31m"], r"site: found '\x1b[31m', expected 1 to 128 printable characters"),
        (["a=1", "b=2", "a=3"], "found 'a' twice, expected each key once"),
        ([f"k{number}=1" for number in range(17)], "found 17 tags, expected 16 at most"),
    ],
)
def test_a_refusal_says_what_was_found_and_expected(texts: list[str], problem: str):
    with pytest.raises(ValueError, match="found") as refusal:
        parse_tags(texts)
    assert problem in str(refusal.value)


def test_a_robot_s_parameter_is_refused_where_it_is_given():
    with pytest.raises(DocumentError, match=r"^parameters: tags: found 'site', expected key=value$"):
        parse_document({"tags": ["run=7", "site"]}, RobotConfig, "parameters")


@pytest.mark.parametrize("text", ["k" * 1_000_000, "k" * 1_000_000 + "=1", "k=" + "v" * 1_000_000])
def test_what_is_too_long_is_not_echoed(text: str):
    with pytest.raises(ValueError, match="found") as refusal:
        parse_tags([text])
    assert len(str(refusal.value)) < 200
