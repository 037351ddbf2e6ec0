# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Names that the rules accept are those that ROS accepts."""

from __future__ import annotations

import pytest
from hypothesis import example, given, strategies as st
from rclpy.exceptions import InvalidTopicNameException
from rclpy.expand_topic_name import expand_topic_name
from rclpy.validate_full_topic_name import validate_full_topic_name
from rclpy.validate_topic_name import validate_topic_name

from remote_inference.base.contract.fields import MAX_LENGTH, find_topic_name_problem

names = st.one_of(
    st.text(st.sampled_from("ab_/0-. é"), max_size=8),
    st.lists(st.from_regex(r"[a-z_0-9]{0,4}", fullmatch=True), max_size=4).map("/".join),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
)


def is_accepted_by_ros(name: str) -> bool:
    try:
        validate_topic_name(name)
        return bool(validate_full_topic_name(expand_topic_name(name, "node", "/")))
    except InvalidTopicNameException:
        return False


@given(names.filter(lambda name: not set("~{}") & set(name)))
@example("")
@example("/")
@example("a//b")
@example("/a/")
@example("a__b")
@example("_")
@example("٣a")
def test_a_name_is_accepted_as_ros_accepts_it(name: str) -> None:
    assert (find_topic_name_problem(name) == "") == is_accepted_by_ros(name)


def test_the_longest_name_is_that_of_ros() -> None:
    longest = "/" + "a" * (MAX_LENGTH - 1)
    assert is_accepted_by_ros(longest)
    assert not is_accepted_by_ros(longest + "a")
    assert find_topic_name_problem(longest) == ""
    assert "found 248 characters, expected 247 at most" in find_topic_name_problem(longest + "a")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "found an empty name in ''"),
        ("/joint-states", "found '-' in '/joint-states', expected letters, digits, '_' and '/'"),
        ("joint states", "found ' ' in 'joint states'"),
        ("~x", "found '~' in '~x'"),
        ("~/x", "found '~' in '~/x'"),
        ("{node}/x", "found '{' in '{node}/x'"),
        ("a//b", "found '//' in 'a//b', expected names with one '/' between them"),
        ("a/", "found a '/' at the end in 'a/'"),
        ("arm/2nd", "found '2nd' in 'arm/2nd', expected a letter or '_' at its beginning"),
    ],
)
def test_what_is_wrong_with_a_name_is_said(name: str, problem: str) -> None:
    assert find_topic_name_problem(name).startswith(problem)
