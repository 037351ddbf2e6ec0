# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract: what it derives, and that a mistake is refused with the key, what was found and expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.admission import make_offer
from remote_inference.base.contract.action_bounds import PoseAction
from remote_inference.base.contract.contract import Contract, find_name_clash, load_contract
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import CAMERA, JOINT_TRAJECTORY, JOINTS, contract_document, make_contract

SHIPPED = Path(__file__).parents[2] / "config" / "belt_arm.contract.yaml"

IMU = {"topic": "imu/data", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.x", "orientation.w"]}

DESIGN_EXAMPLE = """
robot_type: belt_arm
fps: 30
task: pick up the red cube
state:
  - {topic: joint_states, type: sensor_msgs/msg/JointState, field: position, names: [pan, lift]}
images:
  wrist: {topic: wrist/image_raw, type: sensor_msgs/msg/Image, colour: rgb, jpeg_quality: 90}
  front: {topic: front/image_raw/compressed, type: sensor_msgs/msg/CompressedImage, colour: rgb}
actions:
  kind: position
  names: [pan, lift]
  limits: {pan: {min: -1.6, max: 1.6, max_velocity: 3.0}, lift: {min: -1, max: 1, max_velocity: 3}}
commands:
  - {topic: pan_controller/commands, type: std_msgs/msg/Float64MultiArray, names: [pan]}
  - {topic: lift_controller/commands, type: std_msgs/msg/Float64MultiArray, names: [lift]}
rename: {images.wrist: observation.images.wrist}
home: {positions: [0.0, 0.5], duration_s: 3.0}
"""


def test_the_shipped_contract_is_valid():
    contract = load_contract(SHIPPED)
    assert contract.robot_type == "belt_arm"
    assert contract.action_dim == 6
    assert contract.period_s == pytest.approx(1 / 30)
    assert contract.state_names == contract.actions.names
    assert len(contract.image_features) == 2
    assert len(contract.topics) == 3


def test_the_designs_example_is_valid():
    contract = parse_document(yaml.safe_load(DESIGN_EXAMPLE), Contract, "example")
    names = [(image.name, image.encoding) for image in contract.image_features]
    assert names == [("observation.images.wrist", "jpeg"), ("images.front", "jpeg")]
    assert contract.topics == ("joint_states", "wrist/image_raw", "front/image_raw/compressed")


@pytest.mark.parametrize(("kind", "unit"), [("position", "rad"), ("velocity", "rad/s"), ("effort", "Nm")])
def test_an_action_has_the_unit_of_its_kind_unless_its_limit_names_another(kind: str, unit: str):
    document = contract_document(kind)
    document["actions"]["limits"]["elbow"]["unit"] = "m"
    actions = parse_document(document, Contract, "f").actions
    assert [actions.unit(name) for name in JOINTS] == [unit, "m"]


def test_rename_gives_the_policys_word():
    assert [image.name for image in make_contract().image_features] == [CAMERA]


def test_rename_gives_the_policys_word_for_joints_and_leaves_the_robots():
    document = contract_document()
    document["state"].append({**document["state"][0], "field": "velocity"})
    document["rename"] |= {"joints.shoulder": "shoulder.pos", "joints.elbow.velocity": "elbow.vel"}
    contract = parse_document(document, Contract, "f")
    assert contract.state_names == ("shoulder", "elbow", "shoulder.velocity", "elbow.velocity")
    assert contract.policy_state_names == ("shoulder.pos", "elbow", "shoulder.velocity", "elbow.vel")
    assert contract.actions.names == ("shoulder", "elbow")
    assert contract.policy_action_names == ("shoulder.pos", "elbow")
    offer = make_offer(contract)
    assert offer.state_names == contract.policy_state_names
    assert offer.action_names == contract.policy_action_names


@pytest.mark.parametrize(
    ("rename", "words"),
    [
        ({"joints.wrist": "wrist.pos"}, "rename has joints.wrist, expected keys of"),
        ({"joints.shoulder": "elbow"}, "state names after rename: elbow found more than once"),
        ({"joints.shoulder": ""}, "at least 1 character"),
    ],
)
def test_joints_that_are_not_there_or_become_one_are_refused(rename: dict[str, str], words: str):
    with pytest.raises(DocumentError, match=words):
        parse_document({**contract_document(), "rename": rename}, Contract, "f")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("position", JOINTS),
        ("velocity", ("shoulder.velocity", "elbow.velocity")),
        ("effort", ("shoulder.effort", "elbow.effort")),
    ],
)
def test_state_names_tell_positions_from_velocities_and_efforts(field: str, expected: tuple[str, ...]):
    document = contract_document("velocity")
    document["state"][0]["field"] = field
    assert parse_document(document, Contract, "f").state_names == expected


def test_state_sources_are_concatenated_in_order_and_their_topics_listed_once():
    document = contract_document()
    document["state"].append({**document["state"][0], "field": "velocity", "names": ["elbow"]})
    contract = parse_document(document, Contract, "f")
    assert contract.state_names == (*JOINTS, "elbow.velocity")
    assert contract.topics == ("joint_states", "front/image_raw")


@pytest.mark.parametrize(
    ("image", "encoding"),
    [
        ({"type": "sensor_msgs/msg/Image"}, "jpeg"),
        ({"type": "sensor_msgs/msg/Image", "jpeg_quality": 0}, "raw"),
        ({"type": "sensor_msgs/msg/Image", "colour": "depth"}, "png"),
        ({"type": "sensor_msgs/msg/CompressedImage"}, "jpeg"),
        ({"type": "sensor_msgs/msg/CompressedImage", "jpeg_quality": 0}, "jpeg"),
    ],
)
def test_how_an_image_travels(image: dict[str, Any], encoding: str):
    document = contract_document()
    document["images"]["front"] = {"topic": "front/image_raw", **image}
    (feature,) = parse_document(document, Contract, "f").image_features
    assert feature.encoding == encoding


Change = Callable[[dict[str, Any]], Any]
SWITCH = {"kind": "switch", "min": -1.0, "max": 1.0, "closes_above": 0.5, "opens_below": -0.5}


def limit(**values: Any) -> Change:
    return lambda d: d["actions"]["limits"]["elbow"].update(values)


def state(**values: Any) -> Change:
    return lambda d: d["state"][0].update(values)


def sensor(**values: Any) -> Change:
    """Add a source of another type than JointState; None leaves a key out."""
    given = {**IMU, **values}
    return lambda d: d["state"].append({k: v for k, v in given.items() if v is not None})


def image(**values: Any) -> Change:
    return lambda d: d["images"]["front"].update(values)


def command(**values: Any) -> Change:
    return lambda d: d["commands"][0].update(values)


def stop(**values: Any) -> Change:
    given = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True, **values}
    return lambda d: d.update(stops={"button": {k: v for k, v in given.items() if v is not None}})


JOYSTICK = {"topic": "joystick", "type": "geometry_msgs/msg/Twist"}


def takeover(**values: Any) -> Change:
    return lambda d: d.update(takeover={"topic": "teleop", "type": "sensor_msgs/msg/JointState", **values})


@pytest.mark.parametrize(
    ("fps", "policy_fps", "ticks"),
    [(30, None, 1), (30, 30, 1), (100, 10, 10), (100, 33.333, 3), (7.5, 2.5, 3)],
)
def test_a_row_of_the_policy_lasts_whole_ticks(fps: float, policy_fps: float | None, ticks: int):
    document = contract_document() | {"fps": fps, "policy_fps": policy_fps}
    contract = parse_document(document, Contract, "f")
    assert contract.ticks_per_row == ticks
    assert contract.row_fps == fps / ticks
    assert contract.interpolation == "linear"


BAD: list[tuple[Change, str, list[str]]] = [
    (lambda d: d.pop("robot_type"), "robot_type", ["missing"]),
    (lambda d: d.pop("actions"), "actions", ["missing"]),
    (lambda d: d.update(robot_type=""), "robot_type", ["''"]),
    (lambda d: d.update(robot_typ="x"), "robot_typ", ["unknown key"]),
    (lambda d: d.update(fps=0), "fps", ["0", "at least 0.01"]),
    (lambda d: d.update(fps=-30), "fps", ["-30", "at least 0.01"]),
    (lambda d: d.update(fps=1e-45), "fps", ["1e-45", "at least 0.01"]),
    (lambda d: d.update(fps=1e6), "fps", ["1000000", "at most 10000"]),
    (lambda d: d.update(fps=float("nan")), "fps", ["nan"]),
    (lambda d: d.update(fps=float("inf")), "fps", ["inf", "finite"]),
    (lambda d: d.update(fps="30"), "fps", ["'30'", "number"]),
    (lambda d: d.update(fps=100, policy_fps=30), "", ["policy_fps: found 30 with fps 100", "25 or 33.3333"]),
    (lambda d: d.update(fps=30, policy_fps=60), "", ["policy_fps: found 60", "whole number, such as 30"]),
    (lambda d: d.update(fps=30, policy_fps=0), "policy_fps", ["0", "at least 0.01"]),
    (lambda d: d.update(interpolation="cubic"), "interpolation", ["'cubic'", "'linear'", "'none'"]),
    (lambda d: d.update(task=5), "task", ["5", "text"]),
    (lambda d: d.update(state=[]), "state", ["0 items", "at least 1"]),
    (state(names=[]), "state.0", ["names: missing", "joints"]),
    (state(names=["shoulder", ""]), "state.0.names.1", ["''"]),
    (state(names=["shoulder", "shoulder"]), "", ["shoulder", "unique"]),
    (state(field="torque"), "state.0.field", ["'torque'", "'effort'"]),
    (state(type="sensor_msgs/Imu"), "state.0.type", ["'sensor_msgs/Imu'", "expected a message type"]),
    (state(type="sensor_msgs/msg/Imu"), "state.0", ["field", "sensor_msgs/msg/Imu", "JointState only"]),
    (state(field=None), "state.0", ["field: missing", "which array"]),
    (lambda d: d["state"][0].pop("names"), "state.0", ["names: missing", "joints"]),
    (state(fields=["position[0]"]), "state.0", ["fields: found with JointState", "by name"]),
    (sensor(fields=None), "state.1", ["fields: missing", "sensor_msgs/msg/Imu", "message_readers"]),
    (sensor(fields=[]), "state.1", ["fields: missing", "sensor_msgs/msg/Imu"]),
    (sensor(fields=["orientation..x"]), "state.1.fields.0", ["'orientation..x'", "twist.linear.x"]),
    (sensor(fields=["a[0:2].x"]), "state.1.fields.0", ["the slice a[0:2]", "at the end"]),
    (sensor(fields=["a[2:2]"]), "state.1.fields.0", ["0 items", "1 to 4096"]),
    (sensor(fields=["a[0:5000]"]), "state.1.fields.0", ["5000 items", "1 to 4096"]),
    (sensor(names=["x"]), "state.1", ["names: found 1 for 2 fields", "one for each"]),
    (sensor(names=["x", "x"]), "", ["state names", "x found more than once"]),
    (sensor(names=["x", "shoulder"]), "", ["state names", "shoulder found more than once"]),
    (sensor(topic="joint_states"), "", ["state.1.type", "/Imu for joint_states", "/JointState as elsewhere"]),
    (sensor(topic="front/image_raw"), "", ["front/image_raw", "state and in images"]),
    (sensor(topic="commands"), "", ["commands", "command and sensor"]),
    (
        sensor(scale=[{"unit": "g", "factor": 0.1, "names": ["y"]}]),
        "state.1",
        ["scale.0.names", "y", "orientation.x"],
    ),
    (lambda d: d["state"][0].pop("topic"), "state.0.topic", ["missing"]),
    (image(type="sensor_msgs/msg/PointCloud2"), "images.front.type", ["PointCloud2", "CompressedImage"]),
    (image(colour="bgr"), "images.front.colour", ["'bgr'", "'rgb'", "'depth'"]),
    (image(color="rgb"), "images.front.color", ["unknown key"]),
    (image(jpeg_quality=101), "images.front.jpeg_quality", ["101", "100"]),
    (image(jpeg_quality=90.5), "images.front.jpeg_quality", ["90.5", "whole number"]),
    (state(field="velocity"), "", ["no position of shoulder, elbow", "measured"]),
    (
        lambda d: d.update(measured={**d["state"][0], "names": ["a"]}),
        "",
        ["measured", "1 names", "2 actions"],
    ),
    (lambda d: d.update(measured={**d["state"][0], "field": "effort"}), "", ["measured", "effort"]),
    (
        lambda d: d.update(measured={**d["state"][0], "names": ["a", "a"]}),
        "",
        ["measured.names: a found more"],
    ),
    (lambda d: d.update(home={"positions": [0.0, 1.5], "duration_s": 1.0}), "", ["1.5", "elbow", "1.0"]),
    (command(topic="joint_states"), "", ["joint_states", "command", "sensor"]),
    (lambda d: d["actions"].update(kind="torque"), "actions.kind", ["'torque'", "'velocity'"]),
    (lambda d: d["actions"].update(names=["elbow", "elbow"]), "actions", ["elbow", "unique"]),
    (lambda d: d["actions"]["limits"].pop("elbow"), "actions", ["limits", "elbow", "expected"]),
    (lambda d: d["actions"]["limits"].update(wrist=d["actions"]["limits"]["elbow"]), "actions", ["wrist"]),
    (limit(min=1.0), "actions.limits.elbow", ["1.0", "min < max"]),
    (limit(min=2.0), "actions.limits.elbow", ["2.0", "1.0", "min < max"]),
    (limit(max=float("inf")), "actions.limits.elbow.max", ["inf", "finite"]),
    (limit(min=float("nan")), "actions.limits.elbow.min", ["nan"]),
    (limit(max_velocity=0), "actions.limits.elbow.max_velocity", ["0", "more than 0"]),
    (limit(max_velocity=-1), "actions.limits.elbow.max_velocity", ["-1", "more than 0"]),
    (lambda d: d["actions"]["limits"]["elbow"].pop("max_velocity"), "actions.limits.elbow.max_velocity", []),
    (limit(max_acceleration=0), "actions.limits.elbow.max_acceleration", ["0", "1e-06"]),
    (limit(max_acceleration=1, max_jerk=-1), "actions.limits.elbow.max_jerk", ["-1", "1e-06"]),
    (limit(max_deceleration=0), "actions.limits.elbow.max_deceleration", ["0", "1e-06"]),
    (limit(max_jerk=9), "actions.limits.elbow", ["max_jerk without max_acceleration", "expected both"]),
    (
        lambda d: d["actions"]["limits"].update(
            elbow=dict(SWITCH, max_acceleration=1.0, max_jerk=9.0, max_deceleration=1.0)
        ),
        "actions.limits.elbow",
        ["max_acceleration, max_jerk, max_deceleration with a switch", "expected none"],
    ),
    (lambda d: d.update(commands=[]), "commands", ["at least 1"]),
    (command(names=["shoulder"]), "", ["commands", "['shoulder']", "['elbow', 'shoulder']"]),
    (command(names=[*JOINTS, "wrist"]), "", ["commands", "wrist"]),
    (command(names=[*JOINTS, "elbow"]), "", ["commands", "elbow", "unique"]),
    (command(type="std_msgs/msg/String"), "commands.0: type", ["String", "Float64MultiArray"]),
    (lambda d: d.update(rename={"images.back": "x"}), "", ["rename", "images.back", "images.front"]),
    (lambda d: d.update(home={"positions": [0.0], "duration_s": 3.0}), "", ["home", "1", "2"]),
    (lambda d: d.update(home={"positions": [0.0, 0.0], "duration_s": 0}), "home.duration_s", ["0"]),
    (
        lambda d: d.update(home={"positions": [0.0, float("nan")], "duration_s": 1}),
        "home.positions.1",
        ["nan"],
    ),
    (stop(stop_when=None), "stops.button.stop_when", ["missing", "the value that stops"]),
    (stop(stop_when=1), "stops.button.stop_when", ["1", "true or false", "'silent'"]),
    (stop(stop_when="silent"), "stops.button", ["silent_s", "missing"]),
    (stop(silent_s=0), "stops.button.silent_s", ["0", "more than 0"]),
    (stop(type="sensor_msgs/msg/Joy"), "stops.button", ["sensor_msgs/msg/Joy", "std_msgs/msg/Bool"]),
    (stop(type="Bool"), "stops.button.type", ["'Bool'", "'std_msgs/msg/Bool'"]),
    (stop(topic="e stop"), "stops.button.topic", ["' '"]),
    (stop(topic="commands"), "", ["stops.button", "commands", "command"]),
    (
        stop(topic="joint_states"),
        "",
        ["stops.button.type", "std_msgs/msg/Bool", "sensor_msgs/msg/JointState"],
    ),
    (
        takeover(type="trajectory_msgs/msg/JointTrajectory"),
        "takeover.type",
        ["JointTrajectory", "JointState"],
    ),
    (takeover(topic="commands"), "", ["takeover", "commands", "command"]),
    (takeover(silent_s=-1), "takeover.silent_s", ["-1", "more than 0"]),
    (command(names=["shoulder", "elbow "]), "commands.0.names.1", ["'elbow '", "no space at its ends"]),
    (takeover(silent_s=500), "takeover.silent_s", ["500", "at most 10"]),
    (takeover(also=[JOYSTICK]), "takeover.also.0", ["neither", "one of them"]),
    (takeover(also=[JOYSTICK | {"names": ["elbow"]}]), "takeover.also.0", ["Twist", "or `fields`"]),
    (takeover(also=[JOYSTICK | {"fields": {"a[0:2]": "elbow"}}]), "takeover.also.0", ["slice", "a[0:2]"]),
    (takeover(also=[JOYSTICK | {"fields": {"a": "knee"}}]), "", ["takeover.also", "knee", "actions"]),
    (takeover(also=2 * [JOYSTICK | {"fields": {"a": "elbow"}}]), "", ["elbow", "more than once"]),
    (
        takeover(also=[JOYSTICK | {"fields": {"a": "elbow", "b": "shoulder"}}]),
        "",
        ["takeover.also", "every action", "teleop"],
    ),
    (stop(stop_when="silent", silent_s=500), "stops.button.silent_s", ["500", "at most 10"]),
    (limit(unit="deg"), "actions.limits.elbow.unit", ["found deg,", "rad", "scale"]),
    (limit(unit="\u00b0"), "actions.limits.elbow.unit", ["found \u00b0,", "rad", "scale"]),
    (limit(unit="Degrees/s"), "actions.limits.elbow.unit", ["found Degrees/s,", "rad", "scale"]),
    (
        lambda d: d.update(measured={**d["state"][0], "names": ["elbow", "shoulder"]}),
        "",
        ["measured.names: found elbow for the action shoulder", "the actions: shoulder, elbow"],
    ),
    (
        lambda d: d.update(measured={**d["state"][0], "names": ["a", "shoulder"]}),
        "",
        ["measured.names: found shoulder for the action elbow"],
    ),
]


@pytest.mark.parametrize(("change", "key", "words"), BAD)
def test_a_mistake_is_refused_with_key_found_and_expected(change: Change, key: str, words: list[str]):
    document = contract_document()
    change(document)
    with pytest.raises(DocumentError) as refusal:
        parse_document(document, Contract, "f")
    (line,) = str(refusal.value).splitlines()
    assert line.startswith(f"f: {key}: " if key else "f: ")
    assert all(word in line for word in words)


def test_two_cameras_may_not_become_one_feature():
    document = contract_document()
    document["images"]["back"] = {**document["images"]["front"], "topic": "back"}
    document["rename"]["images.back"] = CAMERA
    with pytest.raises(DocumentError, match=f"{CAMERA} found more than once"):
        parse_document(document, Contract, "f")


def test_a_contract_names_its_file(tmp_path: Path):
    with pytest.raises(DocumentError, match=r"missing\.yaml"):
        load_contract(tmp_path / "missing.yaml")


def test_a_joint_limited_twice_is_refused(tmp_path: Path):
    """YAML would silently take the last one, and with it another limit than a reader sees first."""
    path = tmp_path / "twice.yaml"
    once = "pan: {min: -1.6, max: 1.6, max_velocity: 3.0}"
    path.write_text(DESIGN_EXAMPLE.replace(once, f"{once}, pan: {{min: -9, max: 9, max_velocity: 9}}"))
    with pytest.raises(DocumentError, match="pan"):
        load_contract(path)


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_what_asks_for_positions_is_refused_for_other_actions(kind: str):
    document = contract_document(kind)
    document["commands"][0]["type"] = JOINT_TRAJECTORY
    with pytest.raises(DocumentError, match=f"takes a JointTrajectory.*found {kind}"):
        parse_document(document, Contract, "f")
    document = contract_document(kind) | {"home": {"positions": [0.0, 0.0], "duration_s": 1.0}}
    with pytest.raises(DocumentError, match=f"home: found with {kind} actions"):
        parse_document(document, Contract, "f")


@pytest.mark.parametrize(
    "keys", [("max_acceleration",), ("max_acceleration", "max_jerk"), ("max_deceleration",)]
)
def test_positions_and_velocities_may_have_bounds_of_acceleration_and_efforts_none(keys: tuple[str, ...]):
    for kind in ("position", "velocity"):
        document = contract_document(kind)
        limit(**dict.fromkeys(keys, 2.0))(document)
        elbow = parse_document(document, Contract, "f").actions.limits["elbow"]
        assert elbow.of_accelerations == keys
    document = contract_document("effort")
    limit(**dict.fromkeys(keys, 2.0))(document)
    with pytest.raises(DocumentError, match=f"limits.elbow: found {', '.join(keys)} with effort actions"):
        parse_document(document, Contract, "f")


@pytest.mark.parametrize(
    ("jerk", "acceleration"),
    [("max_jerk", "max_acceleration"), ("max_angular_jerk", "max_angular_acceleration")],
)
def test_a_pose_s_bound_of_jerk_needs_that_of_its_acceleration(jerk: str, acceleration: str):
    pose = {
        "position": ["x", "y", "z"],
        "quaternion": ["qx", "qy", "qz", "qw"],
        "min": [0.0, 0.0, 0.0],
        "max": [1.0, 1.0, 1.0],
        "max_velocity": 0.5,
        "max_angular_velocity": 1.0,
    }
    with pytest.raises(DocumentError, match=f"found {jerk} without {acceleration}, expected both"):
        parse_document(pose | {jerk: 9.0}, PoseAction, "f")
    found = parse_document(pose | {jerk: 9.0, acceleration: 2.0}, PoseAction, "f")
    assert (getattr(found, jerk), getattr(found, acceleration)) == (9.0, 2.0)


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_a_range_without_zero_is_refused_where_zero_is_the_stop(kind: str):
    document = contract_document(kind)
    document["actions"]["limits"]["elbow"]["min"] = 0.2
    with pytest.raises(DocumentError, match=f"limits.elbow: found 0.2 to 1.0 for {kind} actions"):
        parse_document(document, Contract, "f")


def test_measured_positions_may_come_under_other_names_from_another_topic():
    document = contract_document()
    document["state"][0]["field"] = "velocity"
    document["measured"] = {
        **document["state"][0],
        "topic": "encoders",
        "field": "position",
        "names": ["j1", "j2"],
    }
    contract = parse_document(document, Contract, "f")
    assert contract.topics == ("joint_states", "encoders", "front/image_raw")
    assert contract.measured_topics == ("encoders",)
    assert contract.state_names == ("shoulder.velocity", "elbow.velocity")


@pytest.mark.parametrize("key", ["state.0.topic", "images.front.topic", "commands.0.topic"])
def test_a_topic_that_ros_refuses_is_refused_with_its_key(key: str):
    document = contract_document()
    *path, last = [int(part) if part.isdigit() else part for part in key.split(".")]
    place: Any = document
    for part in path:
        place = place[part]
    place[last] = "/joint-states"
    with pytest.raises(DocumentError, match=f"f: {key}: found '-' in '/joint-states', expected letters"):
        parse_document(document, Contract, "f")


def test_stops_and_a_takeover_are_the_operators_inputs():
    document = contract_document()
    stop(stop_when="silent", type="sensor_msgs/msg/JointState", topic="joint_states", silent_s=0.3)(document)
    takeover()(document)
    inputs = parse_document(document, Contract, "f").operator_inputs
    assert [(where, source.topic) for where, source in inputs.items()] == [
        ("stops.button", "joint_states"),
        ("takeover", "teleop"),
    ]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (command(topic="/joint_states"), "joint_states and /joint_states"),
        (takeover(topic="/commands"), "commands and /commands"),
        (stop(topic="/robot_1/commands"), ""),
        (command(topic="/arm"), ""),
    ],
)
def test_two_spellings_of_one_topic_are_found_where_they_are_one(change: Change, names: str):
    """A robot that heard its own commands as measurements would follow itself."""
    document = contract_document()
    change(document)
    contract = parse_document(document, Contract, "f")
    assert find_name_clash(contract, "/robot_2") == ""
    problem = f"found {names}, which are one topic in /, expected one spelling"
    assert find_name_clash(contract, "/") == (problem if names else "")


def test_an_absolute_name_may_be_a_topic_of_one_namespace_alone():
    document = contract_document()
    stop(topic="/robot_1/commands")(document)
    contract = parse_document(document, Contract, "f")
    assert "found commands and /robot_1/commands, which are one topic in /robot_1" in find_name_clash(
        contract, "/robot_1"
    )
