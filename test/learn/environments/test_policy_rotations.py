# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy that says orientations otherwise than by a quaternion: its columns, and the robot's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from remote_inference.base.admission import make_offer
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.lerobot_format import joint_features
from remote_inference.base.policy import Float32Array
from remote_inference.learn.hud.contract import to_hud
from remote_inference.robot.queue.relative_rows import RelativeRows
from remote_inference.robot.safety.guard import DIMENSION, Guard
from support.builders import FLOAT64_MULTI_ARRAY, FPS
from support.robot.pose_robot import POSE, pose_at, pose_contract, pose_document, turned

VECTOR = {"form": "rotation_vector", "names": ["rx", "ry", "rz"]}
ROWS = {"form": "rotation_6d_rows", "names": [f"r{place}" for place in range(6)]}
QUATERNION = list(POSE[3:])
Document = dict[str, Any]


def make_document(
    rotation: Document | None = VECTOR, seen: Document | None = VECTOR, **pose: Any
) -> Document:
    """Return the contract of a pose and a gripper, whose names stand among the quaternion's."""
    document = pose_document(**pose)
    document["actions"]["names"] = ["x", "y", "z", "qw", "gripper", "qx", "qy", "qz"]
    document["actions"]["limits"] = {"gripper": {"min": 0.0, "max": 1.0, "max_velocity": 1.0}}
    document["commands"].append({"topic": "hand", "type": FLOAT64_MULTI_ARRAY, "names": ["gripper"]})
    document["state"].append(
        {"topic": "joints", "type": "sensor_msgs/msg/JointState", "field": "position", "names": ["gripper"]}
    )
    if rotation is not None:
        document["actions"]["poses"]["tool"]["rotation"] = rotation
    if seen is not None:
        document["state"][0]["rotations"] = [seen | {"quaternion": QUATERNION}]
    return document


def make_contract(*forms: Document | None, **pose: Any) -> Contract:
    return pose_contract(make_document(*forms, **pose))


def test_the_policy_s_numbers_stand_where_the_quaternion_s_first_one_stood():
    contract = make_contract(VECTOR, ROWS)
    assert contract.policy_action_names == ("x", "y", "z", "rx", "ry", "rz", "gripper")
    assert contract.policy_state_names == ("x", "y", "z", *ROWS["names"], "gripper")
    assert contract.state_names == (*POSE, "gripper")  # the robot's side knows quaternions alone
    assert contract.actions.names == ("x", "y", "z", "qw", "gripper", "qx", "qy", "qz")


def test_an_offer_says_names_units_and_kinds_of_the_policy_s_numbers():
    offer = make_offer(make_contract(VECTOR, ROWS, relative={"to": "previous", "frame": "tool"}))
    assert list(zip(offer.action_names, offer.action_units, offer.action_kinds, strict=True)) == [
        *((axis, "m", "relative_pose") for axis in "xyz"),
        *((name, "rad", "relative_pose") for name in VECTOR["names"]),
        ("gripper", "rad", "position"),
    ]
    assert list(zip(offer.state_names, offer.state_units, strict=True)) == [
        *((axis, "m") for axis in "xyz"),
        *((name, "") for name in ROWS["names"]),
        ("gripper", "rad"),
    ]


def test_a_row_becomes_a_quaternion_and_a_quaternion_a_row():
    units = make_contract().action_units
    row = [0.1, 0.2, 0.3, 0.0, 0.0, 0.5, 0.75]
    robot = units.to_robot(row)
    x, y, z, w = turned(0.5)
    np.testing.assert_allclose(robot, [0.1, 0.2, 0.3, w, 0.75, x, y, z], atol=1e-12)
    np.testing.assert_allclose(units.to_policy(robot), row, atol=1e-12)
    np.testing.assert_allclose(units.to_robot([[row] * 2] * 3), [[robot] * 2] * 3)
    np.testing.assert_allclose(units.to_policy([[robot] * 2] * 3), [[row] * 2] * 3)


def test_positions_beside_it_may_have_another_unit():
    document = make_document()
    mm = {"unit": "mm", "factor": 1000.0, "names": ["x", "y", "z"]}
    document["actions"]["scale"] = document["state"][0]["scale"] = [mm]
    contract = pose_contract(document)
    row = contract.action_units.to_robot([100.0, -200.0, 300.0, 0.0, 0.0, 0.5, 0.0])
    assert row[:3] == pytest.approx([0.1, -0.2, 0.3])
    assert contract.policy_action_units[:4] == ("mm", "mm", "mm", "rad")


def test_two_contracts_are_told_apart_by_their_forms():
    assert make_contract().action_units == make_contract().action_units
    assert make_contract().action_units != make_contract({**VECTOR, "form": "roll_pitch_yaw"}).action_units


def test_the_guard_takes_chunks_of_the_policy_s_width():
    guard = Guard(make_contract(ROWS).actions, 1.0 / FPS)
    assert guard.check_chunk(2, chunk_robot=np.zeros((2, 10), np.float32)) == ""
    assert "found shape [2, 8], expected [2, 10]" in guard.check_chunk(
        2, chunk_robot=np.zeros((2, 8), np.float32)
    )
    assert guard.counts[DIMENSION] == 1


@pytest.mark.parametrize("to", ["chunk_start", "previous"])
@pytest.mark.parametrize("frame", ["tool", "base"])
@pytest.mark.parametrize("form", [VECTOR, ROWS])
def test_motions_lead_where_the_same_motions_by_quaternions_lead(form: Document, frame: str, to: str):
    relative = {"to": to, "frame": frame}
    ours, others = make_contract(form, relative=relative), make_contract(None, relative=relative)
    motions = np.array([[0.1, 0.0, -0.1, w, 0.5, x, y, z] for x, y, z, w in map(turned, (0.3, -0.2, 0.7))])
    measured = np.array([0.1, 0.2, 0.3, turned(1.0)[3], 0.25, *turned(1.0)[:3]])

    def resolve(contract: Contract) -> Float32Array:
        units, relative_rows = contract.action_units, RelativeRows(contract)
        rows = relative_rows.resolve(units.to_policy(motions).astype(np.float32), measured)
        assert rows.shape == (3, units.policy_dim)
        return units.to_robot(rows)

    np.testing.assert_allclose(resolve(ours), resolve(others), atol=1e-6)


def test_six_numbers_that_say_no_orientation_are_a_quaternion_that_the_guard_refuses():
    contract = make_contract(ROWS)
    action = contract.action_units.to_robot(np.zeros(10))
    assert Guard(contract.actions, 1.0 / FPS).check(action, pose_row(contract)).action is None


def pose_row(contract: Contract) -> np.ndarray:
    """Return the action in which the robot stands upright."""
    action = np.zeros(contract.action_dim)
    action[contract.actions.names.index("qw")] = 1.0
    return action


def test_other_programs_get_the_policy_s_names_and_ends():
    contract = make_contract(VECTOR, ROWS)
    action = to_hud(contract)["features"]["action"]
    assert action["names"] == ["x", "y", "z", "rx", "ry", "rz", "gripper"]
    assert action["limits"]["max"] == pytest.approx([0.5, 0.5, 0.5, np.pi, np.pi, np.pi, 1.0])
    assert action["limits"]["min"] == pytest.approx([-0.5, -0.5, -0.5, -np.pi, -np.pi, -np.pi, 0.0])
    features = joint_features(contract)
    assert features["observation.state"]["names"] == ["x", "y", "z", *ROWS["names"], "gripper"]


def seen(**changes: Any) -> Callable[[Document], object]:
    return lambda document: document["state"][0]["rotations"][0].update(changes)


def commanded(**changes: Any) -> Callable[[Document], object]:
    return lambda document: document["actions"]["poses"]["tool"].update(rotation={**VECTOR, **changes})


def twice(document: Document) -> None:
    (rotation,) = document["state"][0]["rotations"]
    document["state"][0]["rotations"] = [rotation, rotation | {"names": ["a", "b", "c"]}]


REFUSED: list[tuple[Callable[[Document], object], list[str]]] = [
    (commanded(names=["rx", "ry"]), ["poses.tool.rotation", "names: found 2, expected 3 of a rotation_vec"]),
    (commanded(names=["rx", "ry", "rx"]), ["poses.tool.rotation", "rx found more than once"]),
    (
        commanded(form="rotation_vectors"),
        ["poses.tool.rotation.form", "'rotation_vectors'", "rotation_vector"],
    ),
    (commanded(names=["x", "ry", "rz"]), ["action names", "x found more than once"]),
    (seen(form="rotation_6d_rows"), ["state.0.rotations.0", "names: found 3, expected 6"]),
    (seen(quaternion=["qx", "qy", "qz"]), ["state.0.rotations.0.quaternion"]),
    (seen(quaternion=["qx", "qy", "qz", "w"]), ["rotations: found w, expected names of x, y, z, qx"]),
    (seen(quaternion=["qx", "qy", "qz", "qx"]), ["rotations: quaternion", "qx found more than once"]),
    (twice, ["rotations: quaternion", "qw, qx, qy, qz found more than once"]),
    (
        lambda d: d["state"][1].update(rotations=[{**VECTOR, "quaternion": ["gripper"] * 4}]),
        ["state.1", "found more than once"],
    ),
    (
        lambda d: d["state"][0].update(scale=[{"unit": "flip", "factor": -1.0, "names": ["qx"]}]),
        ["found qx in scale", "a quaternion has no unit"],
    ),
    (
        lambda d: d.update(measured=[d["state"][0]]),
        ["measured.rotations: found one, expected none: the policy does not see it"],
    ),
    (lambda d: d.update(rename={"joints.qx": "turn"}), ["rename has joints.qx"]),
    (lambda d: d.update(rename={"joints.rx": "turn"}), ["rename has joints.rx"]),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_a_form_that_does_not_fit_is_refused_with_words(
    change: Callable[[Document], object], words: list[str]
):
    document = make_document()
    change(document)
    with pytest.raises(DocumentError) as caught:
        pose_contract(document)
    for word in ("pose.contract.yaml", *words):
        assert word in str(caught.value)


def test_an_orientation_is_converted_in_the_state_alone_or_in_the_actions_alone():
    assert make_contract(None, VECTOR).policy_action_names == make_contract(None, None).actions.names
    assert make_contract(VECTOR, None).policy_state_names == (*POSE, "gripper")
    state = make_contract(None, VECTOR).state_units.to_policy([*pose_at(0.1, angle=0.5), 0.75])
    np.testing.assert_allclose(state, [0.1, 0.0, 0.0, 0.0, 0.0, 0.5, 0.75], atol=1e-12)
