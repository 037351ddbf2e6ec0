# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that several sections of a contract hold, names of topics among them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from remote_inference.base.contract.field_path import parse_field_path

MAX_LENGTH = 247  # of a full name, as RMW_TOPIC_MAX_NAME_LENGTH says
_ALIEN = re.compile(r"[^A-Za-z0-9_/]")


def find_topic_name_problem(name: str) -> str:
    """Return why ROS cannot use a name for a topic, or an empty string.

    Names are relative to the robot's namespace, or absolute. The `~` and `{}` of ROS are refused: they stand
    for the node that expands them, and a robot's recorder is another one.
    """
    if alien := _ALIEN.search(name):
        return f"found {alien[0]!r} in {name!r}, expected letters, digits, '_' and '/'"
    tokens = name.removeprefix("/").split("/")
    if "" in tokens:
        where = "an empty name" if not name.strip("/") else "'//'" if "//" in name else "a '/' at the end"
        return f"found {where} in {name!r}, expected names with one '/' between them"
    if numbered := [token for token in tokens if token[0].isdigit()]:
        return f"found {numbered[0]!r} in {name!r}, expected a letter or '_' at its beginning"
    if len(name) > MAX_LENGTH:
        return f"found {len(name)} characters, expected {MAX_LENGTH} at most"
    return ""


def _require_topic_name(name: str) -> str:
    if problem := find_topic_name_problem(name):
        raise ValueError(problem)
    return name


_TYPE_EXAMPLES = {
    "msg": "a message type such as 'std_msgs/msg/Bool'",
    "action": "an action type such as 'control_msgs/action/GripperCommand'",
}


def require_type_name(name: str, kind: str = "msg") -> str:
    """Return the name of a message type, or with kind "action" of an action type. Raises ValueError."""
    if not re.fullmatch(rf"[A-Za-z]\w*/{kind}/[A-Z]\w*", name, re.ASCII):
        raise ValueError(f"found {name!r}, expected {_TYPE_EXAMPLES[kind]}")
    return name


def _require_no_space_around(name: str) -> str:
    if name != name.strip():
        raise ValueError(f"found {name!r}, expected no space at its ends")
    return name


Name = Annotated[str, Field(min_length=1), AfterValidator(_require_no_space_around)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
# [Hz]: of a slower one a chunk's end lies beyond a message's seconds, of a faster one a period has no ns.
Rate = Annotated[float, Field(ge=0.01, le=10_000, allow_inf_nan=False)]
# Of motion [unit/s2], [unit/s3]: what is computed from them, squares and quotients, stays a number.
Bound = Annotated[float, Field(ge=1e-6, le=1e9, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
FieldPathText = Annotated[str, AfterValidator(lambda text: parse_field_path(text).text)]
MessageType = Annotated[str, AfterValidator(require_type_name)]
NodeName = Annotated[str, AfterValidator(_require_topic_name)]
Topic = Annotated[
    str, AfterValidator(_require_topic_name), Field(description="topic, relative to the robot's namespace")
]
JOINT_PREFIX = Field(
    description="of messages with joint names: what `names` begin with and the message's joints do not, "
    "where two arms call their joints alike"
)


def check_prefix(prefix: str, names: tuple[str, ...]) -> None:
    """Raise ValueError when a name does not begin with a prefix, or has nothing behind it."""
    if alien := [name for name in names if not name.startswith(prefix) or name == prefix != ""]:
        expected = f"names such as {prefix}elbow"
        raise ValueError(f"prefix: found {prefix!r} with {', '.join(alien)}, expected {expected}")


def require_unique(names: tuple[str, ...] | list[str], what: str) -> None:
    """Raise ValueError, naming `what`, when a name stands twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {', '.join(twice)} found more than once, expected unique names")
