# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The joints of any robot are found in its bag: by the contract, or by a rule where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.timeline import Timeline
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.contract.contract import parse_contract
from remote_inference.base.documents.document import DocumentError
from remote_inference.msg import ExecutedAction
from support.recording.synthetic_run import JOINTS, NS, TOPICS, Recording

STATE = "sensor_msgs/msg/JointState"
OWN = {topic: kind for topic, kind in TOPICS.items() if "/remote_inference/" in topic}
NAMES = ["shoulder", "elbow", "gripper"]
TICKS = 40


def robot_bag(path: Path, states: dict[str, list[str]], commands: str = "", contract: str = "") -> Path:
    """Write a bag whose joints are, by topic, the first TICKS multiples of their place in NAMES."""
    topics = {**OWN, **dict.fromkeys(states, STATE)}
    if commands:
        topics[commands] = STATE
    recording = Recording(topics, NAMES)
    for tick in range(TICKS):
        if tick >= TICKS // 2:
            action = [100.0 + tick, 200.0 + tick, 300.0 + tick]
            recording.executed(10.0 * tick, tick, action)
            if commands:
                recording.joints(10.0 * tick + 1, action, NAMES, commands.lstrip("/"))
        else:
            recording.executed(10.0 * tick, tick)
        for topic, names in states.items():
            values = [float(tick * NAMES.index(name)) if name in NAMES else -1.0 for name in names]
            recording.joints(10.0 * tick + 2, values, names, topic.lstrip("/"))
    return recording.write(path, contract=contract)


def contract_text(**keys: object) -> str:
    joints = {"type": STATE, "field": "position"}
    limits = {name: {"min": -1.0, "max": 2.0, "max_velocity": 3.0} for name in NAMES}
    limits["gripper"]["unit"] = "m"  # type: ignore[assignment]
    content = {
        "robot_type": "two_buses",
        "fps": 100.0,
        "state": [
            {"topic": "left/joint_states", "names": NAMES[:2], **joints},
            {"topic": "/hands/gripper", "names": NAMES[2:], **joints},
        ],
        "actions": {"kind": "position", "names": NAMES, "limits": limits},
        "commands": [{"topic": "command", "type": STATE, "names": NAMES}],
        **keys,
    }
    return yaml.safe_dump(content)


def topics_of(timeline: Timeline) -> list[str]:
    return [joint.topic for joint in timeline.joints]


def test_joints_are_found_on_several_topics_inside_the_namespace_and_outside(tmp_path: Path) -> None:
    states = {"/arm/left/joint_states": ["elbow", "shoulder"], "/hands/gripper": ["gripper", "thumb"]}
    timeline = load_timeline(robot_bag(tmp_path / "bag", states), NS)
    assert [joint.name for joint in timeline.joints] == list(NAMES)
    assert topics_of(timeline) == ["/arm/left/joint_states", "/arm/left/joint_states", "/hands/gripper"]
    for place, joint in enumerate(timeline.joints):
        assert joint.value == pytest.approx([tick * place for tick in range(TICKS)])
        assert joint.t_s[1] - joint.t_s[0] == pytest.approx(0.010)
    assert {(joint.unit, joint.limit) for joint in timeline.joints} == {("", None)}


def test_commands_are_not_taken_for_measurements(tmp_path: Path) -> None:
    states = {"/arm/joint_states": NAMES}
    timeline = load_timeline(robot_bag(tmp_path / "bag", states, "/arm/joint_commands"), NS)
    assert topics_of(timeline) == ["/arm/joint_states"] * 3


def test_a_bag_with_commands_alone_has_no_measured_joint(tmp_path: Path) -> None:
    timeline = load_timeline(robot_bag(tmp_path / "bag", {}, "/arm/joint_commands"), NS)
    assert [(joint.name, joint.topic, len(joint.t_s)) for joint in timeline.joints] == [
        (name, "", 0) for name in NAMES
    ]


def test_a_topic_of_the_namespace_wins_over_one_outside(tmp_path: Path) -> None:
    states = {"/all/joint_states": NAMES, "/arm/joint_states": NAMES[:2]}
    timeline = load_timeline(robot_bag(tmp_path / "bag", states), NS)
    assert topics_of(timeline) == ["/arm/joint_states"] * 2 + ["/all/joint_states"]


def test_joints_of_another_robot_in_the_bag_are_not_borrowed(tmp_path: Path) -> None:
    others = {topic.replace("/arm/", "/arm_2/"): kind for topic, kind in OWN.items()}
    recording = Recording({**OWN, **others, "/arm_2/joint_states": STATE}, NAMES)
    recording.executed(0, 1)
    recording.add("arm_2/remote_inference/executed", 0, ExecutedAction(joint_names=NAMES))
    recording.joints(1, [1.0, 2.0, 3.0], NAMES, "arm_2/joint_states")
    path = recording.write(tmp_path / "bag")
    assert topics_of(load_timeline(path, NS)) == [""] * 3
    assert topics_of(load_timeline(path, "/arm_2")) == ["/arm_2/joint_states"] * 3


def test_trajectory_commands_are_passed_over(tmp_path: Path) -> None:
    kinds = {"/arm/controller/joint_trajectory": "trajectory_msgs/msg/JointTrajectory"}
    recording = Recording({**OWN, **kinds, "/arm/joint_states": STATE}, NAMES)
    recording.executed(0, 1, [1.0, 2.0, 3.0])
    point = JointTrajectoryPoint(positions=[1.0, 2.0, 3.0])
    recording.add("joint_trajectory", 1, JointTrajectory(joint_names=NAMES, points=[point]))
    recording.joints(2, [4.0, 5.0, 6.0], NAMES)
    timeline = load_timeline(recording.write(tmp_path / "bag"), NS)
    assert [joint.value.tolist() for joint in timeline.joints] == [[4.0], [5.0], [6.0]]


def test_the_contract_in_the_bag_says_topics_units_and_limits(tmp_path: Path) -> None:
    states = {
        "/arm/left/joint_states": NAMES[:2],
        "/hands/gripper": NAMES[2:],
        "/arm/joint_states": NAMES,  # would win by the rule
    }
    timeline = load_timeline(robot_bag(tmp_path / "bag", states, contract=contract_text()), NS)
    assert topics_of(timeline) == ["/arm/left/joint_states"] * 2 + ["/hands/gripper"]
    assert [joint.unit for joint in timeline.joints] == ["rad", "rad", "m"]
    assert all(joint.limit is not None and joint.limit.max == 2.0 for joint in timeline.joints)


def test_measured_joints_have_names_of_their_own(tmp_path: Path) -> None:
    measured = {"topic": "joint_states", "type": STATE, "field": "position", "names": ["j1", "j2", "j3"]}
    text = contract_text(measured=measured)
    bag = robot_bag(tmp_path / "bag", {"/arm/joint_states": ["j3", "j1"]}, contract=text)
    timeline = load_timeline(bag, NS)
    assert topics_of(timeline) == ["/arm/joint_states"] * 3
    assert [len(joint.t_s) for joint in timeline.joints] == [TICKS, 0, TICKS]


def test_arms_that_call_their_joints_alike_are_told_apart_by_their_topics(tmp_path: Path) -> None:
    """A joint's kind is its action's, under the name that the contract has for it."""
    arms = ["left_shoulder", "left_elbow", "right_shoulder"]
    limit = {"min": -1.0, "max": 2.0, "max_velocity": 3.0}
    left = {"type": STATE, "names": arms[:2], "prefix": "left_"}
    right = {"type": STATE, "names": arms[2:], "prefix": "right_"}
    text = contract_text(
        state=[
            {"topic": "left/joint_states", "field": "position", **left},
            {"topic": "right/joint_states", "field": "velocity", **right},
        ],
        actions={
            "kind": "position",
            "names": arms,
            "limits": {arms[0]: limit, arms[1]: limit, arms[2]: {**limit, "kind": "velocity"}},
        },
        commands=[{"topic": "left/command", **left}, {"topic": "right/command", **right}],
    )
    topics = dict.fromkeys(("/arm/left/joint_states", "/arm/right/joint_states"), STATE)
    recording = Recording({**OWN, **topics}, arms)
    recording.executed(0, 1, [0.1, 0.2, 0.3])
    recording.joints(2, [4.0, 5.0], ["shoulder", "elbow"], "arm/left/joint_states")
    recording.add("arm/right/joint_states", 2, JointState(name=["shoulder"], position=[6.0], velocity=[7.0]))
    timeline = load_timeline(recording.write(tmp_path / "bag", contract=text), NS)
    assert topics_of(timeline) == ["/arm/left/joint_states"] * 2 + ["/arm/right/joint_states"]
    assert [joint.value.tolist() for joint in timeline.joints] == [[4.0], [5.0], [7.0]]


def test_velocities_are_compared_with_velocities(tmp_path: Path) -> None:
    actions = {
        "kind": "velocity",
        "names": NAMES,
        "limits": {name: {"min": -1.0, "max": 1.0, "max_velocity": 1.0} for name in NAMES},
    }
    state = [{"topic": "joint_states", "type": STATE, "field": "velocity", "names": NAMES}]
    recording = Recording({**OWN, "/arm/joint_states": STATE}, NAMES)
    recording.executed(0, 1, [0.1, 0.2, 0.3])
    recording.joints(2, [4.0, 5.0, 6.0], NAMES)
    text = contract_text(actions=actions, state=state)
    timeline = load_timeline(recording.write(tmp_path / "bag", contract=text), NS)
    assert [len(joint.t_s) for joint in timeline.joints] == [0, 0, 0]  # positions alone were published
    assert {joint.unit for joint in timeline.joints} == {"rad/s"}


def test_a_contract_at_hand_wins_over_the_recorded_one(tmp_path: Path) -> None:
    states = {"/arm/left/joint_states": NAMES, "/hands/gripper": NAMES[2:]}
    bag = robot_bag(tmp_path / "bag", states, contract=contract_text())
    source = [{"topic": "left/joint_states", "type": STATE, "field": "position", "names": NAMES}]
    timeline = load_timeline(bag, NS, parse_contract(contract_text(state=source), "mended.yaml"))
    assert topics_of(timeline) == ["/arm/left/joint_states"] * 3


def test_a_contract_of_another_robot_is_refused(tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    with pytest.raises(BagError, match=f"found {', '.join(JOINTS)}, expected {', '.join(NAMES)}"):
        load_timeline(recording.write(tmp_path / "bag", contract=contract_text()), NS)


def test_a_damaged_contract_in_a_bag_is_named(tmp_path: Path) -> None:
    recording = Recording()
    recording.executed(0, 1)
    with pytest.raises(DocumentError, match="bag: recorded contract: robot_type: missing"):
        load_timeline(recording.write(tmp_path / "bag", contract="fps: 1.0"), NS)


def test_a_single_robot_need_not_be_named(tmp_path: Path) -> None:
    bag = robot_bag(tmp_path / "bag", {"/arm/joint_states": NAMES})
    assert load_timeline(bag).namespace == NS
    with pytest.raises(BagError, match=r"no robot /leg in the bag, which holds /arm"):
        load_timeline(bag, "/leg")
    others = {topic.replace("/arm/", "/arm_2/"): kind for topic, kind in OWN.items()}
    recording = Recording({**OWN, **others}, NAMES)
    with pytest.raises(BagError, match=r"several robots in the bag, name one: /arm, /arm_2 \(--namespace\)"):
        load_timeline(recording.write(tmp_path / "two"))
