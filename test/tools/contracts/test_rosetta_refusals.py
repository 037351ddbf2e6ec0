# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is no contract of rosetta, or none that can be translated, is refused in words: never a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from remote_inference.base.contract.generated import GeneratedContract
from remote_inference.base.documents.document import DocumentError
from support.rosetta import (
    FILE,
    JOINTS,
    POSES,
    arm,
    base,
    begin,
    coded_robot,
    complete,
    guided_arm,
    refusal,
    source,
)

# -- bad input -----------------------------------------------------------------------------------------------


def changed(place: str, value: Any, make: Any = arm) -> dict[str, Any]:
    """Return a document with one value changed, or without it: parts of the place have '/' between them."""
    document = json.loads(json.dumps(make()))  # no value stands twice
    *way, last = place.split("/")
    section = document
    for key in way:
        section = section[int(key) if isinstance(section, list) else key]
    if value is None:
        del section[last]
    else:
        section[last] = value
    return document


STATE, ACTION = "observations/observation.state", "actions/action"
IN_STATE, IN_ACTION = "observations.observation.state: ", "actions.action: "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found nothing, expected a mapping of keys"),
        ("- 1", "found [1], expected a mapping of keys"),
        ("a: [", "is not valid YAML: line 1, column 5: "),
        ("fps: 1\nfps: 2", "is not valid YAML: line 2, column 1: key 'fps' found twice"),
        (b"\xff", "is not UTF-8 text (byte 0)"),
    ],
)
def test_a_text_that_is_no_mapping_is_refused(text: str | bytes, words: str):
    assert refusal(text).startswith(f"{FILE}: {words}")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("robot_type", None, "robot_type: missing, expected a name for this kind of robot"),
        ("fps", "30", "fps: found '30', expected a number"),
        ("fps", 0, "fps: found 0, expected more than 0"),
        ("observations", None, "observations: missing, expected a source for each feature"),
        ("observations", [1], "observations: found [1], expected a mapping of keys"),
        ("actions", {}, "actions: found 0 items, expected at least 1"),
        (ACTION, [], "actions.action: found an empty list, expected a source, or several"),
        (ACTION, 3, "actions.action: found 3, expected a mapping of keys"),
        (
            f"{STATE}/channel",
            None,
            f"{IN_STATE}channel: missing, expected where it comes from: topic and type",
        ),
        (f"{STATE}/channel/topic", "/a b", f"{IN_STATE}channel.topic: found ' ' in '/a b', expected letters"),
        (
            f"{STATE}/channel/type",
            "JointState",
            f"{IN_STATE}channel.type: found 'JointState', expected a message",
        ),
        (
            f"{STATE}/align/strategy",
            "best",
            f"{IN_STATE}align.strategy: found 'best', expected 'hold', 'asof' or",
        ),
        (f"{STATE}/select", None, f"{IN_STATE}select: missing, expected the numbers to take of {JOINTS}"),
        (f"{STATE}/select", "lift", f"{IN_STATE}select: found 'lift', expected a list"),
        (f"{STATE}/select", ["pos.lift"], f"{IN_STATE}select.0: found 'pos.lift', expected position.NAME or"),
        (
            f"{STATE}/select",
            ["lift", "lift"],
            f"{IN_STATE}select: lift found more than once, expected unique",
        ),
        (f"{STATE}/select", ["lift", "position.lift"], f"{IN_STATE[:-2]}.select: found 'lift' as in observ"),
        (f"{STATE}/apply", ["rad2deg", 3], f"{IN_STATE}apply.1: found 3, expected an operator's name"),
        (
            f"{STATE}/apply",
            ["rad2deg", "rad2deg"],
            f"{IN_STATE}apply: found rad2deg 2 times, expected it once",
        ),
        (
            f"{STATE}/apply",
            [{"resize": [1, 2]}],
            f"{IN_STATE[:-2]}.apply: found resize, expected it for cameras",
        ),
        (
            f"{ACTION}/apply",
            [{"clamp": [0, 1]}],
            f"{IN_ACTION}apply.0.clamp: found [0, 1], expected min and max",
        ),
        (f"{ACTION}/apply", [{"clamp": {"min": 2, "max": 1}}], f"{IN_ACTION}apply.0.clamp: found "),
        (
            f"{ACTION}/channel/topic",
            "/arm/state",
            "actions.action.channel.topic: found /arm/state as in observ",
        ),
        (
            f"{ACTION}/select",
            ["lift", "velocity.reach"],
            "actions.action.select.1: found 'velocity.reach', expected",
        ),
        ("tasks", {"task": {}}, "tasks.task.channel: missing, expected where it comes from: topic and type"),
        ("adjunct", {}, "adjunct: found {}, expected a list"),
    ],
)
def test_bad_input_is_refused_with_its_place(place: str, value: Any, words: str):
    assert refusal(changed(place, value)).startswith(f"{FILE}: {words}")


@pytest.mark.parametrize(
    ("type_", "select", "words"),
    [
        (
            "geometry_msgs/msg/TwistStamped",
            ["linear"],
            "select.0: found 'linear', expected the path of a number",
        ),
        ("sensor_msgs/msg/Imu", ["a.b", "x y.z"], "select.1: found 'x y.z', expected names of fields"),
        ("sensor_msgs/msg/Joy", ["knobs.1"], "select.0: found 'knobs.1', expected axes.NUMBER or"),
        ("std_msgs/msg/Float64", ["a", "b"], "select: found 2 names, expected one"),
        (
            "trajectory_msgs/msg/JointTrajectory",
            ["pose.a"],
            "select.0: found 'pose.a', expected position.NAME or",
        ),
    ],
)
def test_a_select_that_does_not_fit_its_type_is_refused(type_: str, select: list[str], words: str):
    document = changed("observations/observation.more", source("/more", type_, select))
    assert refusal(document).startswith(f"{FILE}: observations.observation.more: {words}")


def test_one_topic_of_two_types_is_refused():
    document = changed("observations/observation.more", source("/arm/state", "sensor_msgs/msg/Imu", ["a.b"]))
    words = "found sensor_msgs/msg/Imu for /arm/state, expected sensor_msgs/msg/JointState as in observations"
    assert refusal(document).startswith(f"{FILE}: observations.observation.more.channel.type: {words}")


def test_one_controller_of_two_sources_is_refused():
    document = changed("actions/action.more", source("/arm/target", JOINTS, ["position.wrist"]))
    words = "found /arm/target as in actions.action, expected a topic that nothing else has"
    assert refusal(document).startswith(f"{FILE}: actions.action.more.channel.topic: {words}")


def test_joints_of_one_name_on_two_topics_are_refused():
    document = changed(STATE, [source("/left", JOINTS, POSES), source("/right", JOINTS, POSES)])
    words = "found 'lift' as in observations.observation.state.0, expected each name once"
    assert refusal(document).startswith(f"{FILE}: observations.observation.state.1.select: {words}")


def test_a_trajectory_of_velocities_is_refused():
    trajectory = source("/arm/target", "trajectory_msgs/msg/JointTrajectory", ["velocity.lift"])
    words = "actions.action.select.0: found 'velocity.lift', expected position.NAME: a trajectory"
    assert refusal(changed(ACTION, trajectory)).startswith(f"{FILE}: {words}")


def test_a_state_without_numbers_is_refused():
    document = changed(STATE, None)
    assert refusal(document) == f"{FILE}: observations: found no numbers, expected those of the joints"


def test_a_person_who_drives_nothing_that_is_there_is_refused():
    document = guided_arm()
    document["teleop"]["input"][0]["target"] = "/nothing"
    assert refusal(document) == f"{FILE}: teleop.input.0.target: found /nothing, expected /arm/target"


def test_clamps_that_leave_nothing_are_refused():
    clamps = [{"clamp": {"min": 0, "max": 1}}, {"clamp": {"min": 2, "max": 3}}]
    assert refusal(changed(f"{ACTION}/apply", clamps)).startswith(
        f"{FILE}: actions.action.apply: found clamps to 2"
    )


# -- any document --------------------------------------------------------------------------------------------

FIELDS = ("position", "velocity", "effort")
SELECTS = {
    JOINTS: [f"{field}.{joint}" for field in FIELDS for joint in ("a", "b.c", "jaw")] + ["d"],
    "geometry_msgs/msg/Twist": ["linear.x", "angular.z"],
    "geometry_msgs/msg/TwistStamped": ["twist.linear.x", "twist.angular.z"],
    "sensor_msgs/msg/Imu": ["orientation.x", "angular_velocity.z"],
    "sensor_msgs/msg/Joy": ["axes.1", "buttons.0", "2"],
    "std_msgs/msg/Float32": ["data"],
    "std_msgs/msg/Float64MultiArray": ["position.a", "velocity.e", "f"],
    "std_msgs/msg/Int32MultiArray": ["g"],
    "trajectory_msgs/msg/JointTrajectory": ["positions.a", "position.k"],
    "my_msgs/msg/Weight": ["left", "right side"],
}
APPLIES = [
    [],
    ["rad2deg"],
    ["soften"],
    [{"clamp": {"min": -2, "max": 1}}],
    [{"clamp": {"min": 0.5, "max": 1}}, "rad2deg"],
]


@st.composite
def sources(draw: st.DrawFn, topic: str, is_action: bool) -> dict[str, Any]:
    type_ = draw(st.sampled_from(list(SELECTS)))
    select = draw(st.lists(st.sampled_from(SELECTS[type_]), min_size=1, max_size=3, unique=True))
    channel = dict(draw(st.sampled_from([{}, {}, {}, {}, {"decoder": "m:read"}, {"dtype": "string"}])))
    if is_action:
        channel |= {"safety": draw(st.sampled_from(["none", "hold", "zeros"]))}
        channel |= draw(st.sampled_from([{}, {}, {}, {"encoder": "m:write"}]))
    kind = draw(st.sampled_from(["continuous", "binary"]))
    return source(topic, type_, select, channel=channel, apply=draw(st.sampled_from(APPLIES)), kind=kind)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Contracts of the schema's shape: one to three features with one to three sources each."""
    document: dict[str, Any] = {"robot_type": "any", "fps": draw(st.sampled_from([10, 30.0]))}
    topics = iter([f"/{part}/{name}" for name in ("out", "in") for part in "abcdefghi"])
    for section, keys in (
        ("observations", ("observation.state", "observation.b")),
        ("actions", ("action", "action.b")),
    ):
        features = {}
        for key in keys[: draw(st.integers(1, 2))]:
            several = [
                draw(sources(next(topics), section == "actions")) for _ in range(draw(st.integers(1, 2)))
            ]
            features[key] = several if len(several) > 1 else several[0]
        document[section] = features
    return document


@given(documents())
def test_any_contract_of_the_schema_is_imported_or_refused_in_words(document: dict[str, Any]):
    generated = check_words(document)
    if generated is None:
        return
    marked = [line.partition(":")[0] for line in generated.marks]
    try:
        complete(generated, {})
    except DocumentError as error:  # only for a mark that nobody has filled in
        unfilled = [line.removeprefix("filled in: ").partition(":")[0] for line in str(error).splitlines()]
    else:
        unfilled = []
    assert [place for place in unfilled if not any(mark.startswith(place) for mark in marked)] == []


words = st.sampled_from(
    ["position.lift", "velocity.a", "linear.x", "axes.1", JOINTS, "std_msgs/msg/String", "a/msg/B", ""]
)
anything = st.recursive(
    st.none() | st.integers() | st.floats() | words,
    lambda deeper: st.lists(deeper, max_size=2) | st.dictionaries(words, deeper, max_size=2),
)


def check_words(document: dict[str, Any]) -> GeneratedContract | None:
    """Require a contract that its file says in full, or an error of which each line names the file."""
    generated = None
    try:
        generated = begin(document)
    except DocumentError as error:
        problems = str(error).splitlines()
    else:
        problems = []
        assert yaml.safe_load(generated.to_yaml()) == generated.content
    assert all(line.startswith(f"{FILE}: ") for line in problems)
    return generated


def places_in(content: Any) -> list[tuple[Any, Any]]:
    """Return each section with each of its keys."""
    keys = (
        content.keys()
        if isinstance(content, dict)
        else range(len(content))
        if isinstance(content, list)
        else ()
    )
    return [pair for key in list(keys) for pair in [(content, key), *places_in(content[key])]]


@given(st.data())
def test_a_contract_with_wrong_values_is_imported_or_refused_in_words(data: st.DataObject):
    document = json.loads(json.dumps(data.draw(st.sampled_from([guided_arm, coded_robot, base]))()))
    for _ in range(data.draw(st.integers(1, 3))):
        section, key = data.draw(st.sampled_from(places_in(document)))
        value = data.draw(anything | st.sampled_from(places_in(document)).map(value_at))
        section[key] = json.loads(json.dumps(value))
    check_words(document)


def value_at(place: tuple[Any, Any]) -> Any:
    return place[0][place[1]]
