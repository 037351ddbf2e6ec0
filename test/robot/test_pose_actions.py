# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Poses in a contract: which are refused and with which words, and what the others come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.commands.sink import ANY_KIND, COMMAND_INTERFACES, CommandInterface
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import stop_controller
from remote_inference.base.documents.document import DocumentError
from remote_inference.robot.config import RobotConfig
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY
from support.robot.pose_robot import (
    POSE,
    pose_at,
    pose_command,
    pose_contract,
    pose_document,
    pose_section,
    pose_state,
)

JOINT_STATE = "sensor_msgs/msg/JointState"
HOME_POSE = [0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0]
Document = dict[str, Any]


def with_arm(document: Document | None = None) -> Document:
    """Return the contract of a pose beside two joints, which have a controller of their own."""
    document = document or pose_document()
    names = ["pan", "lift"]
    document["state"].append({"topic": "joints", "type": JOINT_STATE, "field": "position", "names": names})
    document["actions"]["names"] += names
    document["actions"]["limits"] = {name: {"min": -1.0, "max": 1.0, "max_velocity": 1.0} for name in names}
    document["commands"].append({"topic": "arm", "type": FLOAT64_MULTI_ARRAY, "names": names})
    return document


def break_pose(**changes: Any) -> Callable[[Document], object]:
    return lambda document: document["actions"]["poses"]["tool"].update(changes)


def split(document: Document) -> None:
    document["commands"] = [
        {"topic": "place", "type": FLOAT64_MULTI_ARRAY, "names": list(POSE[:3])},
        {"topic": "turn", "type": FLOAT64_MULTI_ARRAY, "names": list(POSE[3:])},
    ]


def by_trajectory(document: Document) -> None:
    document["commands"] = [{"topic": "target", "type": JOINT_TRAJECTORY, "names": list(POSE)}]


def by_joint_state(document: Document) -> None:
    document["commands"] = [{"topic": "target", "type": JOINT_STATE, "names": list(POSE)}]


def by_action(document: Document) -> None:
    command = pose_command()
    del command["topic"]
    document["commands"] = [command | {"action": "move", "type": "moves/action/Move"}]


def second_pose(names: list[str]) -> Callable[[Document], object]:
    return lambda document: document["actions"]["poses"].update(camera=pose_section(names))


def scaled(**scale: Any) -> Callable[[Document], object]:
    return lambda document: document["actions"].update(scale=[scale])


REFUSED: list[tuple[Callable[[Document], object], list[str]]] = [
    (split, ["commands", "pose tool", "place and turn", "expected it in one command"]),
    (by_trajectory, ["target", "JointTrajectory", "kind position", "found pose"]),
    (by_joint_state, ["target", "JointState", "found pose"]),
    (by_action, ["move", "kind position", "found pose"]),
    (second_pose(list(POSE)), ["found x in tool and camera", "expected it in one pose"]),
    (break_pose(position=["x", "y", "x"]), ["tool", "x found more than once"]),
    (break_pose(position=["x", "y", "height"]), ["poses.tool.position", "found height", "actions.names"]),
    (break_pose(quaternion=["qx", "qy", "qz", "q"]), ["poses.tool.quaternion", "found q", "actions.names"]),
    (break_pose(min=[-0.5, 0.5, -0.5]), ["poses.tool", "min 0.5 and max 0.5 of y", "expected min < max"]),
    (break_pose(max_velocity=0.0), ["poses.tool.max_velocity", "0.0"]),
    (lambda d: d["actions"]["poses"]["tool"].pop("max_angular_velocity"), ["max_angular_velocity: missing"]),
    (
        lambda d: d["actions"].update(limits={"x": {"min": -1, "max": 1, "max_velocity": 1}}),
        ["limits.x", "of the pose tool", "poses.tool has its bounds"],
    ),
    (
        lambda d: d["actions"].update(poses={"x": d["actions"]["poses"]["tool"]}),
        ["poses.x", "name of an action"],
    ),
    (scaled(unit="mm", factor=1000.0, names=["x", "qw"]), ["scale.0.names", "qw of a quaternion"]),
    (scaled(unit="degrees", names=["x"]), ["scale.0.unit", "degrees with pose"]),
    (
        lambda d: d["state"][0].update(scale=[{"unit": "flip", "factor": -1.0, "names": ["qx"]}]),
        ["scale of qx", "of a quaternion"],
    ),
    (
        lambda d: d["state"][0].update(
            scale=[{"unit": "mm", "factor": 1000.0, "offset": 5.0, "names": ["x"]}]
        ),
        ["scale: found x", "expected one zero"],
    ),
    (lambda d: d.update(home={"duration_s": 1.0}), ["home.poses: found none, expected tool"]),
    (
        lambda d: d.update(home={"poses": {"hand": HOME_POSE}, "duration_s": 1.0}),
        ["home.poses: found hand, expected tool"],
    ),
    (
        lambda d: d.update(home={"poses": {"tool": [9.0, *HOME_POSE[1:]]}, "duration_s": 1.0}),
        ["home.poses.tool: found x 9.0, expected -0.5 to 0.5"],
    ),
    (
        lambda d: d.update(home={"poses": {"tool": [0.0] * 7}, "duration_s": 1.0}),
        ["home.poses.tool: found a quaternion of length 0.000, expected length 1"],
    ),
    (
        lambda d: with_arm(d).update(home={"poses": {"tool": HOME_POSE}, "duration_s": 1.0}),
        ["home.positions has 0 values, expected"],
    ),
    (
        lambda d: d.update(
            state=[{"topic": "j", "type": JOINT_STATE, "field": "position", "names": ["pan"]}]
        ),
        ["no source of state holds the pose tool", "x, y, z, qx, qy, qz, qw", "measured"],
    ),
    (
        lambda d: d.update(
            state=[
                {**pose_state(), "fields": pose_state()["fields"][:3], "names": list(POSE[:3])},
                {**pose_state("turn"), "fields": pose_state()["fields"][3:], "names": list(POSE[3:])},
            ]
        ),
        ["no source of state holds the pose tool", "in one of them"],
    ),
    (
        lambda d: d.update(measured=[pose_state(names=[f"other.{name}" for name in POSE])]),
        ["measured.type", "seven names of a pose"],
    ),
]


@pytest.mark.parametrize(("change", "words"), REFUSED)
def test_a_pose_that_cannot_be_commanded_is_refused_with_words(
    change: Callable[[Document], object], words: list[str]
):
    document = pose_document()
    change(document)
    with pytest.raises(DocumentError) as caught:
        pose_contract(document)
    for word in ("pose.contract.yaml", *words):
        assert word in str(caught.value)


def test_a_command_that_takes_rows_ahead_takes_no_pose(monkeypatch: pytest.MonkeyPatch):
    ahead = CommandInterface(kinds=ANY_KIND, takes_horizon=True)
    monkeypatch.setattr(type(COMMAND_INTERFACES), "get", lambda *_: ahead)
    document = pose_document()
    document["commands"] = [{"topic": "target", "type": FLOAT64_MULTI_ARRAY, "names": list(POSE)}]
    with pytest.raises(DocumentError, match="target takes actions ahead, expected another type for a pose"):
        pose_contract(document)


def test_the_kind_and_unit_of_each_number_follow_from_the_pose():
    actions = pose_contract(with_arm()).actions
    assert actions.kinds == (*7 * ["pose"], "position", "position")
    assert actions.positions == ("pan", "lift")
    assert [actions.unit(name) for name in actions.names] == [*3 * ["m"], *4 * [""], "rad", "rad"]
    assert [(actions.limit_of(name).min, actions.limit_of(name).max) for name in ("x", "qw", "pan")] == [
        (-0.5, 0.5),
        (-1.0, 1.0),
        (-1.0, 1.0),
    ]


def test_a_pose_may_stand_anywhere_in_the_action_vector():
    document = with_arm()
    document["actions"]["names"] = ["qw", "pan", "x", "qx", "lift", "z", "qy", "y", "qz"]
    actions = pose_contract(document).actions
    assert actions.kinds == tuple("position" if name in ("pan", "lift") else "pose" for name in actions.names)


def test_the_position_of_a_pose_may_have_another_unit():
    document = pose_document()
    mm = {"unit": "mm", "factor": 1000.0, "names": ["x", "y", "z"]}
    document["actions"]["scale"] = document["state"][0]["scale"] = [mm]
    contract = pose_contract(document)
    row = contract.action_units.to_robot(pose_at(100.0, -200.0, 300.0, angle=0.5))
    assert row == pytest.approx(pose_at(0.1, -0.2, 0.3, angle=0.5))


# -- where it is measured ------------------------------------------------------------------------------------


def measured_by(contract: Contract) -> dict[str, tuple[str, ...]]:
    return {one.place: one.actions for one in contract.measurements}


def test_a_pose_is_measured_by_the_source_that_has_its_names():
    document = with_arm()
    document["state"].insert(0, {"topic": "force", "type": "a/msg/B", "fields": ["x"], "names": ["force"]})
    contract = pose_contract(document)
    assert measured_by(contract) == {"state.1": POSE, "state.2": ("pan", "lift")}
    assert contract.measured_topics == ("tool_pose", "joints")
    assert contract.measured_actions == contract.actions.names


def test_other_numbers_of_a_source_measure_nothing():
    document = pose_document()
    document["state"] = [{**pose_state(), "fields": ["a", *pose_state()["fields"]], "names": ["n", *POSE]}]
    assert measured_by(pose_contract(document)) == {"state.0": ("", *POSE)}


def test_a_pose_that_the_policy_does_not_see_is_measured_apart():
    document = with_arm()
    document["measured"] = [document["state"].pop(0)]
    contract = pose_contract(document)
    assert measured_by(contract) == {"state.0": ("pan", "lift"), "measured": POSE}
    assert contract.state_names == ("pan", "lift")


def test_a_measured_pose_comes_before_one_in_the_state():
    document = pose_document() | {"measured": pose_state("tracker")}
    assert measured_by(pose_contract(document)) == {"measured": POSE}


def test_joints_and_poses_are_measured_by_several_sources():
    document = with_arm()
    joints = {"type": JOINT_STATE, "field": "position"}
    document["state"] = [{"topic": "force", "type": "a/msg/B", "fields": ["x"]}]
    document["measured"] = [
        joints | {"topic": "first", "names": ["joint_1"]},
        pose_state(),
        joints | {"topic": "second", "names": ["joint_2"]},
    ]
    contract = pose_contract(document)
    found = {"measured.0": ("pan",), "measured.1": POSE, "measured.2": ("lift",)}
    assert measured_by(contract) == found
    assert pose_contract(contract.model_dump(mode="json", exclude_defaults=True)) == contract


def test_measured_positions_need_a_joint_each_beside_a_pose():
    document = with_arm()
    document["measured"] = [
        pose_state(),
        {"topic": "j", "type": JOINT_STATE, "field": "position", "names": ["joint_1"]},
    ]
    document["state"].pop(0)
    with pytest.raises(DocumentError, match=r"found 1 names of field position, expected .* of the 2 actions"):
        pose_contract(document)


# -- how it is treated ---------------------------------------------------------------------------------------


def test_a_controller_of_poses_keeps_its_last_one_in_silence():
    contract = pose_contract()
    stop = stop_controller(contract, contract.commands[0], {})
    assert stop.action is None
    assert not stop.failed
    assert "keeps its last pose" in stop.outcome


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_poses_have_the_fallbacks_of_positions(fallback: str):
    RobotConfig(fallback=fallback).check_fallback("pose")
    RobotConfig(fallback=fallback).check_fallback("pose", "velocity", "position")


def test_zeros_are_refused_as_a_pose():
    with pytest.raises(ValueError, match="found 'zero' for pose actions, expected 'hold' or 'repeat_last'"):
        RobotConfig(fallback="zero").check_fallback("velocity", "pose")


def test_a_pose_has_no_place_in_the_limits_of_a_contract():
    document = with_arm()
    document["actions"]["limits"]["pan"] = {"kind": "pose", "min": -1.0, "max": 1.0, "max_velocity": 1.0}
    with pytest.raises(DocumentError, match=r"limits.pan.kind"):
        pose_contract(document)


def test_an_array_may_carry_a_pose_in_an_order_of_its_own():
    document = pose_document()
    names = list(reversed(POSE))
    document["commands"] = [{"topic": "target", "type": FLOAT64_MULTI_ARRAY, "names": names}]
    contract = pose_contract(document)
    assert contract.kind_of(contract.commands[0]) == "pose"
    assert np.array(contract.commands[0].names).tolist() == names


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ({"type": JOINT_STATE}, "measured.topic: missing, expected topic, relative to the robot's namespace"),
        ([pose_state(), {"type": JOINT_STATE}], "measured.1.topic: missing, expected topic, relative"),
        (pose_state() | {"naems": []}, "measured.naems: unknown key, did you mean 'names'?"),
        (pose_state() | {"topic": "a//b"}, "measured.topic: found '//'"),
        ([pose_state() | {"topic": "a//b"}], "measured.0.topic: found '//'"),
        ("tool_pose", "measured: found 'tool_pose', expected a list"),
    ],
)
def test_a_problem_of_what_is_measured_is_told_at_its_place(measured: Any, problem: str):
    with pytest.raises(DocumentError) as caught:
        pose_contract(pose_document() | {"measured": measured})
    assert str(caught.value).startswith(f"pose.contract.yaml: {problem}")
