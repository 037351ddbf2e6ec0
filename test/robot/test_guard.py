# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The last gate before the motor: what it refuses, what it clamps, in which order, and that it says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.actions import Actions
from remote_inference.robot.safety.guard import (
    AGE,
    DIMENSION,
    JOINT_LIMIT,
    NON_FINITE,
    ROUNDING,
    RULES,
    SENSOR_AGE,
    SHAPE,
    VELOCITY_LIMIT,
    Foreseen,
    Guard,
)
from support.builders import JOINTS, LIMIT, MAX_STEP, PERIOD_NS, make_contract
from support.robot.pose_robot import UPRIGHT, pose_contract

finite = st.floats(allow_nan=False, allow_infinity=False)
finite_action = st.tuples(finite, finite).map(np.array)
position = st.floats(-LIMIT, LIMIT)
reference_in_limits = st.tuples(position, position).map(np.array)
ZERO = np.zeros(2)


def make_guard(kind: str = "position") -> Guard:
    return Guard(make_contract(kind).actions, PERIOD_NS / 1e9)


def test_a_safe_action_passes_untouched():
    guard = make_guard()
    guarded = guard.check(np.array([0.05, -0.05]), ZERO)
    assert guarded.action is not None
    assert guarded.action.tolist() == [0.05, -0.05]
    assert guarded.interventions == ()


def test_every_rule_is_counted_from_the_start():
    """A counter that appears with its first event looks like a missing one until then."""
    assert set(make_guard().counts) == set(RULES)


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_actions_are_refused(kind: str, bad: float):
    guard = make_guard(kind)
    guarded = guard.check(np.array([0.0, bad]), ZERO)
    assert guarded.action is None
    assert guarded.interventions == (NON_FINITE,)


def test_an_action_beyond_a_joint_limit_is_clamped_to_it():
    guard = make_guard()
    guarded = guard.check(np.array([2.0, 0.0]), np.array([LIMIT, 0.0]))
    assert guarded.action is not None
    assert guarded.action.tolist() == [LIMIT, 0.0]
    assert guarded.interventions == (JOINT_LIMIT,)


def test_the_step_is_limited_by_velocity():
    guard = make_guard()
    guarded = guard.check(np.array([0.5, -0.5]), ZERO)
    assert guarded.action == pytest.approx([MAX_STEP, -MAX_STEP])
    assert guarded.interventions == (VELOCITY_LIMIT,)


def test_limits_come_before_the_step_and_both_are_named_in_order():
    guard = make_guard()
    guarded = guard.check(np.array([50.0, 0.0]), ZERO)
    assert guarded.action == pytest.approx([MAX_STEP, 0.0])
    assert guarded.interventions == (JOINT_LIMIT, VELOCITY_LIMIT)


def make_guard_of_elbow(**limits: float) -> Guard:
    document = make_contract().actions.model_dump()
    document["limits"]["elbow"] |= limits
    return Guard(type(make_contract().actions).model_validate(document), PERIOD_NS / 1e9)


def test_each_joint_has_its_own_limits():
    guard = make_guard_of_elbow(min=-0.2, max=0.3, max_velocity=0.2)
    guarded = guard.check(np.array([0.9, 0.9]), np.array([0.9, 0.3]))
    assert guarded.action == pytest.approx([0.9, 0.3])
    guarded = guard.check(np.array([0.9, 0.0]), np.array([0.9, 0.3]))
    assert guarded.action == pytest.approx([0.9, 0.29])


@pytest.mark.parametrize(("beyond", "rules"), [(0.9e-6, ()), (ROUNDING, ()), (1.1e-6, (JOINT_LIMIT,))])
def test_what_lies_beyond_a_limit_by_rounding_alone_is_corrected_and_no_intervention(
    beyond: float, rules: tuple[str, ...]
):
    guard = make_guard_of_elbow(max=0.0)
    guarded = guard.check(np.array([0.0, beyond]), ZERO)
    assert guarded.action is not None
    assert guarded.action.tolist() == [0.0, 0.0]
    assert guarded.interventions == rules


@pytest.mark.parametrize(("beyond", "rules"), [(0.9e-6, ()), (ROUNDING, ()), (1.1e-6, (VELOCITY_LIMIT,))])
def test_a_step_too_long_by_rounding_alone_is_corrected_and_no_intervention(
    beyond: float, rules: tuple[str, ...]
):
    guarded = make_guard().check(np.array([0.0, beyond]), ZERO, velocity_scale=0.0)
    assert guarded.action is not None
    assert guarded.action.tolist() == [0.0, 0.0]
    assert guarded.interventions == rules


def test_refusals_for_age_are_counted():
    guard = make_guard()
    guard.refuse(AGE, 4)
    assert guard.counts[AGE] == 4


def test_a_velocity_command_is_bounded_in_magnitude_and_not_in_change():
    guard = make_guard("velocity")
    guarded = guard.check(np.array([LIMIT, -LIMIT]), np.array([-LIMIT, LIMIT]))
    assert guarded.action == pytest.approx([LIMIT, -LIMIT])
    assert guarded.interventions == ()


def test_a_velocity_command_above_max_velocity_is_clamped():
    document = make_contract("velocity").actions.model_dump()
    for name in JOINTS:
        document["limits"][name]["max_velocity"] = 0.4
    guard = Guard(type(make_contract().actions).model_validate(document), 0.05)
    guarded = guard.check(np.array([0.9, -0.9]), None)
    assert guarded.action == pytest.approx([0.4, -0.4])
    assert guarded.interventions == (VELOCITY_LIMIT,)


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_an_unreadable_joint_never_becomes_a_command(kind: str):
    """Drivers report NaN for a joint that they cannot read; min(NaN, x) is NaN."""
    guarded = make_guard(kind).check(np.array([0.05, 0.05]), np.array([np.nan, 0.0]))
    assert guarded.action is None or np.isfinite(guarded.action).all()


def test_the_caller_s_arrays_are_left_alone():
    action, reference = np.array([9.0, 9.0]), np.array([0.0, 0.0])
    make_guard().check(action, reference)
    assert action.tolist() == [9.0, 9.0]
    assert reference.tolist() == [0.0, 0.0]


@given(finite_action, reference_in_limits)
def test_whatever_comes_in_a_position_stays_within_limits_and_step(action: np.ndarray, reference: np.ndarray):
    guarded = make_guard().check(action, reference)
    assert guarded.action is not None
    assert (np.abs(guarded.action) <= LIMIT).all()
    assert (np.abs(guarded.action - reference) <= MAX_STEP + 1e-12).all()


@given(finite_action)
def test_whatever_comes_in_a_velocity_stays_within_its_bounds(action: np.ndarray):
    guarded = make_guard("velocity").check(action, None)
    assert guarded.action is not None
    assert (np.abs(guarded.action) <= LIMIT).all()


@given(
    st.sampled_from(["position", "velocity", "effort"]),
    st.tuples(st.floats(), st.floats()).map(np.array),
    st.none() | reference_in_limits,
)
def test_a_change_is_never_silent(kind: str, action: np.ndarray, reference: np.ndarray | None):
    guard = make_guard(kind)
    guarded = guard.check(action, reference)
    changed = guarded.action is None or (guarded.action != action).any()
    assert bool(guarded.interventions) == changed
    assert not any(guard.counts.values()), "who commands it counts"


def test_a_position_is_refused_when_nobody_knows_where_the_robot_is():
    """The step could not be bounded."""
    guard = make_guard()
    guarded = guard.check(np.zeros(2), None)
    assert guarded.action is None
    assert guarded.interventions == (SENSOR_AGE,)


def test_an_effort_may_change_by_max_velocity_per_second_from_zero_on():
    guard = make_guard("effort")
    first = guard.check(np.array([LIMIT, -LIMIT]), None).action
    assert first == pytest.approx([MAX_STEP, -MAX_STEP])
    assert guard.check(np.array([LIMIT, -LIMIT]), first).action == pytest.approx(
        [2 * MAX_STEP, -2 * MAX_STEP]
    )


ROWS = np.zeros((3, 2), np.float32)
NAN_ROWS = np.array([[0, 0], [0, np.nan], [0, 0]], np.float32)
NAN_TO_THE_END = np.array([[0, 0], [0, 0], [np.nan, np.nan]], np.float32)


@pytest.mark.parametrize(
    ("rows", "rule", "problem"),
    [
        (ROWS[:2], SHAPE, r"chunk_robot: found shape \[2, 2\], expected \[3, 2\]"),
        (ROWS[:, :1], DIMENSION, r"chunk_robot: found shape \[3, 1\], expected \[3, 2\]"),
        (ROWS[:0, :0], DIMENSION, r"chunk_robot: found shape \[0, 0\]"),
        (NAN_ROWS, NON_FINITE, r"chunk_robot\[1, 1\]: found nan, expected finite values"),
        (NAN_TO_THE_END, NON_FINITE, r"chunk_robot\[2, 0\]: found nan, expected finite values"),
    ],
)
def test_a_bad_chunk_is_named_and_counted_by_its_rule(rows: np.ndarray, rule: str, problem: str):
    guard = make_guard()
    assert re.match(problem, guard.check_chunk(3, chunk_model=ROWS, chunk_robot=rows))
    assert {name: count for name, count in guard.counts.items() if count} == {rule: 1}


def test_a_good_chunk_has_no_problem():
    guard = make_guard()
    assert guard.check_chunk(3, chunk_model=ROWS, chunk_robot=ROWS) == ""
    assert set(guard.counts.values()) == {0}


def assert_passes_as_foreseen(guard: Guard, actions: np.ndarray, reference: np.ndarray) -> None:
    foreseen = guard.foresee(actions, reference)
    assert set(guard.counts.values()) == {0}, "nothing is counted yet"
    for row, (action, expected) in enumerate(zip(actions, foreseen.actions, strict=True)):
        guarded = guard.check(action, reference)
        reference = guarded.action
        assert reference == pytest.approx(expected, abs=1e-12)
        assert set(guarded.interventions) == set(foreseen.rules_of(row, row + 1))


@given(st.lists(finite_action, min_size=1, max_size=8), reference_in_limits)
def test_what_is_foreseen_is_what_will_be_passed_and_counts_nothing(actions: list, reference: np.ndarray):
    assert_passes_as_foreseen(make_guard(), np.stack(actions), reference)


@pytest.mark.parametrize(
    ("actions", "reference"),
    [
        ([[0.05, 0.0], [0.1, 0.05]], [0.0, 0.0]),
        ([[0.5, -0.5], [0.9, -0.9]], [0.0, 0.0]),  # each step is too long
        ([[0.5, 0.0], [0.55, 0.0]], [0.0, 0.0]),  # the first one is, of one joint
        ([[1.05, -1.05], [1.1, -1.1]], [LIMIT, -LIMIT]),  # each joint is beyond its limit, no step too long
        ([[1.05, 0.0], [1.1, 0.05]], [LIMIT, 0.0]),  # one of them is
    ],
)
def test_clamps_are_foreseen_as_they_will_be_counted(actions: list, reference: list):
    assert_passes_as_foreseen(make_guard(), np.array(actions), np.array(reference))


def test_rows_beyond_a_limit_are_foreseen_with_their_clamps_whatever_comes_between():
    rows = np.array([[LIMIT + 0.02, 0.0], [LIMIT - 0.01, 0.0], [LIMIT, 0.0], [LIMIT + 0.5, 0.05]])
    guard = make_guard()
    assert_passes_as_foreseen(guard, rows, np.array([LIMIT, 0.0]))
    foreseen = guard.foresee(rows, np.array([LIMIT, 0.0]))
    assert [foreseen.rules_of(row, row + 1) for row in range(4)] == [[JOINT_LIMIT], [], [], [JOINT_LIMIT]]
    assert foreseen.rules_of(0, 4) == [JOINT_LIMIT] * 2


def test_a_clamp_to_the_mirrored_position_is_foreseen():
    guard = make_guard_of_elbow(min=-0.3, max=-0.2)
    assert_passes_as_foreseen(guard, np.array([[0.0, 0.2]]), np.array([0.0, -0.2]))


@pytest.mark.parametrize(("rows", "left"), [(NAN_ROWS, 1), (NAN_TO_THE_END, 2)])
def test_nothing_is_foreseen_beyond_an_action_that_will_be_refused(rows: np.ndarray, left: int):
    assert len(make_guard().foresee(rows.astype(np.float64), ZERO).actions) == left


def make_guard_of_mixed(**limit: Any) -> Guard:
    """Return the guard of a shoulder, commanded by position, and an elbow with another kind."""
    document = make_contract().actions.model_dump(exclude_unset=True)
    document["limits"]["elbow"] = limit
    return Guard(Actions.model_validate(document), PERIOD_NS / 1e9)


@pytest.mark.parametrize("row", [[0.05, np.nan], [np.nan, 0.7], [np.nan, np.nan]])
def test_nothing_is_foreseen_beyond_a_number_that_says_no_switch(row: list[float]):
    """A switch stays in the rows ahead and its number is replaced, but its row will be refused."""
    guard = make_guard_of_mixed(kind="switch", min=0.0, max=1.0, closes_above=0.6, opens_below=0.4)
    rows = np.array([[0.05, 0.7], row, [0.05, 0.7]])
    assert guard.foresee(rows, np.array([0.0, 1.0])).actions.tolist() == [[0.05, 1.0]]


def test_a_velocity_beyond_its_bound_is_foreseen_clamped_however_little_it_changes():
    guard = make_guard_of_mixed(kind="velocity", min=-1.0, max=1.0, max_velocity=0.5)
    assert_passes_as_foreseen(guard, np.array([[0.05, 0.9], [0.1, 0.9]]), np.array([0.0, 0.9]))


def test_the_steps_of_a_pose_are_foreseen_as_they_will_be_bounded():
    """Along its line and its arc, from quaternions of any length and sign."""
    guard = Guard(pose_contract().actions, PERIOD_NS / 1e9)
    begin, short = np.array([0.0, 0.0, 0.0, *UPRIGHT]), np.array([[0.001, 0.0, 0.0, 0.0, 0.0, 0.0, 0.96]])
    assert_passes_as_foreseen(guard, short, begin)
    goal = np.array([0.01, 0.01, 0.0, 0.0, 0.0, 0.0, -2.0])
    far = np.array([0.3, -0.2, 0.1, 0.0, 0.6, 0.0, -0.8])
    assert_passes_as_foreseen(guard, np.stack([goal, far, far]), begin)


def test_where_nothing_is_foreseen_there_is_no_row():
    assert len(Foreseen().actions) == len(Foreseen().rules_of(0, 0)) == 0
