# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The policy's units: both ways give back what went in, and what cannot be right is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.policy_units import Scale, UnitMap
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import contract_document

TINY = 1e-300  # where floats are no longer dense
ELBOW = {"unit": "percent", "names": ["elbow"], "range": [-1.0, 0.5]}
ARM = [{"unit": "degrees", "names": ["shoulder"]}, ELBOW]


def scaled(state: list[dict[str, Any]], actions: list[dict[str, Any]], kind: str = "position") -> Contract:
    document = contract_document(kind)
    document["state"][0]["scale"] = state
    document["actions"]["scale"] = actions
    return parse_document(document, Contract, "f")


def test_a_policy_is_told_degrees_and_percent_and_tells_them():
    contract = scaled(ARM, ARM)
    robot, policy = [math.pi / 2, 0.5], [90.0, 100.0]
    assert contract.state_units.to_policy(robot) == pytest.approx(policy)
    assert contract.state_units.to_policy([-math.pi, -1.0]) == pytest.approx([-180.0, 0.0])
    assert contract.action_units.to_robot(policy) == pytest.approx(robot)
    rows = contract.action_units.to_robot(np.array([policy, [0.0, 50.0]], np.float32))
    np.testing.assert_allclose(rows, [robot, [0.0, -0.25]])


@pytest.mark.parametrize(
    ("scale", "robot", "policy"),
    [
        ({"unit": "percent", "range": [0.5, 0.0]}, 0.0, 100.0),  # counts the other way
        ({"unit": "signed_percent", "range": [-1.0, 0.5]}, -1.0, -100.0),
        ({"unit": "fraction", "range": [0.0, 0.04]}, 0.01, 0.25),
        ({"unit": "millimetres", "factor": 1000.0}, 0.035, 35.0),
        ({"unit": "turns_left", "factor": -1 / math.tau}, math.pi, -0.5),
    ],
)
def test_each_unit_means_what_its_name_says(scale: dict[str, Any], robot: float, policy: float):
    contract = scaled([{**scale, "names": ["elbow"]}], [{**scale, "names": ["elbow"]}])
    assert contract.state_units.to_policy([7.0, robot]) == pytest.approx([7.0, policy])
    assert contract.action_units.to_robot([7.0, policy]) == pytest.approx([7.0, robot])


def test_velocities_are_converted_as_degrees_per_second():
    degrees = {"unit": "degrees", "names": ["elbow"]}
    contract = scaled([], [degrees], "velocity")
    assert contract.action_units.to_robot([1.0, 180.0]) == pytest.approx([1.0, math.pi])


def test_degrees_count_from_another_zero_and_the_other_way():
    """LeRobot's zero is the middle of each joint's calibrated range, and a driver's is its own."""
    shifted = {"unit": "degrees", "names": ["elbow"], "offset": -90.0, "invert": True}
    contract = scaled([shifted], [shifted])
    assert contract.state_units.to_policy([1.0, math.pi / 4]) == pytest.approx([1.0, -135.0])
    assert contract.action_units.to_robot([1.0, -135.0]) == pytest.approx([1.0, math.pi / 4])


@pytest.mark.parametrize("other", [{}, {"offset": -90.0}, {"offset": -90.0, "invert": False}])
def test_a_joint_that_is_seen_from_one_zero_and_commanded_from_another_is_refused(other: dict[str, Any]):
    degrees = {"unit": "degrees", "names": ["elbow"]}
    seen = {**degrees, "offset": -90.0, "invert": True}
    with pytest.raises(
        DocumentError, match=r"found elbow with offset -90 degrees, inverted in state and offset"
    ):
        scaled([seen], [{**degrees, **other}])
    with pytest.raises(DocumentError, match="inverted in state and none in actions, expected one zero"):
        scaled([seen], [])
    other_unit = {"unit": "quarters", "factor": -2.0 / math.pi, "names": ["elbow"], "offset": -1.0}
    scaled([seen], [other_unit])


@pytest.mark.parametrize("word", ["deg", "Degree", "\u00b0"])
def test_degrees_are_called_so(word: str):
    """With a factor of one's own they would be any unit: 0.01745 instead of 57.3 is no degree."""
    with pytest.raises(DocumentError, match=rf"scale\.0.*unit: found '{word}', did you mean 'degrees'\?"):
        scaled([], [{"unit": word, "factor": 0.01745, "names": ["elbow"]}])


def in_range(low: float, high: float) -> dict[str, Any]:
    return {"unit": "percent", "names": ["elbow"], "range": [low, high]}


def millimetres(factor: float) -> dict[str, Any]:
    return {"unit": "mm", "names": ["elbow"], "factor": factor}


@pytest.mark.parametrize(
    ("seen", "commanded", "problem"),
    [
        (millimetres(1000.0), millimetres(-1000.0), "counting up in state and down in actions"),
        (millimetres(-1.0), None, "counting up in actions and down in state"),
        (in_range(0.0, 0.5), in_range(0.5, 0.0), "counting up in state and down in actions"),
        (millimetres(1000.0), millimetres(100.0), "with 1000 mm in state and 100 in actions, expected one"),
        (millimetres(1000.0), millimetres(1000.0), ""),
        (millimetres(1000.0), {**millimetres(100.0), "unit": "cm"}, ""),
        (in_range(0.0, 0.5), in_range(0.0, 0.6), ""),  # of a leader and a follower, for example
        (in_range(0.0, 0.5), None, ""),
    ],
)
def test_a_joint_is_commanded_in_the_direction_and_unit_in_which_it_is_seen(
    seen: dict[str, Any], commanded: dict[str, Any] | None, problem: str
):
    actions = [commanded] if commanded else []
    if not problem:
        scaled([seen], actions)
        return
    with pytest.raises(DocumentError, match=f"scale: found elbow {problem}"):
        scaled([seen], actions)


def test_an_offset_of_a_velocity_is_refused():
    shifted = {"unit": "degrees", "names": ["elbow"], "offset": 1.0}
    with pytest.raises(DocumentError, match="offset: found with velocity, expected it with position only"):
        scaled([], [shifted], "velocity")


def test_without_a_scale_the_numbers_are_those_of_before():
    units = scaled([], []).action_units
    rows = np.array([[0.1, -0.0], [np.float32(1e-40), 3e38]], np.float32)
    assert units.to_robot(rows).tobytes() == rows.astype(np.float64).tobytes()
    assert units.to_policy(rows).tobytes() == rows.astype(np.float64).tobytes()


ends = st.floats(-1e6, 1e6).map(lambda end: round(end, 7))
ranges = st.tuples(ends, ends).filter(lambda pair: abs(pair[0] - pair[1]) > 1e-3)
words = st.sampled_from(["mm", "counts"])
factors = st.floats(1e-6, 1e6) | st.floats(-1e6, -1e-6)
offsets = st.none() | st.floats(-1e4, 1e4)
scales = st.one_of(
    st.none(),
    st.builds(
        lambda invert, offset: Scale(unit="degrees", names=("j",), invert=invert, offset=offset),
        st.booleans(),
        offsets,
    ),
    st.builds(
        lambda unit, span: Scale(unit=unit, names=("j",), range=span),
        st.sampled_from(["percent", "signed_percent", "fraction"]),
        ranges,
    ),
    st.builds(
        lambda word, factor, offset: Scale(unit=word, names=("j",), factor=factor, offset=offset),
        words,
        factors,
        offsets,
    ),
)


def reach_of(scale: Scale | None) -> float:
    """Return the largest robot's number that rounding has to do with, besides the value itself."""
    if scale is None:
        return 0.0
    factor, offset = scale.line
    return max(abs(offset / factor), *map(abs, scale.range or (0.0,)))


@given(st.lists(st.tuples(scales, st.floats(-1e3, 1e3)), min_size=1, max_size=6))
def test_there_and_back_is_where_it_began(columns: list[tuple[Scale | None, float]]):
    units = UnitMap([scale for scale, _ in columns])
    robot = np.array([value for _, value in columns])
    reach = np.array([reach_of(scale) for scale, _ in columns])
    back = units.to_robot(units.to_policy(robot))
    assert (np.abs(back - robot) <= 1e-12 * (np.abs(robot) + reach) + TINY).all()
    policy = units.to_policy(robot)
    again = units.to_policy(units.to_robot(policy))
    _, shifts = zip(*(scale.line if scale else (1.0, 0.0) for scale, _ in columns), strict=True)
    assert (np.abs(again - policy) <= 1e-12 * (np.abs(policy) + np.abs(shifts)) + TINY).all()


@given(scales.filter(bool), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(0.0, 1.0))
def test_a_way_between_two_rows_is_the_same_way_in_either_unit(
    scale: Scale, begin: float, end: float, part: float
):
    """What blends or interpolates rows may do so before the conversion or after."""
    units = UnitMap([scale])
    first, last = units.to_robot([begin])[0], units.to_robot([end])[0]
    between = units.to_robot([begin + part * (end - begin)])[0]
    reach = max(abs(first), abs(last), reach_of(scale))
    assert between == pytest.approx(first + part * (last - first), rel=1e-9, abs=1e-9 * (1.0 + reach))


BAD: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"unit": "degree"}, ".0", ["unit", "'degree'", "did you mean 'degrees'"]),
    ({"unit": "grad"}, ".0", ["unit", "'grad'", "degrees, percent", "factor"]),
    ({"unit": ""}, ".0.unit", ["''"]),
    ({"unit": "degrees", "names": ["wrist"]}, "", ["scale.0.names", "wrist", "shoulder, elbow"]),
    ({"unit": "degrees", "names": []}, ".0.names", ["at least 1"]),
    ({"unit": "degrees", "names": ["elbow", "elbow"]}, ".0", ["elbow", "unique"]),
    ({"unit": "percent"}, ".0", ["range: missing", "0 and 100 percent"]),
    ({"unit": "signed_percent"}, ".0", ["range: missing", "-100 and 100"]),
    ({"unit": "percent", "range": [0.5, 0.5]}, ".0", ["range", "0.5 to 0.5", "apart"]),
    ({"unit": "percent", "range": [0.0, float("nan")]}, ".0.range.1", ["nan", "finite"]),
    ({"unit": "percent", "range": [0.0, 1e9]}, ".0.range.1", ["1000000000.0", "at most 1e+06"]),
    ({"unit": "percent", "range": [0.0]}, ".0.range.1", ["missing"]),
    ({"unit": "degrees", "range": [0.0, 1.0]}, ".0", ["range: found with degrees", "percent"]),
    ({"unit": "degrees", "factor": 57.3}, ".0", ["factor: found with degrees", "expected none"]),
    (
        {"unit": "percent", "range": [0.0, 1.0], "offset": 5.0},
        ".0",
        ["offset: found with percent", "range says"],
    ),
    ({"unit": "percent", "range": [0.0, 1.0], "invert": True}, ".0", ["invert: found with percent", "falls"]),
    ({"unit": "mm", "factor": 1000.0, "invert": True}, ".0", ["invert: found with mm", "a factor below 0"]),
    ({"unit": "degrees", "offset": float("nan")}, ".0.offset", ["nan", "finite"]),
    ({"unit": "degrees", "offset": 1e9}, ".0.offset", ["1000000000.0", "at most 1e+06"]),
    ({"unit": "mm", "factor": 0.0}, ".0", ["factor: found 0", "1e-06"]),
    ({"unit": "mm", "factor": float("nan")}, ".0.factor", ["nan", "finite"]),
    ({"unit": "mm", "factor": float("inf")}, ".0.factor", ["inf", "finite"]),
    ({"unit": "mm", "factor": 1e300}, ".0", ["factor: found 1e+300"]),
    ({"unit": "mm", "factor": "1000"}, ".0.factor", ["'1000'", "number"]),
    ({"unit": "mm", "factor": 1000.0, "range": [0.0, 1.0]}, ".0", ["range: found with mm"]),
    ({"unit": "degrees", "name": ["elbow"]}, ".0.name", ["unknown key"]),
]


@pytest.mark.parametrize("section", ["state.0", "actions"])
@pytest.mark.parametrize(("scale", "key", "words"), BAD)
def test_a_scale_that_cannot_be_is_refused_with_its_key(
    section: str, scale: dict[str, Any], key: str, words: list[str]
):
    document = contract_document()
    place = document["state"][0] if section == "state.0" else document["actions"]
    place["scale"] = [{"names": ["elbow"], **scale}]
    with pytest.raises(DocumentError) as refusal:
        parse_document(document, Contract, "f")
    line, *_ = str(refusal.value).splitlines()
    where = f"f: {section}.scale{key}: " if key else f"f: {section}: "
    assert line.startswith(where), line
    assert all(word in line for word in words), line


def test_a_joint_has_one_unit():
    with pytest.raises(DocumentError, match=r"actions: scale: elbow found more than once"):
        scaled([], [*ARM, {"unit": "degrees", "names": ["elbow"]}])


@pytest.mark.parametrize(
    ("kind", "scale", "problem"),
    [
        (
            "velocity",
            ELBOW,
            "scale.0.unit: found percent with velocity, expected it with position or switch only",
        ),
        ("effort", ELBOW, "scale.0.unit: found percent with effort"),
        ("effort", {"unit": "degrees", "names": ["elbow"]}, "scale.0.unit: found degrees with effort"),
    ],
)
def test_a_unit_of_positions_is_refused_for_other_numbers(kind: str, scale: dict[str, Any], problem: str):
    with pytest.raises(DocumentError, match=problem):
        scaled([], [scale], kind)


def test_degrees_are_refused_for_a_joint_whose_limits_are_metres():
    degrees = [{"unit": "degrees", "names": ["elbow"]}]
    document = contract_document()
    document["actions"]["limits"]["elbow"]["unit"] = "m"
    document["actions"]["scale"] = degrees
    with pytest.raises(DocumentError, match=r"f: actions: scale\.0\.unit: found degrees for elbow, .* in m,"):
        parse_document(document, Contract, "f")
    del document["actions"]["scale"]
    document["state"][0]["scale"] = degrees
    with pytest.raises(DocumentError, match=r"f: state\.0\.scale\.0\.unit: found degrees .* in m,"):
        parse_document(document, Contract, "f")


def test_measured_positions_have_no_policys_unit():
    document = contract_document()
    document["measured"] = {**document["state"][0], "scale": [ELBOW]}
    with pytest.raises(DocumentError, match=r"f: measured\.scale: found one, expected none"):
        parse_document(document, Contract, "f")
