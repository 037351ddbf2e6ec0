# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fields whose names tell that they hold something else than the contract says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import contract_document
from support.robot.pose_robot import FIELDS, POSE, POSE_STAMPED, pose_document

TWIST = "geometry_msgs/msg/TwistStamped"
JOINT_STATE = "sensor_msgs/msg/JointState"


@pytest.mark.parametrize(
    ("path", "quantity", "axis"),
    [
        ("twist.twist.linear.x", "velocity", None),
        ("angular.z", "velocity", None),
        ("velocities[2]", "velocity", None),
        ("points[0].positions[1]", "position", None),
        ("position[3]", "position", None),
        ("effort[0]", "effort", None),
        ("wrench.force.x", "effort", None),
        ("wrench.torque.z", "effort", None),
        ("accel.linear.x", "", None),
        ("accelerations[0]", "", None),
        ("data[4]", "", None),
        ("command.max_effort", "", None),
        ("pose.pose.position.y", "position", ("position", "y")),
        ("poses[3].orientation.w", "position", ("quaternion", "w")),
        ("transform.translation.z", "position", ("position", "z")),
        ("transform.rotation.x", "position", ("quaternion", "x")),
        ("position.w", "position", None),
        ("x", "", None),
    ],
)
def test_a_path_tells_what_it_holds(path: str, quantity: str, axis: tuple[str, str] | None):
    found = parse_field_path(path)
    assert (found.quantity, found.axis) == (quantity, axis)


def commanded(kind: str, type_name: str, fields: dict[str, str], **limits: Any) -> Contract:
    """Return the contract of two actions of a kind that go to the fields of a message."""
    document = contract_document(kind)
    document["commands"] = [{"topic": "commands", "type": type_name, "fields": fields}]
    for name, limit in limits.items():
        document["actions"]["limits"][name] |= limit
    return parse_document(document, Contract, "f")


@pytest.mark.parametrize(
    ("kind", "fields", "found", "expected"),
    [
        ("position", {"twist.linear.x": "shoulder", "twist.angular.z": "elbow"}, "velocity", "position"),
        ("position", {"velocity[0]": "shoulder", "velocity[1]": "elbow"}, "velocity", "position"),
        ("position", {"effort[0]": "shoulder", "effort[1]": "elbow"}, "effort", "position"),
        ("velocity", {"position[0]": "shoulder", "position[1]": "elbow"}, "position", "velocity"),
        ("effort", {"velocity[0]": "shoulder", "velocity[1]": "elbow"}, "velocity", "effort"),
        ("position", {"position[0]": "shoulder", "position[1]": "elbow"}, "", ""),
        ("velocity", {"twist.linear.x": "shoulder", "twist.angular.z": "elbow"}, "", ""),
        ("effort", {"effort[0]": "shoulder", "effort[1]": "elbow"}, "", ""),
        ("position", {"data[0]": "shoulder", "data[1]": "elbow"}, "", ""),
    ],
)
def test_a_field_takes_actions_of_its_own_quantity(
    kind: str, fields: dict[str, str], found: str, expected: str
):
    """A velocity that stands for a position goes on when the policy falls silent."""
    type_name = TWIST if "twist.linear.x" in fields else JOINT_STATE
    if not found:
        assert commanded(kind, type_name, fields).commands[0].names == ("shoulder", "elbow")
        return
    path = next(iter(fields))
    with pytest.raises(DocumentError) as refusal:
        commanded(kind, type_name, fields)
    assert str(refusal.value) == (
        f"f: commands.0.fields: found {path}, of the quantity {found}, for shoulder, a {kind} action, "
        f"expected an action of kind {found}, or a field of the quantity {expected}"
    )


def test_a_switch_may_go_to_any_field():
    document = contract_document()
    document["actions"]["limits"]["elbow"] = {
        "kind": "switch",
        "min": 0.0,
        "max": 1.0,
        "closes_above": 0.7,
        "opens_below": 0.3,
    }
    document["commands"] = [
        {"topic": "arm", "type": JOINT_STATE, "fields": {"position[0]": "shoulder"}},
        {"topic": "valve", "type": JOINT_STATE, "fields": {"effort[0]": "elbow"}},
    ]
    assert parse_document(document, Contract, "f").actions.kinds == ("position", "switch")


def test_a_speed_in_metres_is_no_turn():
    fields = {"twist.linear.x": "shoulder", "twist.angular.z": "elbow"}
    right = {"shoulder": {"unit": "m/s"}, "elbow": {"unit": "rad/s"}}
    commanded("velocity", TWIST, fields, **right)
    with pytest.raises(
        DocumentError, match=r"found elbow in m/s for twist\.angular\.z, expected it in rad/s"
    ):
        commanded("velocity", TWIST, fields, shoulder={"unit": "m/s"}, elbow={"unit": "m/s"})
    with pytest.raises(
        DocumentError, match=r"found shoulder in rad/s for twist\.linear\.x, expected it in m/s"
    ):
        commanded("velocity", TWIST, fields, shoulder={"unit": "rad/s"}, elbow={"unit": "rad/s"})


def posed(state: Sequence[str], command: Sequence[str]) -> Contract:
    """Return the contract of a pose whose numbers are read from fields and go to fields, in its order."""
    document = pose_document()
    document["state"] = [{"topic": "pose", "type": POSE_STAMPED, "fields": list(state), "names": list(POSE)}]
    fields = dict(zip(command, POSE, strict=True))
    document["commands"] = [{"topic": "target", "type": POSE_STAMPED, "fields": fields}]
    return parse_document(document, Contract, "f")


def exchanged(one: int, other: int) -> list[str]:
    fields = list(FIELDS)
    fields[one], fields[other] = fields[other], fields[one]
    return fields


def test_the_axes_of_a_pose_are_those_of_the_fields():
    assert posed(FIELDS, FIELDS).measured_actions == POSE
    plain = [f"data[{place}]" for place in range(7)]
    posed(plain, plain)
    with pytest.raises(
        DocumentError, match=r"^f: commands.0.fields: found pose\.position\.y for \w+, the x of"
    ):
        posed(FIELDS, exchanged(0, 1))
    with pytest.raises(
        DocumentError, match=r"state.0.fields: found pose\.orientation\.w for \w+, the x of the "
    ):
        posed(exchanged(3, 6), FIELDS)
    twice = [FIELDS[0], *FIELDS[:1], *FIELDS[2:]]
    with pytest.raises(
        DocumentError, match=r"state.0.fields: found pose\.position\.x for \w+, the y of the pose"
    ):
        posed(twice, FIELDS)
