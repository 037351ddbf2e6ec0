# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A contract's limits beside a policy's training data: what is in another unit is said, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.server.policies.trained_policy import ranges_of
from remote_inference.tools.deployment.serving.check_units import (
    find_odd_answers,
    find_outside_data,
    find_steep_rows,
    find_unit_doubts,
    find_unit_problem,
)
from support.builders import FPS, JOINTS, LIMIT, contract_document, make_spec

DEGREES = [{"unit": "degrees", "names": list(JOINTS)}]
REMEDY = "say it as `scale` in the contract"


def contract(unit: str = "", scale: Any = (), farthest: float = LIMIT, **actions: Any) -> Contract:
    """Return the contract of two joints, with limits so far either way in a unit; empty: rad."""
    document = contract_document()
    document["state"][0]["scale"] = list(scale)
    document["actions"] |= {"scale": list(scale), **actions}
    for limit in document["actions"]["limits"].values():
        limit.update({"min": -farthest, "max": farthest} | ({"unit": unit} if unit else {}))
    return parse_document(document, Contract, "test.contract.yaml")


@pytest.mark.parametrize("what", ["state", "action"])
def test_degrees_against_limits_in_radians_are_said(what: str):
    ranges = {f"{what}_ranges": {"shoulder": (-0.5, 0.5), "elbow": (20.0, 100.0)}}
    assert find_unit_problem(contract(), make_spec(**ranges)) == (
        f"{what} 'elbow' was trained on 20 to 100, the robot's limits are -1 to 1 rad: that is degrees, or "
        f"percent of a range: {REMEDY}"
    )


@pytest.mark.parametrize(
    ("unit", "found", "said"),
    [
        ("m", (0.0, 400.0), "that is millimetres"),
        ("m", (0.0, 3000.0), "that is another unit, such as percent of a range"),
        ("rad", (0.0, 4000.0), "that is another unit, such as percent of a range"),
    ],
)
def test_other_units_are_said_too(unit: str, found: tuple[float, float], said: str):
    problem = find_unit_problem(contract(unit), make_spec(action_ranges={"elbow": found}))
    assert said in problem


@pytest.mark.parametrize(
    ("gripper", "found", "said"),
    [
        ("left_gripper.pos", (-0.3, 1.4), "that is a fraction, or percent of a range"),
        ("left_gripper.pos", (-10.0, 40.0), "that is millimetres, or percent of a range"),
        ("left_gripper.pos", (-0.03, 0.45), ""),  # of a wider one
        ("lift", (-0.3, 1.4), ""),
    ],
)
def test_a_gripper_s_fraction_against_limits_in_metres_is_said(
    gripper: str, found: tuple[float, float], said: str
):
    document = contract_document()
    document["rename"]["joints.elbow"] = gripper
    document["actions"]["limits"]["elbow"] |= {"min": 0.0, "max": 0.04, "unit": "m"}
    robot = parse_document(document, Contract, "test.contract.yaml")
    problem = find_unit_problem(robot, make_spec(action_ranges={gripper: found}))
    assert said in problem
    assert bool(problem) == bool(said)


@pytest.mark.parametrize(
    ("robot", "found"),
    [
        (contract(), (-2.5, 2.5)),  # of a robot with wider limits
        (contract(), (-6.0, 6.0)),
        (contract("m"), (0.0, 2.5)),
        (contract("count"), (0.0, 4000.0)),  # nothing is known of it
        (contract(scale=DEGREES), (-90.0, 90.0)),
        (contract(scale=DEGREES), (-20.0, 1.0)),
        (contract(relative={"to": "chunk_start", "names": list(JOINTS)}), (-60.0, 60.0)),
    ],
)
def test_data_that_may_be_in_the_robot_s_unit_is_no_problem(robot: Contract, found: tuple[float, float]):
    ranges = dict.fromkeys(JOINTS, found)
    assert find_unit_problem(robot, make_spec(action_ranges=ranges)) == ""


def test_radians_against_limits_in_degrees_are_said_when_all_joints_have_them():
    ranges = {"shoulder": (-0.1, 0.1), "elbow": (-1.5, 1.5)}
    (doubt,) = find_unit_doubts(contract(scale=DEGREES), make_spec(state_ranges=ranges))
    assert "it may be rad, which needs no `scale`" in doubt
    for elbow in ((-40.0, 10.0), (0.0, 0.0)):  # one that never moved says nothing, and one joint little
        ranges["elbow"] = elbow
        assert not list(find_unit_doubts(contract(scale=DEGREES), make_spec(state_ranges=ranges)))


@pytest.mark.parametrize(("unit", "farthest", "share"), [("rad", np.pi, 0.72), ("m", 1.9, 0.8)])
def test_data_that_is_always_at_one_of_two_ends_is_in_the_robot_s_unit(
    unit: str, farthest: float, share: float
):
    """Mean and two deviations of it reach beyond what it ever was."""
    mean, std = farthest * (2 * share - 1), 2 * farthest * np.sqrt(share * (1 - share))
    ranges = ranges_of(["elbow"], np.array([mean]), np.array([std]))
    assert max(map(abs, ranges["elbow"])) > 2 * farthest
    robot = contract(unit, farthest=farthest)
    assert find_unit_problem(robot, make_spec(action_ranges=ranges)) == ""


def test_a_policy_that_tells_nothing_of_its_training_is_judged_by_its_answers():
    chunk = np.array([[0.1, 30.0], [0.2, 60.0]], np.float32)
    assert list(find_odd_answers(contract(), make_spec(), chunk)) == [
        "action 'elbow' is answered with 30 to 60, the robot's limits are -1 to 1 rad: that is degrees, or "
        f"percent of a range: {REMEDY}"
    ]
    known = make_spec(action_ranges={"elbow": (-LIMIT, LIMIT)})
    assert list(find_odd_answers(contract(), known, chunk)) == []


@pytest.mark.parametrize(
    ("robot", "found", "is_said"),
    [
        (contract(), (0.5, 2.5), True),
        (contract(), (-2.5, -0.5), True),
        (contract(), (-1.5, 2.5), False),  # rows may well lie within: policies pad a deviation
        (contract(), (1.0, 1.02), False),  # rounded at the end
        (contract(scale=DEGREES), (40.0, 50.0), False),
        (contract(scale=DEGREES), (60.0, 70.0), True),
        (contract(relative={"to": "previous", "names": list(JOINTS)}), (0.5, 2.5), False),
    ],
)
def test_training_data_whose_middle_is_outside_the_limits_is_said(
    robot: Contract, found: tuple[float, float], is_said: bool
):
    warnings = list(find_outside_data(robot, make_spec(action_ranges={"elbow": found})))
    assert bool(warnings) == is_said
    assert all(warning.startswith("action 'elbow' was trained on ") for warning in warnings)


RATE_RAD_S = 5.0
TIMES_S = np.arange(100) / FPS
SWING = np.column_stack([np.zeros_like(TIMES_S), 0.5 * np.sin(RATE_RAD_S * TIMES_S)])  # of the elbow


def bounded(kind: str, **bounds: float) -> Contract:
    document = contract_document(kind)
    document["actions"]["limits"]["elbow"] |= bounds
    return parse_document(document, Contract, "test.contract.yaml")


@pytest.mark.parametrize(
    ("kind", "acceleration", "jerk"),
    [
        ("position", 0.5 * RATE_RAD_S**2, 0.5 * RATE_RAD_S**3),
        ("velocity", 0.5 * RATE_RAD_S, 0.5 * RATE_RAD_S**2),  # rows are the velocities themselves
    ],
)
def test_rows_that_are_steeper_than_the_bounds_are_said(kind: str, acceleration: float, jerk: float):
    loose = bounded(kind, max_acceleration=1.05 * acceleration, max_jerk=1.05 * jerk)
    assert list(find_steep_rows(loose, SWING)) == []
    (said,) = find_steep_rows(bounded(kind, max_acceleration=0.9 * acceleration), SWING)
    assert said.startswith("elbow: found max_acceleration ")
    sudden = bounded(kind, max_acceleration=1.05 * acceleration, max_jerk=0.9 * jerk)
    (said,) = find_steep_rows(sudden, SWING)
    assert said.startswith("elbow: found max_jerk ")


def test_a_single_jump_among_many_rows_is_left_aside_and_few_rows_say_nothing():
    rows = np.zeros((1000, 2))
    rows[500:, 1] = 0.5
    robot = bounded("position", max_acceleration=1.0, max_jerk=10.0)
    assert list(find_steep_rows(robot, rows)) == []
    assert list(find_steep_rows(robot, rows[499:501])) == []
    assert list(find_steep_rows(robot, rows[499:502])) != []


def test_what_has_no_such_bound_is_not_judged():
    assert list(find_steep_rows(contract(), 100.0 * SWING)) == []
