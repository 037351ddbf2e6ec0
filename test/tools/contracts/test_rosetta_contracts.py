# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts imported from rosetta: what is translated, what is marked, and what is named as lost."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import parse_contract
from remote_inference.base.documents.document import FILL_IN, DocumentError
from remote_inference.base.lerobot_format import import_contract as import_lerobot, to_lerobot
from remote_inference.tools import cli
from remote_inference.tools.contracts.rosetta.importer import import_contract
from support.rosetta import (
    JOINTS,
    NUMBERS,
    POSES,
    arm,
    base,
    begin,
    coded_robot,
    complete,
    filled_in,
    guided_arm,
    places,
    source,
)

CODED = {
    "state.3.fields": ["data[0]", "data[1]"],
    "actions.limits.suction.data.kind": "effort",
    "commands.1.fields": {"data": "suction.data"},
}
SHAPES = {
    "arm": (arm, {}),
    "guided_arm": (guided_arm, {}),
    "coded_robot": (coded_robot, CODED),
    "base": (base, {}),
}


# -- the four shapes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_loads_and_passes_check_when_it_is_filled_in(
    shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    make, known = SHAPES[shape]
    generated = begin(make())
    with pytest.raises(DocumentError) as caught:
        parse_contract(generated.to_yaml(), "generated")
    assert str(caught.value).splitlines() == [f"generated: {line}" for line in generated.marks]
    path = tmp_path / "a.contract.yaml"
    path.write_text(yaml.safe_dump(filled_in(generated, known)))
    assert cli.main(["check", str(path)]) == 0, capsys.readouterr().err


def test_an_arm_has_its_joints_units_cameras_and_names():
    contract = complete(begin(arm()), {})
    assert (contract.robot_type, contract.fps) == ("bench_arm", 20.0)
    assert contract.state_names == contract.actions.names == ("lift", "reach", "gripper")
    assert contract.policy_state_names == contract.policy_action_names == tuple(POSES)
    assert contract.state_units.units == contract.action_units.units == ("degrees",) * 3
    assert contract.camera_topics == {"observation.images.hand.left": "/hand/image/compressed"}
    assert contract.commands[0].topic == "/arm/target"
    assert contract.actions.watched_grippers == ()


def test_what_rosetta_does_not_say_is_marked():
    limits = [f"actions.limits.{n}.{k}" for n in ("lift", "reach", "gripper") for k in NUMBERS]
    assert places(begin(arm())) == limits
    assert places(begin(guided_arm())) == limits


def test_a_person_takes_over_where_one_topic_drives_all_actions():
    takeover = complete(begin(guided_arm()), {}).takeover
    assert takeover is not None
    assert (takeover.topic, takeover.type) == ("/leader/state", JOINTS)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"select": POSES[:2]}, "its joints are not those of the actions"),
        ({"apply": []}, "its `apply` is not that of the action"),
        (
            {"channel": {"topic": "/l", "type": "sensor_msgs/msg/Joy"}, "select": ["axes.0"]},
            "`takeover` takes a",
        ),
        ({"channel": {"topic": "/arm/target", "type": JOINTS}}, "/arm/target is a topic of a command"),
    ],
)
def test_a_person_who_cannot_take_over_is_named(changes: dict[str, Any], why: str):
    document = guided_arm()
    document["teleop"]["input"][0] |= changes
    generated = begin(document)
    assert "takeover" not in generated.content
    assert any(line.startswith(f"teleop.input.0: left out, {why}") for line in generated.notes)


def test_positions_and_velocities_stand_in_one_action_vector():
    generated = begin(coded_robot())
    contract = complete(generated, CODED)
    assert contract.actions.kinds == ("position",) * 3 + ("effort",) + ("velocity",) * 2
    limit = contract.actions.limits["twist.linear.x"]
    assert (limit.min, limit.max, limit.max_velocity, limit.unit) == (-0.4, 0.3, 0.4, "m/s")
    assert contract.commands[2].fields == {
        "twist.linear.x": "twist.linear.x",
        "twist.angular.z": "twist.angular.z",
    }
    assert "actions.limits.suction.data.kind" in places(generated)
    assert not any(place.startswith("actions.limits.twist") for place in places(generated))


def test_one_feature_of_several_topics_has_rosetta_s_prefixes():
    contract = complete(begin(coded_robot()), CODED)
    assert contract.policy_state_names[:4] == tuple(
        ["arm." + pose for pose in POSES] + ["base.twist.twist.linear.x"]
    )
    assert contract.policy_action_names[:4] == (*(f"arm.{pose}" for pose in POSES), "suction.data")


def test_a_joint_with_two_names_in_the_data_set_keeps_its_own():
    document = coded_robot()
    document["actions"] = arm()["actions"]
    document.pop("teleop")
    generated = begin(document)
    assert not any(key.startswith("joints.") for key in generated.content["rename"])
    assert any(line.startswith("lift, reach, gripper: the data set has one name") for line in generated.notes)


def test_each_field_of_a_joint_state_is_an_item():
    state = complete(begin(base()), {}).state
    assert [(item.field, item.names) for item in state[:2]] == [
        ("position", ("left_wheel", "right_wheel")),
        ("velocity", ("left_wheel", "right_wheel")),
    ]
    assert state[2].fields == ("angular_velocity.z",)
    assert complete(begin(base()), {}).policy_state_names[2] == "wheels.velocity.left_wheel"


def test_the_first_task_that_is_a_text_is_the_topic_of_instructions():
    text = {"channel": {"topic": "/say", "type": "std_msgs/msg/String"}}
    number = {"channel": {"topic": "/goal", "type": "std_msgs/msg/Int32"}}
    generated = begin(arm() | {"tasks": {"goal": number, "task": text, "subtask": text}})
    assert generated.content["instruction"] == {"topic": "/say", "type": "std_msgs/msg/String"}
    notes = " ".join(" ".join(generated.notes).split())
    assert "tasks.goal, tasks.subtask: left out, `instruction` is one std_msgs/msg/String" in notes


# -- what has no place ---------------------------------------------------------------------------------------


def test_what_has_no_place_is_named_with_its_place():
    notes = " ".join(" ".join(begin(coded_robot()).notes).split())
    for place, words in (
        ("observations.observation.images.hand.left.apply.resize", "left out; the policy's manifest says"),
        ("observations.observation.tilt.kind", "quaternion is left out"),
        ("observations.observation.tilt.align", "left out; the newest message counts"),
        ("observations.observation.cells.channel.decoder", "left out; an entry point of"),
        ("observations.observation.tilt, observations.observation.cells", "joins the one state"),
        ("actions.action.1.kind", "binary is left out"),
        ("actions.action.1.channel.encoder", "left out; an entry point of"),
        ("actions.action.base", "joins the one action vector"),
        ("teleop.input.0", "left out, `takeover` has one topic for all actions"),
        ("teleop.events.success", "left out, no button has a meaning"),
        ("actions.action.0.channel.safety", "the parameter fallback says it: hold or repeat_last"),
        ("actions.action.base.channel.safety", "the parameter fallback says it: zero for velocities"),
        (
            "rewards.next.reward, signals.next.done, info.late, complementary_data.note",
            "left out, a policy sees",
        ),
        ("adjunct.0 (/tf)", "left out, record it"),
        ("suction.data", "if it is a position, the key `measured`"),
    ):
        assert f"{place}: {words}" in notes


def test_notes_are_comments_of_the_file():
    text = begin(coded_robot()).to_yaml()
    assert yaml.safe_load(text) == begin(coded_robot()).content


def test_a_text_and_a_second_feature_of_one_camera_are_left_out():
    document = arm()
    hand = document["observations"]["observation.images.hand.left"]
    document["observations"] |= {
        "observation.images.again": hand,
        "observation.words": source("/words", "std_msgs/msg/String"),
    }
    notes = begin(document).notes
    assert "observations.observation.words: left out, a text is no number of the state" in notes
    assert "observations.observation.images.again: left out, the camera hand_left has its topic" in notes


# -- units and bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("apply", "ends"),
    [
        ([{"clamp": {"min": -90, "max": 45}}], (-90.0, 45.0)),
        (["rad2deg", {"clamp": {"min": -90, "max": 45}}], (-math.pi / 2, math.pi / 4)),
        (
            [{"clamp": {"min": -1, "max": 1}}, "rad2deg", {"clamp": {"min": -90, "max": 45}}],
            (-1.0, math.pi / 4),
        ),
    ],
)
def test_a_clamp_of_actions_is_their_range_in_the_robot_s_unit(apply: list[Any], ends: tuple[float, float]):
    document = arm()
    document["actions"]["action"]["apply"] = apply
    limit = begin(document).content["actions"]["limits"]["lift"]
    assert (limit["min"], limit["max"]) == pytest.approx(ends)
    assert limit["max_velocity"].startswith(FILL_IN)


def test_a_clamp_without_zero_is_asked_for_again_where_zero_stops():
    document = base()
    document["actions"]["action"]["apply"] = [{"clamp": {"min": 0.1, "max": 0.4}}]
    low = begin(document).content["actions"]["limits"]["linear.x"]["min"]
    assert low == f"{FILL_IN}: lowest command [m/s], of a range with 0; rosetta's clamp says 0.1 to 0.4"


def test_degrees_of_what_is_no_angle_have_a_factor():
    document = base()
    document["actions"]["action"]["apply"] = ["rad2deg"]
    document["observations"]["observation.state"][0] |= {
        "select": ["effort.left_wheel"],
        "apply": ["rad2deg"],
    }
    contract = complete(begin(document), {})
    assert contract.state[0].scale[0].factor == contract.actions.scale[1].factor == math.degrees(1)
    assert [scale.names for scale in contract.actions.scale] == [("angular.z",), ("linear.x",)]


def test_an_operator_of_somebody_s_own_asks_for_its_unit():
    document = arm()
    document["actions"]["action"]["apply"] = ["soften", {"clamp": {"min": -1, "max": 1}}]
    generated = begin(document)
    assert {"actions.scale.0.unit", "actions.scale.0.factor", "actions.limits.lift.min"} <= set(
        places(generated)
    )
    complete(generated, {"actions.scale.0.unit": "mm", "actions.scale.0.factor": 1000.0})


# -- message types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "select", "fields"),
    [
        ("std_msgs/msg/Float64", None, ["data"]),
        ("std_msgs/msg/Int32", ["level"], ["data"]),
        ("std_msgs/msg/Float32MultiArray", ["a", "b"], ["data[0]", "data[1]"]),
        ("std_msgs/msg/Float64MultiArray", None, ["data[0]"]),
        ("sensor_msgs/msg/Joy", ["2", "buttons.1"], ["axes[2]", "buttons[1]"]),
        ("geometry_msgs/msg/TwistStamped", ["twist.linear.x"], ["twist.linear.x"]),
        ("sensor_msgs/msg/Temperature", ["temperature"], ["temperature"]),
        ("trajectory_msgs/msg/JointTrajectory", ["lift", "accelerations.lift"], None),
        ("control_msgs/msg/MultiDOFCommand", ["values.x"], None),
        ("sensor_msgs/msg/LaserScan", ["ranges[0]"], None),
        ("my_msgs/msg/Weight", None, None),
    ],
)
def test_the_fields_of_each_message(type_: str, select: list[str] | None, fields: list[str] | None):
    document = arm()
    document["observations"]["observation.more"] = source("/more", type_, select)
    found = begin(document).content["state"][1]["fields"]
    assert found == fields or (fields is None and found.startswith(f"{FILL_IN}: a list of the"))


@pytest.mark.parametrize(
    ("type_", "select", "command", "kind"),
    [
        (JOINTS, ["velocity.lift"], {"names": ["lift"]}, "velocity"),
        (JOINTS, ["lift", "position.reach"], {"names": ["lift", "reach"]}, "position"),
        ("trajectory_msgs/msg/JointTrajectory", ["positions.lift"], {"names": ["lift"]}, "position"),
        ("std_msgs/msg/Float64MultiArray", ["effort.lift"], {"names": ["lift"]}, "effort"),
        ("std_msgs/msg/Float64MultiArray", ["a", "b"], {"names": ["a", "b"]}, None),
        ("std_msgs/msg/Float32MultiArray", ["a"], {"fields": {"data[0]": "a"}}, None),
        ("std_msgs/msg/Float32", None, {"fields": {"data": "arm_target"}}, None),
        ("geometry_msgs/msg/Twist", ["linear.x"], {"fields": {"linear.x": "linear.x"}}, "velocity"),
    ],
)
def test_the_command_of_each_message(
    type_: str, select: list[str] | None, command: dict[str, Any], kind: Any
):
    document = arm()
    document["actions"]["action"] = source("/arm/target", type_, select)
    content = begin(document).content
    assert content["commands"] == [{"topic": "/arm/target", "type": type_, **command}]
    assert content["actions"]["kind"] == (
        kind or f"{FILL_IN}: position, velocity or effort: what the controllers take"
    )


@pytest.mark.parametrize("type_", ["sensor_msgs/msg/Joy", "std_msgs/msg/Int32MultiArray", "my_msgs/msg/Grip"])
def test_a_message_without_numbers_for_actions_asks_for_its_fields(type_: str):
    document = arm()
    document["actions"]["action"] = source("/arm/target", type_, ["axes.0"])
    assert (
        begin(document)
        .content["commands"][0]["fields"]
        .startswith(f"{FILL_IN}: a mapping with a field of {type_}")
    )


def test_positions_that_the_state_does_not_hold_are_to_be_measured():
    document = arm()
    document["observations"]["observation.state"]["select"] = ["position.lift"]
    generated = begin(document)
    assert {"measured.topic", "measured.names"} <= set(places(generated))
    complete(generated, {"measured.topic": "/arm/state", "measured.names": ["lift", "reach", "gripper"]})


def test_an_action_of_which_only_a_person_knows_that_it_is_a_position_is_to_be_measured_then():
    document = arm()
    document["actions"]["action.lid"] = source("/lid/target", "std_msgs/msg/Float32", ["data"])
    generated = begin(document)
    assert any(
        "if it is a position, the key `measured` has to name a joint" in note for note in generated.notes
    )
    place = "actions.limits.data.kind"
    assert place in places(generated)
    complete(generated, {place: "velocity"})
    with pytest.raises(DocumentError, match="state holds no position of data, "):
        complete(generated, {place: "position"})


# -- into LeRobot's data sets and back -----------------------------------------------------------------------

joints = st.lists(st.text("abcdefgh_äµ.", min_size=1, max_size=8), min_size=1, max_size=4, unique=True)


@given(
    joints, st.booleans(), st.sampled_from([[], ["rad2deg"]]), st.sampled_from(["b", "arm/left", "arm/state"])
)
def test_any_arm_loads_with_the_names_of_its_data_set(
    names: list[str], split: bool, apply: list[str], topic: str
):
    document = arm()
    poses = [f"position.{name}" for name in names]
    state = [source("/arm/state", JOINTS, poses, apply=apply)]
    if split:
        state.append(source(f"/{topic}", JOINTS, [f"velocity.{name}" for name in names]))
    document["observations"]["observation.state"] = state
    document["actions"]["action"] = source("/arm/target", JOINTS, poses, apply=apply)
    contract = complete(begin(document), {})
    if not split or topic == "arm/state":
        assert contract.policy_action_names == contract.policy_state_names[: len(poses)] == tuple(poses)
    info = to_lerobot(contract)
    for feature in info["features"].values():
        feature["shape"][:2] = feature["shape"][:2] if len(feature["shape"]) == 1 else [240, 320]
    generated = import_lerobot(json.dumps(info), "info.json")
    assert generated.content["fps"] == contract.fps
    assert generated.content["actions"]["names"] == list(contract.policy_action_names)
    assert ("scale" in generated.content["actions"]) == bool(apply)


# -- the page and the verb -----------------------------------------------------------------------------------


def test_the_verb_writes_the_contract_and_lists_its_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file, out = tmp_path / "rosetta.yaml", tmp_path / "a.contract.yaml"
    file.write_text(yaml.safe_dump(guided_arm(), sort_keys=False))
    assert cli.main(["contract", "from-rosetta", str(file), "--out", str(out)]) == 0
    listed = capsys.readouterr().err.splitlines()
    assert listed == begin(guided_arm()).marks
    assert out.read_text() == begin(guided_arm()).to_yaml()
    assert cli.main(["contract", "from-rosetta", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["marks"] == listed
    file.write_text("fps: 3")
    assert cli.main(["contract", "from-rosetta", str(file)]) == 2
    assert f"{file}: robot_type: missing" in capsys.readouterr().err


def test_the_page_shows_what_the_verb_writes():
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "rosetta.md").read_text()
    given_, written = (
        block.strip("\n") for block in re.findall(r"^```\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[1:3]
    )
    assert import_contract(given_.encode(), "bench_arm.yaml").to_yaml().strip("\n") == written
