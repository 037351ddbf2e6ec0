# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Steps of a pose: along one line and one arc, bounded in metres and radians, with either sign."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.pose_geometry import angles_between, slerp
from remote_inference.robot.safety.guard import (
    JOINT_LIMIT,
    NON_FINITE,
    ORIENTATION,
    SENSOR_AGE,
    VELOCITY_LIMIT,
    Guard,
)
from support.builders import FPS
from support.robot.pose_robot import (
    ARC,
    BOX,
    FIELDS,
    POSE,
    STEP,
    angle_of,
    pose_at,
    pose_contract,
    pose_document,
    pose_section,
    turned,
)

SMALL = 1e-9
numbers = st.floats(-2.0, 2.0)
places = st.tuples(numbers, numbers, numbers)
# Any length that says an orientation, either sign.
quaternions = (
    st.tuples(numbers, numbers, numbers, numbers).map(np.array).filter(lambda q: np.linalg.norm(q) > 0.11)
)
inside = st.tuples(*3 * [st.floats(-BOX, BOX)])


def guard_of(**pose: object) -> Guard:
    contract = pose_contract(**pose)
    return Guard(contract.actions, contract.period_s)


def pose_of(place: tuple[float, ...], quaternion: np.ndarray) -> np.ndarray:
    return np.array([*place, *quaternion])


def unit(quaternion: np.ndarray) -> np.ndarray:
    return quaternion / np.linalg.norm(quaternion)


@given(places, quaternions, inside, quaternions, st.floats(0.01, 1.0))
def test_a_step_stays_within_box_and_speeds(place, quaternion, start, turn, scale):
    reference = pose_of(start, unit(turn))
    command = guard_of().check(pose_of(place, quaternion), reference, velocity_scale=scale).action
    assert command is not None
    assert (np.abs(command[:3]) <= BOX + SMALL).all()
    assert np.linalg.norm(command[:3] - reference[:3]) <= scale * STEP + SMALL
    assert angle_of(command, reference) <= scale * ARC + 1e-7
    assert np.linalg.norm(command[3:]) == pytest.approx(1.0, abs=1e-12)
    assert np.dot(command[3:], reference[3:]) >= 0.0, "the sign goes on"


@given(places, quaternions, inside, quaternions)
def test_a_quaternion_and_its_negative_are_one_orientation(place, quaternion, start, turn):
    guard = guard_of()
    action, reference = pose_of(place, quaternion), pose_of(start, unit(turn))
    first = guard.check(action, reference)
    for sign, other in ((-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0)):
        signs = np.array([1.0, 1.0, 1.0, *4 * [sign]])
        others = np.array([1.0, 1.0, 1.0, *4 * [other]])
        found = guard.check(action * signs, reference * others)
        assert found.interventions == first.interventions
        # Half a turn away, both ways are the shortest.
        if angle_of(action / np.linalg.norm(quaternion), reference) < math.pi - 1e-3:
            assert found.action * others == pytest.approx(first.action, abs=1e-9)


@given(st.lists(st.tuples(places, quaternions), min_size=1, max_size=6), inside, quaternions)
def test_foreseen_poses_are_those_that_will_pass(rows, start, turn):
    guard, reference = guard_of(), pose_of(start, unit(turn))
    actions = np.array([pose_of(*row) for row in rows])
    foreseen = guard.foresee(actions, reference)
    for row, (action, safe) in enumerate(zip(actions, foreseen.actions, strict=True)):
        guarded = guard.check(action, reference)
        assert guarded.action == pytest.approx(safe, abs=1e-12)
        assert set(guarded.interventions) == set(foreseen.rules_of(row, row + 1))
        reference = guarded.action


def test_line_and_arc_are_shortened_together():
    """Half of the way to go is all that the arc allows, so the line gets half of its way, too."""
    guarded = guard_of().check(pose_at(x=0.5 * STEP, angle=2.0 * ARC), pose_at())
    assert guarded.action == pytest.approx(pose_at(x=0.25 * STEP, angle=ARC))
    assert guarded.interventions == (VELOCITY_LIMIT,)
    guarded = guard_of().check(pose_at(y=4.0 * STEP, angle=ARC), pose_at())
    assert guarded.action == pytest.approx(pose_at(y=STEP, angle=0.25 * ARC))


def test_the_speed_is_that_of_the_line_not_of_each_axis():
    far = pose_at(0.4, 0.4, 0.4)
    command = guard_of().check(far, pose_at()).action
    assert np.linalg.norm(command[:3]) == pytest.approx(STEP)


def test_a_step_within_the_bounds_passes_as_it_is():
    guard = guard_of()
    near = pose_at(x=0.9 * STEP, angle=0.9 * ARC)
    guarded = guard.check(near, pose_at())
    assert guarded.action == pytest.approx(near, abs=1e-15)
    assert not any(guard.counts.values())


def test_the_longer_way_round_is_never_taken():
    guarded = guard_of().check(pose_at(angle=1.5 * math.pi), pose_at())
    assert guarded.action == pytest.approx(pose_at(angle=-ARC))


def test_a_position_beyond_the_box_is_clipped_and_says_so():
    start = pose_at(x=BOX - 0.5 * STEP)
    guarded = guard_of().check(pose_at(x=BOX + 0.4 * STEP), start)
    assert guarded.action == pytest.approx(pose_at(x=BOX))
    assert guarded.interventions == (JOINT_LIMIT,)


@pytest.mark.parametrize("length", [0.11, 1.0 - 1e-7, 3.0])
def test_a_quaternion_of_another_length_is_no_intervention(length: float):
    guarded = guard_of().check(pose_of((0.0, 0.0, 0.0), length * np.array(turned(0.5 * ARC))), pose_at())
    assert guarded.action == pytest.approx(pose_at(angle=0.5 * ARC))
    assert guarded.interventions == ()


@pytest.mark.parametrize("length", [0.0, 0.05])
def test_a_quaternion_that_says_no_orientation_refuses_the_action(length: float):
    guard = guard_of()
    guarded = guard.check(pose_of((0.0, 0.0, 0.0), length * np.array(turned(0.1))), pose_at())
    assert guarded.action is None
    assert guarded.interventions == (ORIENTATION,)


def test_a_reference_without_an_orientation_is_none():
    assert guard_of().check(pose_at(), np.zeros(7)).interventions == (ORIENTATION,)


def test_a_pose_is_refused_while_nobody_knows_where_the_robot_is():
    guard = guard_of()
    assert guard.needs_position
    assert guard.check(pose_at(), None).interventions == (SENSOR_AGE,)
    assert guard.check(pose_at(x=math.nan), pose_at()).interventions == (NON_FINITE,)


def test_foreseen_rows_end_before_one_that_says_no_orientation():
    rows = np.array([pose_at(x=0.01), pose_at(x=0.02), np.zeros(7), pose_at(x=0.03)])
    foreseen = guard_of().foresee(rows, pose_at())
    assert foreseen.actions == pytest.approx(rows[:2])
    assert foreseen.rules_of(0, 2) == []


@pytest.mark.parametrize("axis", [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, -2.0, 3.0)])
def test_a_turn_is_bounded_about_any_axis_and_is_no_way_to_go(axis: tuple[float, ...]):
    guard, start = guard_of(), pose_at()
    for angle, passed in ((0.9 * ARC, 0.9 * ARC), (5.0 * ARC, ARC)):
        goal = np.array([0.0, 0.0, 0.0, *turned(angle, axis)])
        expected = np.array([0.0, 0.0, 0.0, *turned(passed, axis)])
        assert guard.check(goal, start).action == pytest.approx(expected, abs=1e-12)


def test_one_of_two_poses_without_an_orientation_refuses_the_action():
    guard, row = Guard(two_poses().actions, 1.0 / FPS), np.array([0.0, *pose_at(), *np.zeros(7)])
    assert guard.check(row, np.array([0.0, *pose_at(), *pose_at()])).interventions == (ORIENTATION,)


def test_two_poses_and_a_joint_are_bounded_each_by_itself():
    contract = two_poses()
    guard = Guard(contract.actions, contract.period_s)
    far = np.array([7.0, *pose_at(x=0.4), *pose_at(angle=0.5 * ARC)])
    command = guard.check(far, np.array([0.0, *pose_at(), *pose_at()])).action
    assert command == pytest.approx(np.array([1.0, *pose_at(x=0.5 * STEP), *pose_at(angle=0.5 * ARC)]))
    far = np.array([0.0, *pose_at(angle=2.0 * ARC), *pose_at(angle=-5.0 * ARC)])
    command = guard.check(far, np.array([0.0, *pose_at(), *pose_at()])).action
    assert command == pytest.approx(np.array([0.0, *pose_at(angle=ARC), *pose_at(angle=-ARC)]))


def two_poses() -> Contract:
    """Return the contract of a velocity, a slow pose and the usual one."""
    document = pose_document()
    other = [f"other_{name}" for name in POSE]
    document["actions"]["names"] = ["grip", *other, *POSE]
    document["actions"]["limits"] = {"grip": {"kind": "velocity", "min": -1.0, "max": 1.0, "max_velocity": 1}}
    document["actions"]["poses"]["other"] = pose_section(other, max_velocity=0.5 * STEP * FPS)
    document["state"].append({**document["state"][0], "topic": "other", "names": other})
    document["commands"] += [
        {**document["commands"][0], "topic": "other_target", "fields": dict(zip(FIELDS, other, strict=True))},
        {"topic": "grip", "type": "std_msgs/msg/Float64MultiArray", "names": ["grip"]},
    ]
    return pose_contract(document)


# -- rotations -----------------------------------------------------------------------------------------------


@given(quaternions, quaternions, st.floats(0.0, 1.0))
def test_a_fraction_of_an_arc_is_a_fraction_of_its_angle(begin, end, fraction):
    one, other = unit(begin)[np.newaxis], unit(end)[np.newaxis]
    whole = angles_between(one, other)[0]
    part = slerp(one, other, np.array([fraction]))
    assert angles_between(one, part)[0] == pytest.approx(fraction * whole, abs=1e-6)
    assert angles_between(part, other)[0] == pytest.approx((1.0 - fraction) * whole, abs=1e-6)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.3, 3.0, math.pi])
def test_the_angle_between_two_orientations_is_that_of_the_shortest_turn(angle: float):
    begin = np.array([turned(0.4, (1.0, 2.0, -1.0))])
    end = np.array([turned(0.4 + angle, (1.0, 2.0, -1.0))])
    for sign in (1.0, -1.0):
        assert angles_between(begin, sign * end)[0] == pytest.approx(angle, abs=1e-12, rel=1e-6)


def test_each_of_several_orientations_has_an_arc_of_its_own():
    begin = np.array([turned(0.0), turned(1.0), turned(0.5, (1.0, 0.0, 0.0))])
    end = np.array([turned(2.0), turned(-1.0), turned(0.5, (1.0, 0.0, 0.0))])
    assert angles_between(begin, end) == pytest.approx([2.0, 2.0, 0.0])
    expected = [turned(0.5), turned(0.0), turned(0.5, (1.0, 0.0, 0.0))]
    assert slerp(begin, end, np.array([0.25, 0.5, 0.9])) == pytest.approx(np.array(expected))


def test_tiny_arcs_are_divided_as_large_ones_are():
    begin, end = np.array([turned(0.0)]), np.array([turned(2e-9)])
    found = slerp(begin, end, np.array([0.25]))
    assert found[0, 2] == pytest.approx(0.25e-9, rel=1e-6)
    assert found[0, 3] == pytest.approx(1.0, abs=1e-15)
