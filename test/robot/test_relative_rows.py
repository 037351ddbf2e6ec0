# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Relative actions: rows say how far to go from where the robot was when the policy saw it."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.pose_geometry import LEAST_LENGTH, angles_between
from remote_inference.robot.queue.relative_rows import RelativeRows
from remote_inference.robot.safety.guard import NON_FINITE
from support.builders import CHUNK_SIZE, JOINTS, contract_document, make_config, ns
from support.robot.asking_robot import Robot
from support.robot.pose_robot import (
    POSE,
    pose_at,
    pose_command,
    pose_contract,
    pose_document,
    pose_section,
    pose_state,
    rotation_of,
    turned,
)
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

SHOULDER, ELBOW = JOINTS
DEGREES = {"unit": "degrees", "names": [SHOULDER], "offset": 90.0, "invert": True}
PERCENT = {"unit": "percent", "names": [ELBOW], "range": [1.0, -0.5]}
SIZE = st.floats(-1.0, 1.0, width=32)


def joints_contract(to: str = "chunk_start", names: tuple[str, ...] = (ELBOW,), **actions: Any) -> Contract:
    document = contract_document()
    document["actions"] |= {"relative": {"to": to, "names": list(names)}, **actions}
    if scale := actions.get("scale"):
        document["state"][0]["scale"] = scale
    return parse_document(document, Contract, "relative.contract.yaml")


def tool_contract(to: str, frame: str) -> Contract:
    return pose_contract(pose_document(relative={"to": to, "frame": frame}))


# -- joints --------------------------------------------------------------------------------------------------


def test_a_row_counts_from_where_the_joint_was_and_other_joints_are_told_where_to_go() -> None:
    rows = np.array([[0.5, 0.25], [0.5, -0.125]], np.float32)
    found = RelativeRows(joints_contract()).resolve(rows, np.array([9.0, 0.5]))
    assert found.tolist() == [[0.5, 0.75], [0.5, 0.375]]
    assert found.dtype == np.float32


def test_with_previous_each_row_counts_from_the_one_before() -> None:
    rows = np.array([[0.0, 0.25], [0.0, 0.25], [0.0, -0.125]], np.float32)
    found = RelativeRows(joints_contract("previous")).resolve(rows, np.array([0.0, 0.5]))
    assert found[:, 1].tolist() == [0.75, 1.0, 0.875]


@given(st.lists(st.tuples(SIZE, SIZE), min_size=1, max_size=5), SIZE, SIZE)
def test_a_difference_in_the_policy_s_units_is_that_difference_on_the_robot(
    steps: list[tuple[float, float]], shoulder: float, elbow: float
) -> None:
    """Whatever the unit's zero is, and whichever way it counts: 90 degrees are half a turn's half."""
    contract = joints_contract(names=(SHOULDER, ELBOW), scale=[DEGREES, PERCENT])
    said = np.array(steps) * [-180.0 / np.pi, -100.0 / 1.5]
    measured = np.array([shoulder, elbow])
    found = RelativeRows(contract).resolve(said.astype(np.float32), measured)
    assert contract.action_units.to_robot(found) == pytest.approx(measured + np.array(steps), abs=1e-4)


@pytest.mark.parametrize(
    ("measured", "known"),
    [(None, False), ([0.0, np.nan], False), ([np.nan, 0.0], True), ([0.0, 0.0], True)],
)
def test_where_a_relative_joint_was_must_be_known(measured: list[float] | None, known: bool) -> None:
    place = None if measured is None else np.array(measured)
    assert RelativeRows(joints_contract()).can_resolve(place) is known


@pytest.mark.parametrize("place", [0, 1])
def test_all_relative_joints_must_be_known(place: int) -> None:
    measured = np.zeros(2)
    measured[place] = np.nan
    assert not RelativeRows(joints_contract(names=(SHOULDER, ELBOW))).can_resolve(measured)


def test_rows_that_are_not_relative_stay_as_they_are() -> None:
    rows = np.array([[0.5, 0.25]], np.float32)
    relative = RelativeRows(parse_document(contract_document(), Contract, "x"))
    assert relative.can_resolve(None)
    assert relative.resolve(rows, None) is rows


# -- poses ---------------------------------------------------------------------------------------------------


def matrix(pose: np.ndarray) -> np.ndarray:
    """Return the homogeneous matrix of a pose `[7]`, by the textbook's formula for a unit quaternion."""
    x, y, z, w = pose[3:] / np.linalg.norm(pose[3:])
    turn = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    whole = np.eye(4)
    whole[:3, :3], whole[:3, 3] = turn, pose[:3]
    return whole


def composed(before: np.ndarray, motion: np.ndarray, frame: str) -> np.ndarray:
    if frame == "tool":
        return matrix(before) @ matrix(motion)
    whole = np.eye(4)
    whole[:3, :3] = matrix(motion)[:3, :3] @ matrix(before)[:3, :3]
    whole[:3, 3] = before[:3] + motion[:3]
    return whole


POSES = st.tuples(*[SIZE] * 3, st.floats(-3.0, 3.0), *[st.floats(0.1, 1.0)] * 3, st.sampled_from([-1.0, 1.0]))


def pose_of(drawn: tuple[float, ...]) -> np.ndarray:
    place, angle, axis, sign = drawn[:3], drawn[3], drawn[4:7], drawn[7]
    return np.array([*place, *(sign * part for part in turned(angle, axis))])


@pytest.mark.parametrize("frame", ["tool", "base"])
@pytest.mark.parametrize("to", ["chunk_start", "previous"])
@given(begin=POSES, motions=st.lists(POSES, min_size=1, max_size=4))
def test_a_motion_of_a_pose_is_composed_as_rigid_motions_are(
    to: str, frame: str, begin: tuple[float, ...], motions: list[tuple[float, ...]]
) -> None:
    measured, rows = pose_of(begin), np.array([pose_of(motion) for motion in motions], np.float32)
    found = RelativeRows(tool_contract(to, frame)).resolve(rows, measured).astype(np.float64)
    before = measured
    for row, motion in zip(found, rows.astype(np.float64), strict=True):
        assert matrix(row) == pytest.approx(composed(before, motion, frame), abs=1e-4)
        before = row if to == "previous" else measured


@pytest.mark.parametrize("place", [0, 6])
def test_where_a_relative_pose_was_must_be_known(place: int) -> None:
    measured = pose_at()
    measured[place] = np.nan
    relative = RelativeRows(tool_contract("chunk_start", "tool"))
    assert relative.can_resolve(pose_at())
    assert not relative.can_resolve(measured)


def test_of_two_poses_one_may_be_relative() -> None:
    other = tuple(f"other_{name}" for name in POSE)
    document = pose_document(relative={"to": "chunk_start", "frame": "base"})
    document["state"].append(pose_state("other_pose", other))
    document["commands"].append(pose_command("other_target", other))
    document["actions"]["names"] += other
    document["actions"]["poses"]["other"] = pose_section(other)
    relative = RelativeRows(pose_contract(document))
    measured = np.concatenate([pose_at(0.25), np.full(7, np.nan)])
    assert relative.can_resolve(measured)
    rows = np.concatenate([pose_at(0.125), pose_at(0.125)])[np.newaxis].astype(np.float32)
    (found,) = relative.resolve(rows, measured)
    assert found.tolist() == [*pose_at(0.375), *pose_at(0.125)]


@pytest.mark.parametrize("frame", ["tool", "base"])
@pytest.mark.parametrize(("measured_length", "row_length"), [(0.5, 1.0), (1.0, 0.5), (2.0, 0.25)])
def test_the_length_of_a_quaternion_turns_nothing_and_moves_nothing(
    frame: str, measured_length: float, row_length: float
) -> None:
    measured = np.array([0.1, 0.2, 0.3, *turned(1.0, (1.0, 2.0, 3.0))])
    motion = np.array([0.3, 0.1, 0.2, *turned(2.0, (3.0, 1.0, -2.0))])
    expected = composed(measured, motion, frame)
    measured[3:] *= measured_length
    motion[3:] *= row_length
    rows = motion[np.newaxis].astype(np.float32)
    (found,) = RelativeRows(tool_contract("chunk_start", frame)).resolve(rows, measured)
    assert np.linalg.norm(found[3:]) == pytest.approx(1.0)
    assert matrix(found) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("axis", range(4))
def test_a_short_quaternion_says_an_orientation_whichever_axis_it_is_about(axis: int) -> None:
    """It is as long as is just enough, of where the robot was measured and of the row."""
    quaternion = np.zeros(4)
    quaternion[axis] = LEAST_LENGTH
    measured, rows = pose_at(), pose_at()[np.newaxis].astype(np.float32)
    measured[3:], rows[:, 3:] = quaternion, 1.01 * quaternion
    (found,) = RelativeRows(tool_contract("chunk_start", "tool")).resolve(rows, measured)
    assert np.linalg.norm(found[3:]) == pytest.approx(1.0)


def test_no_motion_leaves_the_pose_where_it_was() -> None:
    measured = np.array([0.1, 0.2, 0.3, *turned(1.0, (1.0, 2.0, 3.0))])
    still = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]], np.float32)
    for frame in ("tool", "base"):
        (found,) = RelativeRows(tool_contract("chunk_start", frame)).resolve(still, measured)
        assert found[:3] == pytest.approx(measured[:3])
        assert angles_between(found[np.newaxis, 3:], measured[np.newaxis, 3:])[0] < 1e-3


def test_a_quaternion_that_says_no_orientation_leads_to_none_nor_do_the_rows_that_count_from_it() -> None:
    rows = np.tile(np.array([0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], np.float32), (3, 1))
    rows[1, 3:] = 0.01
    measured = np.array([0.0, 0.0, 0.0, *turned(0.5)])
    lengths = {
        to: np.linalg.norm(RelativeRows(tool_contract(to, "tool")).resolve(rows, measured)[:, 3:], axis=1)
        for to in ("chunk_start", "previous")
    }
    assert lengths["chunk_start"] == pytest.approx([1.0, 0.0, 1.0])
    assert lengths["previous"] == pytest.approx([1.0, 0.0, 0.0])


# -- the contract --------------------------------------------------------------------------------------------


def test_only_positions_can_be_relative() -> None:
    limits = contract_document()["actions"]["limits"]
    limits[ELBOW] |= {"kind": "velocity"}
    with pytest.raises(DocumentError, match=r"relative\.names: found elbow, expected position actions"):
        joints_contract(limits=limits)


def test_a_tool_s_motion_has_one_unit_for_its_three_axes() -> None:
    document = pose_document(relative={"to": "chunk_start", "frame": "tool"})
    scale = [{"unit": "mm", "factor": 1000.0, "names": [POSE[0]]}]
    document["actions"]["scale"] = document["state"][0]["scale"] = scale
    with pytest.raises(DocumentError, match=r"poses\.tool\.relative: found x, y and z in several units"):
        pose_contract(document)


# -- the robot -----------------------------------------------------------------------------------------------


class StepServer(SimulatedServer):
    """Says how far to go: the same steps whatever it sees."""

    steps = np.linspace(0.0, 0.3, CHUNK_SIZE, dtype=np.float32)

    def rows(self, request: Request) -> Float32Array:
        return np.stack([self.steps, -self.steps], axis=1)


@pytest.fixture
def world() -> World:
    contract = joints_contract(names=(SHOULDER, ELBOW))
    return World(make_config(merge_mode="replace"), (StepServer("/server_a"),), contract=contract)


def test_a_robot_that_moved_meanwhile_still_goes_where_the_policy_meant(world: World) -> None:
    """It is measured at the observation, and is elsewhere when the chunk comes."""
    world.inference_ns = ns(0.4)
    streaming(world)
    moved = []
    for _ in range(3):
        sent = len(world.sent)
        world.run_until(lambda before=sent: len(world.sent) > before)
        seen, merged = world.seen.copy(), world.engine.counters.chunks_merged
        world.run_until(lambda before=merged: world.engine.counters.chunks_merged > before)
        newest = world.engine.queue.plan.ahead[-1]
        assert newest.source.seq_id == world.sent[-1].seq_id
        step = StepServer.steps[newest.step_index]
        assert newest.robot == pytest.approx(seen + np.array([step, -step]), abs=1e-5)
        moved.append(float(np.abs(world.seen - seen).max()))
    assert min(moved) > 0.05


def test_what_is_executed_after_an_older_image_is_in_the_measurement_from_which_rows_count(
    world: World,
) -> None:
    """Else it would count twice, and the robot would jump ahead with each chunk."""
    streaming(world)
    camera, sense = world.contract.images["front"].topic, world._receive_sensors
    looks = itertools.count()

    def receive_few_images() -> None:
        world.sensors[camera] = next(looks) % 7 == 0
        sense()

    world._receive_sensors = receive_few_images  # type: ignore[method-assign]
    world.run(3)
    commands = np.stack([tick.command for tick in world.commands_since(0)])
    assert np.abs(np.diff(commands, axis=0)).max() <= 1.5 * StepServer.steps[1]


def test_such_a_robot_asks_for_no_rtc_and_sends_no_rows_to_continue(world: World) -> None:
    streaming(world).run(3)
    offer = world.engine.handshake.offer
    assert (offer.wants_rtc, offer.max_observation_steps) == (False, 1)
    assert len(world.sent) > 2
    assert {request.prefix_robot is None for request in world.sent} == {True}


@pytest.mark.parametrize(("merge_mode", "goes_back"), [("auto", False), ("append", True)])
def test_such_a_robot_does_not_go_back_at_each_seam_unless_its_chunks_are_appended(
    merge_mode: str, goes_back: bool
) -> None:
    contract = joints_contract(names=(SHOULDER, ELBOW))
    world = World(make_config(merge_mode=merge_mode), (StepServer("/server_a"),), contract=contract)
    world.inference_ns = ns(0.4)
    streaming(world).run(3)
    shoulder = np.array([tick.command[0] for tick in world.commands_since(0)])
    assert bool((np.diff(shoulder) < 0.0).any()) is goes_back


def test_a_chunk_is_refused_when_nobody_knows_where_the_robot_was(world: World) -> None:
    world.position = np.full(2, np.nan)
    world.run(2)
    assert world.engine.counters.chunks_rejected > 0
    assert "its actions are relative to where the robot was, which is not known" in world.warnings()
    assert not len(world.engine.queue)


class HugeServer(SimulatedServer):
    """Says finite rows, the sum of which no number holds."""

    def rows(self, request: Request) -> Float32Array:
        rows = np.full((CHUNK_SIZE, 2), 0.01, np.float32)
        rows[CHUNK_SIZE // 2 :] = 3e38
        return rows


def test_a_chunk_whose_rows_become_infinite_is_rejected_whole() -> None:
    contract = joints_contract("previous", names=(SHOULDER, ELBOW))
    world = World(make_config(merge_mode="replace"), (HugeServer("/server_a"),), contract=contract)
    world.run_until(lambda: world.engine.counters.chunks_rejected > 0)
    problem = f"chunk_robot[{CHUNK_SIZE // 2 + 1}, 0]: found inf, expected finite values"
    assert f"rejected: made absolute, {problem}" in world.warnings()
    assert world.engine.counters.chunks_merged == 0
    assert not len(world.engine.queue)
    assert world.engine.guard.counts[NON_FINITE] == 1


def test_a_pose_that_becomes_infinite_is_found_without_a_complaint_of_numpy() -> None:
    rows = np.tile(np.array([3e38, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], np.float32), (3, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = RelativeRows(tool_contract("previous", "base")).resolve(rows, pose_at())
    assert np.isfinite(found).all(axis=1).tolist() == [True, False, False]


def test_a_row_that_says_no_orientation_costs_no_other_row_whatever_the_form() -> None:
    relative, form = {"to": "chunk_start", "frame": "tool"}, "rotation_6d_rows"
    contract = pose_contract(pose_document(relative=relative, rotation=rotation_of(form)))
    rows = np.tile(np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0], np.float32), (CHUNK_SIZE, 1))
    rows[1] = 0.0
    robot = Robot(contract=contract)
    robot.measured = pose_at()
    assert robot.finish(robot.ask(), rows) is None
    points = [contract.action_units.to_robot(row.robot) for row in robot.queue.plan.ahead]
    checked = [robot.guard.check(point, pose_at()).action for point in points]
    assert [action is None for action in checked[:3]] == [False, True, False]
