# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts of the shapes that rosetta publishes, and the contracts generated of them, filled in."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.generated import GeneratedContract
from remote_inference.base.documents.document import FILL_IN, DocumentError, parse_document
from remote_inference.tools.contracts.rosetta.importer import import_contract

FILE = "bench.yaml"
JOINTS = "sensor_msgs/msg/JointState"
LATEST = {"strategy": "hold", "timeline": "header"}
POSES = ["position.lift", "position.reach", "position.gripper"]


def source(topic: str, type_: str, select: Any = None, **more: Any) -> dict[str, Any]:
    """Return a source; keys of its channel in `channel`."""
    channel = {"topic": topic, "type": type_, "qos": {"reliability": "best_effort", "depth": 5}}
    content = {"channel": channel | more.pop("channel", {}), "align": LATEST, **more}
    return content | ({"select": select} if select else {})


def arm() -> dict[str, Any]:
    """An arm with a camera, in degrees."""
    return {
        "robot_type": "bench_arm",
        "robot_interface": "ros2",
        "fps": 20,
        "observations": {
            "observation.images.hand.left": source(
                "/hand/image/compressed", "sensor_msgs/msg/CompressedImage", apply=[{"resize": [240, 320]}]
            ),
            "observation.state": source("/arm/state", JOINTS, POSES, apply=["rad2deg"]),
        },
        "actions": {"action": source("/arm/target", JOINTS, POSES, apply=["rad2deg"])},
    }


def guided_arm() -> dict[str, Any]:
    """The arm with a person: a leader, buttons, a reward."""
    person = source("/leader/state", JOINTS, POSES, apply=["rad2deg"]) | {"target": "/arm/target"}
    buttons = {
        "channel": {"topic": "/pad", "type": "sensor_msgs/msg/Joy"},
        "select": {"success": "buttons.4"},
    }
    reward = source("/score", "std_msgs/msg/Float64", channel={"dtype": "float64"})
    return {
        "x-shared": {"anything": [1, 2]},
        **arm(),
        "teleop": {"input": [person], "events": buttons},
        "rewards": {"next.reward": reward},
        "tasks": {"task": {"channel": {"topic": "/words", "type": "std_msgs/msg/String"}}},
    }


def coded_robot() -> dict[str, Any]:
    """An arm on a base with code of its own for some messages, and each kind of section."""
    document = guided_arm()
    quaternion = [f"orientation.{axis}" for axis in "xyzw"]
    cells = source("/cells", "std_msgs/msg/Float64MultiArray", ["low", "high"], channel={"decoder": "m:read"})
    document["observations"] |= {
        "observation.state": [
            source("/arm/state", JOINTS, POSES, apply=["rad2deg"]),
            source("/base/odom", "nav_msgs/msg/Odometry", ["twist.twist.linear.x"]),
        ],
        "observation.tilt": source("/imu", "sensor_msgs/msg/Imu", quaternion, kind="quaternion")
        | {"align": {"strategy": "asof", "timeline": "header", "tolerance_ms": 10}},
        "observation.cells": cells,
    }
    suction = source(
        "/suction/level",
        "std_msgs/msg/Float64",
        ["data"],
        channel={"encoder": "m:write", "safety": "hold"},
        kind="binary",
    )
    base = source(
        "/base/cmd_vel",
        "geometry_msgs/msg/TwistStamped",
        ["twist.linear.x", "twist.angular.z"],
        channel={"safety": "zeros"},
        apply=[{"clamp": {"min": -0.4, "max": 0.3}}],
    )
    document["actions"] = {
        "action": [source("/arm/target", JOINTS, POSES, apply=["rad2deg"]), suction],
        "action.base": base,
    }
    flag = source("/over", "std_msgs/msg/Bool", channel={"dtype": "bool"})
    text = source("/note", "std_msgs/msg/String", channel={"dtype": "string"})
    return document | {
        "signals": {"next.done": flag},
        "info": {"late": flag},
        "complementary_data": {"note": text},
        "adjunct": [{"channel": {"topic": "/tf", "type": "tf2_msgs/msg/TFMessage"}}],
    }


def base() -> dict[str, Any]:
    """A base alone."""
    wheels = [f"{field}.{side}_wheel" for field in ("position", "velocity") for side in ("left", "right")]
    return {
        "robot_type": "bench_base",
        "fps": 10.0,
        "observations": {
            "observation.state": [
                source("/wheels", JOINTS, wheels),
                source("/imu", "sensor_msgs/msg/Imu", ["angular_velocity.z"]),
            ]
        },
        "actions": {
            "action": source(
                "/cmd_vel", "geometry_msgs/msg/Twist", ["linear.x", "angular.z"], channel={"safety": "zeros"}
            )
        },
    }


def begin(document: Any) -> GeneratedContract:
    return import_contract(yaml.safe_dump(document, sort_keys=False).encode(), FILE)


def refusal(document: Any) -> str:
    """Return why a document, or a text, is refused."""
    text = document if isinstance(document, (str, bytes)) else yaml.safe_dump(document, sort_keys=False)
    content = text.encode() if isinstance(text, str) else text
    with pytest.raises(DocumentError) as caught:
        import_contract(content, FILE)
    return str(caught.value)


def places(generated: GeneratedContract) -> list[str]:
    return [line.partition(": ")[0] for line in generated.marks]


NUMBERS = {"min": -1.0, "max": 1.0, "max_velocity": 2.0}
FILLED_IN = NUMBERS | {"kind": "velocity"}  # left out it were a position, which has to be measured


def filled_in(generated: GeneratedContract, known: dict[str, Any]) -> dict[str, Any]:
    """Return the content, filled in. known: values by place; limits have some, if it names none."""

    def fill_in(content: Any, place: str) -> Any:
        if isinstance(content, str) and content.startswith(FILL_IN):
            return known.get(place, FILLED_IN.get(place.rpartition(".")[2]))
        if isinstance(content, dict):
            return {key: fill_in(item, f"{place}.{key}".strip(".")) for key, item in content.items()}
        if isinstance(content, list):
            return [fill_in(item, f"{place}.{index}") for index, item in enumerate(content)]
        return content

    content = fill_in(yaml.safe_load(generated.to_yaml()), "")
    assert isinstance(content, dict)
    return content


def complete(generated: GeneratedContract, known: dict[str, Any]) -> Contract:
    return parse_document(filled_in(generated, known), Contract, "filled in")
