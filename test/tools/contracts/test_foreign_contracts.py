# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts of LeRobot data sets and of HUD environments: both directions, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import Contract, parse_contract
from remote_inference.base.contract.generated import GeneratedContract
from remote_inference.base.documents.document import FILL_IN, DocumentError, parse_document
from remote_inference.base.errors import UserError
from remote_inference.base.lerobot_format import import_contract, to_lerobot
from remote_inference.learn.hud.contract import import_contract as import_hud, to_hud
from remote_inference.tools import cli
from support.builders import contract_document

INFO: dict[str, Any] = {
    "codebase_version": "v3.0",
    "robot_type": "so101_follower",
    "fps": 30,
    "features": {
        "action": {"dtype": "float32", "shape": [2], "names": ["lift.pos", "gripper.pos"]},
        "observation.state": {"dtype": "float32", "shape": [2], "names": ["lift.pos", "gripper.pos"]},
        "observation.images.front": {"dtype": "video", "shape": [480, 640, 3], "names": ["h", "w", "c"]},
        "observation.depth": {"dtype": "image", "shape": [480, 640, 1], "info": {"is_depth_map": True}},
        "observation.force": {"dtype": "float32", "shape": [1], "names": ["force"]},
        "timestamp": {"dtype": "float32", "shape": [1], "names": None},
    },
}
HUD: dict[str, Any] = {
    "robot_type": "arm",
    "control_rate": 15,
    "features": {
        "left/image": {"role": "observation", "type": "rgb"},
        "state": {"role": "observation", "names": ["lift", "lift.velocity"]},
        "prompt": {"role": "observation", "dtype": "string"},
        "action": {
            "role": "action",
            "type": "joint_pos",
            "names": ["lift"],
            "limits": {"min": [-1], "max": [1]},
        },
    },
}


def places(generated: GeneratedContract) -> list[str]:
    return [line.partition(": ")[0] for line in generated.marks]


def begin_from_lerobot(info: dict[str, Any]) -> GeneratedContract:
    return import_contract(json.dumps(info), "info.json")


def begin_from_hud(hud: dict[str, Any]) -> GeneratedContract:
    return import_hud(json.dumps(hud), "contract.json")


def finish(generated: GeneratedContract, known: dict[str, Any]) -> Contract:
    """Return the contract of a generated one whose marks are filled in with the values of a finished one."""

    def fill_in(content: Any, other: Any) -> Any:
        if isinstance(content, str) and content.startswith(FILL_IN):
            return other
        if isinstance(content, dict):
            return {key: fill_in(item, other.get(key)) for key, item in content.items()}
        if isinstance(content, list):
            others = [*(other or ()), *[other[-1] if other else None] * len(content)]
            return [fill_in(item, one) for item, one in zip(content, others, strict=False)]
        return content

    return parse_document(fill_in(yaml.safe_load(generated.to_yaml()), known), Contract, "filled in")


names = st.lists(
    st.text("abcdefgh_.:/ äµ", min_size=1, max_size=12).filter(
        lambda name: (
            name == name.strip()
            and not name.endswith((".velocity", ".effort"))
            and not name.startswith(FILL_IN)
        )
    ),
    min_size=1,
    max_size=5,
    unique=True,
)


@st.composite
def contracts(draw: st.DrawFn) -> dict[str, Any]:
    """Position contracts whose state may hold velocities, too; the features are LeRobot's."""
    joints = draw(names)
    fields = ["position", *draw(st.lists(st.sampled_from(["velocity", "effort"]), unique=True, max_size=2))]
    low = draw(st.floats(-6.0, 0.0))
    cameras = draw(st.lists(st.sampled_from(["front", "wrist", "left_hand", "c_1"]), unique=True, max_size=3))
    return {
        **contract_document(),
        "robot_type": draw(st.sampled_from(["arm", "so101_follower"])),
        "fps": draw(st.sampled_from([10.0, 29.97, 50.0])),
        "task": "",
        "state": [
            {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": field, "names": joints}
            for field in fields
        ],
        "images": {
            name: {
                "topic": f"c{index}/image",
                "type": "sensor_msgs/msg/Image",
                "colour": draw(st.sampled_from(["rgb", "depth"])),
            }
            for index, name in enumerate(cameras)
        },
        "rename": {f"images.{name}": f"observation.images.{name}" for name in cameras},
        "actions": {
            "kind": "position",
            "names": joints,
            "limits": {name: {"min": low, "max": low + 1.5, "max_velocity": 2.0} for name in joints},
        },
        "commands": [{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": joints}],
    }


@given(contracts())
def test_a_contract_comes_back_from_lerobot_with_its_marks_filled_in(document: dict[str, Any]):
    contract = parse_document(document, Contract, "contract")
    info = to_lerobot(contract)
    for feature in info["features"].values():
        if feature["dtype"] == "video":
            feature["shape"][:2] = [480, 640]
    assert finish(begin_from_lerobot(info), document) == contract


@given(contracts())
def test_a_contract_comes_back_from_hud_with_its_marks_filled_in(document: dict[str, Any]):
    contract = parse_document(document, Contract, "contract")
    generated = begin_from_hud(to_hud(contract))
    limits = generated.content["actions"]["limits"].values()
    assert [limit["min"] for limit in limits] == [limit.min for limit in contract.actions.limits.values()]
    assert finish(generated, document) == contract


# -- LeRobot -------------------------------------------------------------------------------------------------


def test_a_data_set_says_names_rate_and_cameras():
    generated = begin_from_lerobot(INFO)
    content = generated.content
    assert (content["robot_type"], content["fps"]) == ("so101_follower", 30.0)
    assert content["state"][0]["names"] == content["actions"]["names"] == ["lift.pos", "gripper.pos"]
    assert {name: image["colour"] for name, image in content["images"].items()} == {
        "front": "rgb",
        "depth": "depth",
    }
    assert content["rename"] == {
        "images.front": "observation.images.front",
        "images.depth": "observation.depth",
    }
    assert any(note.startswith("observation.force: left out") for note in generated.notes)
    assert not any("timestamp" in note for note in generated.notes)


def test_what_a_data_set_does_not_say_is_marked():
    limits = [
        f"actions.limits.{n}.{k}" for n in ("lift.pos", "gripper.pos") for k in ("min", "max", "max_velocity")
    ]
    cameras = [f"images.{name}.{key}" for name in ("front", "depth") for key in ("topic", "type")]
    commands = ["commands.0.topic", "commands.0.type"]
    assert places(begin_from_lerobot(INFO)) == ["state.0.topic", *cameras, "actions.kind", *limits, *commands]


@pytest.mark.parametrize(
    ("feature", "known"),
    [
        ({"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}}, ["a", "b"]),
        ({"dtype": "float32", "shape": [2], "names": ["motors"]}, None),
        ({"dtype": "float32", "shape": [2], "names": ["a", "a"]}, None),
        ({"dtype": "float32", "shape": [2], "names": None}, None),
        ({"dtype": "float32", "shape": [2], "names": {"left": ["a"], "right": ["b"]}}, ["a", "b"]),
        ({"dtype": "float32", "shape": [2], "names": [["a", "b"]]}, ["a", "b"]),  # openpi's ALOHA converter
        ({"dtype": "float32", "shape": [2], "names": {"b": 1, "a": 0}}, ["a", "b"]),  # LeRobot's gamepads
    ],
)
def test_names_that_are_not_one_for_each_value_are_marked(feature: dict[str, Any], known: list[str] | None):
    features = {**INFO["features"], "observation.state": feature}
    names = begin_from_lerobot({**INFO, "features": features}).content["state"][0]["names"]
    assert names == known or (known is None and names.startswith(f"{FILL_IN}: a list of 2 joints"))


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (None, "found none"),
        (["a"], "found 1: ['a'], expected one for each value of shape [2]"),
        (["a", "a"], "found ['a', 'a'], expected each name once"),
        ([0, 1], "found [0, 1], expected a text for each value"),
        ({"a": 0, "b": 2}, "found places [0, 2], expected 0 to 1"),
        ({"a": "b"}, "found {'a': 'b'}, expected lists of names, or a place for each name"),
        ([[["a", "b"]]], "found [[['a', 'b']]], expected a text for each value"),
    ],
)
def test_why_names_do_not_count_is_said(names: Any, why: str):
    feature = {"dtype": "float32", "shape": [2], "names": names}
    features = {**INFO["features"], "observation.state": feature}
    (source,) = begin_from_lerobot({**INFO, "features": features}).content["state"]
    assert source["names"] == f"{FILL_IN}: a list of 2 joints; the data set's names: {why}"


@pytest.mark.parametrize("odd", [{"names": [["a"]]}, {"names": [0]}, {"shape": None}, {"units": "rad/s"}])
def test_a_feature_that_no_contract_has_may_be_described_in_any_way(odd: dict[str, Any]):
    other = {"dtype": "float32", "shape": [1], **odd}
    features = {**INFO["features"], "observation.velocity": other}
    generated = begin_from_lerobot({**INFO, "features": features})
    assert "observation.velocity: left out, a contract has no such feature" in generated.notes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"codebase_version": "v2.1"}, "info.json: codebase_version: found 'v2.1', expected 'v3.0'"),
        ({"fps": 0}, "info.json: fps: found 0, expected more than 0"),
        ({"features": {}}, "info.json: features.observation.state: missing, expected"),
        ({"features": 3}, "info.json: features: found 3, expected a mapping"),
    ],
)
def test_what_is_no_data_set_of_version_3_is_refused(changes: dict[str, Any], words: str):
    with pytest.raises(DocumentError) as caught:
        begin_from_lerobot({**INFO, **changes})
    assert str(caught.value).startswith(words)


SCALE = [
    {"unit": "degrees", "names": ["shoulder"]},
    {"unit": "percent", "names": ["elbow"], "range": [0.5, -0.5]},
]


def scaled() -> Contract:
    document = contract_document()
    document["state"].append({**document["state"][0], "field": "velocity"})
    document["state"][0]["scale"] = document["actions"]["scale"] = SCALE
    document["state"][1]["scale"] = SCALE[:1]
    return parse_document({**document, "images": {}, "rename": {}}, Contract, "contract")


def test_units_are_written_into_a_data_set_and_read_from_it():
    features = to_lerobot(scaled())["features"]
    assert features["action"]["units"] == ["degrees", "percent"]
    assert features["observation.state"]["units"] == ["degrees", "percent", "degrees", ""]
    generated = begin_from_lerobot({**INFO, "features": features})
    percent = {"unit": "percent", "names": ["elbow"]}
    marked = generated.content["actions"]["scale"][1]["range"]
    assert marked == f"{FILL_IN}: a list of two: the robot's positions at 0 and at 100 percent"
    arm = [SCALE[0], {**percent, "range": marked}]
    assert [section.get("scale") for section in generated.content["state"]] == [arm, SCALE[:1]]
    assert generated.content["actions"]["scale"] == arm
    known = json.loads(json.dumps(scaled().model_dump(mode="json", exclude_defaults=True)))
    assert finish(generated, {**known, "task": ""}).action_units == scaled().action_units


def test_a_unit_of_one_s_own_asks_for_its_factor():
    features = to_lerobot(scaled())["features"]
    features["action"]["units"] = ["rad", "mm"]
    scale = begin_from_lerobot({**INFO, "features": features}).content["actions"]["scale"]
    factor = f"{FILL_IN}: how many mm are one of the robot's unit"
    assert scale == [{"unit": "mm", "names": ["elbow"], "factor": factor}]


def test_a_data_set_without_other_units_says_nothing_of_them_unless_they_differ():
    """Errors in metres are not averaged with those in radians, and no reader could tell them apart."""
    document = contract_document()
    features = to_lerobot(parse_document(document, Contract, "contract"))["features"]
    assert "units" not in features["action"]
    document["actions"]["limits"]["elbow"]["unit"] = "m"
    features = to_lerobot(parse_document(document, Contract, "contract"))["features"]
    assert features["action"]["units"] == ["rad", "m"]


@pytest.mark.parametrize(
    ("units", "found"), [(["degrees"], "1"), ("degrees", "'degrees'"), (["rad", {}], r"\['rad', {}\]")]
)
def test_units_that_are_not_one_for_each_name_are_refused(units: Any, found: str):
    features = {**INFO["features"], "action": {**INFO["features"]["action"], "units": units}}
    words = rf"^info.json: features.action.units: found {found}, expected one .* 2"
    with pytest.raises(DocumentError, match=words):
        begin_from_lerobot({**INFO, "features": features})


def test_hud_is_told_the_limits_in_the_policy_s_units():
    limits = to_hud(scaled())["features"]["action"]["limits"]
    assert limits["min"] == pytest.approx([-180 / math.pi, -50.0])
    assert limits["max"] == pytest.approx([180 / math.pi, 150.0])


# -- HUD -----------------------------------------------------------------------------------------------------


def test_a_hud_contract_says_names_rate_bounds_and_cameras():
    generated = begin_from_hud(HUD)
    content = generated.content
    assert (content["robot_type"], content["fps"]) == ("arm", 15.0)
    assert [(source["field"], source["names"]) for source in content["state"]] == [
        ("position", ["lift"]),
        ("velocity", ["lift"]),
    ]
    assert content["rename"] == {"images.left_image": "observation.images.left_image"}
    assert content["actions"]["kind"] == "position"
    limit = content["actions"]["limits"]["lift"]
    assert (limit["min"], limit["max"]) == (-1.0, 1.0)
    assert limit["max_velocity"].startswith(FILL_IN)
    assert any(note.startswith("prompt: left out") for note in generated.notes)


def test_a_derived_hud_contract_leaves_more_to_fill_in():
    """As HUD derives one from an environment: names alone."""
    features = {
        "state": {"role": "observation"},
        "action": {"role": "action", "names": ["act_0"], "stats": {"min": [-1.0], "max": [1.0]}},
    }
    marked = places(begin_from_hud({"features": features}))
    assert {"robot_type", "fps", "state.0.names", "actions.kind", "actions.limits.act_0.min"} < set(marked)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ({"role": "observation"}, "features: found 0 with role action, expected one"),
        (
            {"role": "action", "type": "ee_abs"},
            "features.action: found 'ee_abs', expected JOINT_ABS_POS or joint_",
        ),
        (
            {"role": "action", "names": ["a", "b"], "limits": {"min": [0], "max": [1, 2]}},
            "features.action.limits: found 1 min and 2 max, expected 2 each",
        ),
    ],
)
def test_a_hud_contract_without_joint_commands_is_refused(action: dict[str, Any], words: str):
    with pytest.raises(DocumentError) as caught:
        begin_from_hud({**HUD, "features": {**HUD["features"], "action": action}})
    assert str(caught.value).startswith(f"contract.json: {words}")


def test_cameras_have_the_names_that_hud_s_data_sets_have():
    hud = to_hud(parse_document(contract_document(), Contract, "contract"))
    assert list(hud["features"]) == ["front", "state", "action"]


def test_a_camera_named_as_the_state_has_no_place_in_hud():
    document = {**contract_document(), "rename": {"images.front": "observation.images.state"}}
    with pytest.raises(UserError, match=r"found 'observation\.images\.state' for a camera"):
        to_hud(parse_document(document, Contract, "contract"))


def test_velocities_have_no_kind_in_hud():
    hud = to_hud(parse_document(contract_document("velocity"), Contract, "contract"))
    assert "type" not in hud["features"]["action"]
    assert "actions.kind" in places(begin_from_hud(hud))


def test_joints_have_the_policy_s_names_outside():
    rename = {"joints.shoulder": "shoulder.pos"}
    contract = parse_document({**contract_document(), "rename": rename}, Contract, "contract")
    for features, keys in (
        (to_lerobot(contract)["features"], ("observation.state", "action")),
        (to_hud(contract)["features"], ("state", "action")),
    ):
        assert [features[key]["names"] for key in keys] == [["shoulder.pos", "elbow"]] * 2


# -- the verbs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("there", "back"), [("to-hud", "from-hud"), ("to-lerobot", "from-lerobot")])
def test_the_verbs_write_files_and_list_marks(
    there: str, back: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    contract, other, generated = (
        tmp_path / name for name in ("a.contract.yaml", "other.json", "b.contract.yaml")
    )
    document = {**contract_document(), "images": {}, "rename": {}}
    contract.write_text(yaml.safe_dump(document))
    assert cli.main(["contract", there, str(contract), "--out", str(other)]) == 0
    assert cli.main(["contract", back, str(other), "--out", str(generated)]) == 0
    listed = capsys.readouterr().err.splitlines()
    with pytest.raises(DocumentError) as caught:
        parse_contract(generated.read_text(), "b")
    assert [f"b: {line}" for line in listed] == str(caught.value).splitlines()

    assert cli.main(["contract", back, str(other), "--out", str(generated)]) == 2
    assert "b.contract.yaml: File exists" in capsys.readouterr().err
    assert cli.main(["contract", back, str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["marks"] == listed
    assert cli.main(["contract", there, str(contract)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(other.read_text())
