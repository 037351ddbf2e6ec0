# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What rosetta's `select` means for each message type, and how its data sets name the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from remote_inference.core.contract.field_path import parse_field_path
from remote_inference.core.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.core.contract.state_source import JOINT_STATE

TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
TWISTS = ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped")
FLOATS = ("std_msgs/msg/Float32", "std_msgs/msg/Float64")
FLOAT_ARRAYS = ("std_msgs/msg/Float32MultiArray", "std_msgs/msg/Float64MultiArray")
SCALARS = (*FLOATS, "std_msgs/msg/Bool", "std_msgs/msg/Int32", "std_msgs/msg/Int64")
ARRAYS = (*FLOAT_ARRAYS, "std_msgs/msg/Int32MultiArray")
TEXT = "std_msgs/msg/String"
JOY = "sensor_msgs/msg/Joy"
PICTURES = (IMAGE, COMPRESSED_IMAGE)
BY_NAME = (TRAJECTORY, "control_msgs/msg/MultiDOFCommand")  # their arrays have an order of their own
NESTED = (*TWISTS, "nav_msgs/msg/Odometry", "sensor_msgs/msg/Imu")  # they hold no number themselves

JOINT_FIELDS = {"position": "position", "velocity": "velocity", "effort": "effort"}
POINT_FIELDS = JOINT_FIELDS | {"positions": "position", "velocities": "velocity"}
WITHOUT_SELECT = (*SCALARS, *ARRAYS, *PICTURES, TEXT)


def check_select(message_type: str, select: Sequence[str] | None, decoder: str | None) -> None:
    """Raise ValueError, with the key, for a `select` that rosetta would not take for a message type."""
    if decoder or message_type not in _PARSERS:
        return  # the names are then whatever the code calls them
    if not select:
        if message_type not in WITHOUT_SELECT:
            raise ValueError(f"select: missing, expected the numbers to take of {message_type}")
        return
    if message_type in SCALARS and len(select) > 1:
        raise ValueError(f"select: found {len(select)} names, expected one: {message_type} is one number")
    index = 0
    try:
        for index, text in enumerate(select):
            parse_of(message_type)(index, text)
    except ValueError as error:
        raise ValueError(f"select.{index}: {error}") from None


def parse_of(message_type: str) -> Callable[[int, str], str]:
    """Return what makes a field's path of a name in `select` and its place there. It raises ValueError."""
    return _PARSERS.get(message_type, _path)


def has_paths(message_type: str, select: Sequence[str] | None) -> bool:
    """Return whether each number has a fixed place in the message, as far as its type is known."""
    if message_type in BY_NAME or not (select or message_type in WITHOUT_SELECT):
        return False
    try:
        for index, text in enumerate(select or ()):
            parse_of(message_type)(index, text)
    except ValueError:
        return False
    return True


def split_joint(text: str, fields: dict[str, str]) -> tuple[str, str]:
    """Return field and joint of a selector such as `position.elbow`; a bare name is a position.

    Raises ValueError for another field.
    """
    field, dot, name = text.partition(".")
    if not dot:
        return "position", text
    if field not in fields or not name:
        words = " or ".join(f"{word}.NAME" for word in dict.fromkeys(fields.values()))
        raise ValueError(f"found {text!r}, expected {words}")
    return fields[field], name


def _joint(_: int, text: str) -> str:
    return ".".join(split_joint(text, JOINT_FIELDS))


def _point(_: int, text: str) -> str:
    return (
        text
        if text.partition(".")[0].startswith("acceleration")
        else ".".join(split_joint(text, POINT_FIELDS))
    )


def _path(_: int, text: str) -> str:
    if any(part.index is not None for part in parse_field_path(text).parts):
        raise ValueError(f"found {text!r}, expected names of fields with dots between them")
    return text


def _nested_path(index: int, text: str) -> str:
    if "." not in text:
        raise ValueError(f"found {text!r}, expected the path of a number, such as twist.linear.x")
    return _path(index, text)


def _joy(_place: int, text: str) -> str:
    field, _, index = text.partition(".") if "." in text else ("axes", ".", text)
    if field not in ("axes", "buttons") or not (index.isascii() and index.isdigit() and len(index) < 6):
        raise ValueError(f"found {text!r}, expected axes.NUMBER or buttons.NUMBER")
    return f"{field}[{int(index)}]"


_PARSERS: dict[str, Callable[[int, str], str]] = {
    JOINT_STATE: _joint,
    TRAJECTORY: _point,
    JOY: _joy,
    **dict.fromkeys(NESTED, _nested_path),
    **dict.fromkeys(SCALARS, lambda _index, _text: "data"),
    **dict.fromkeys(ARRAYS, lambda index, _text: f"data[{index}]"),
    **dict.fromkeys((*PICTURES, TEXT, BY_NAME[1]), lambda _index, text: text),
}


def tell_apart(topics: Iterable[str]) -> dict[str, str]:
    """Return the prefix of each topic's numbers in a data set, where one feature has several topics.

    It is the first part of the topics' names in which all differ, or as many parts as it takes. A feature of
    one topic has none.
    """
    parts = {topic: topic.strip("/").split("/") for topic in topics}
    if len(parts) < 2:
        return dict.fromkeys(parts, "")
    depth = max(map(len, parts.values()))
    columns = [
        {topic: ".".join(words[place : place + 1]) for topic, words in parts.items()}
        for place in range(depth)
    ]
    begins = [
        {topic: ".".join(words[:length]) for topic, words in parts.items()} for length in range(2, depth + 1)
    ]
    differing = (names for names in (*columns, *begins) if len(set(names.values())) == len(parts))
    return next(differing, dict.fromkeys(parts, ""))
