# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Generates a contract from a running robot: its topics, its controllers and its URDF."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.base.contract.generated import (
    UNKNOWN_COMMAND_TYPE,
    UNKNOWN_FPS,
    UNKNOWN_KIND,
    UNKNOWN_LIMITS,
    UNKNOWN_ROBOT_TYPE,
    GeneratedContract,
    leave_grippers_unwatched,
)
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.urdf import Urdf, suggest_limit

JOINT_STATES = "joint_states"  # the topic of drivers and broadcasters
DEPTH_ENCODINGS = ("16UC1", "32FC1", "mono16")
NAME_ENDINGS = ("compressed", "image_raw", "image_rect", "image_color", "image_rect_color", "image", "color")
ORDER_NOTES = (
    "The joints stand in the order of their messages. The policy's order rules: reorder the names of state",
    "and actions as the policy has them. A server refuses another order.",
)


@dataclass(frozen=True)
class JointTopic:
    """A topic of JointState messages with positions. rate_hz: of the messages received."""

    topic: str
    names: tuple[str, ...]
    rate_hz: float


@dataclass(frozen=True)
class ImageTopic:
    """A topic of images. encoding, width, height: of a message; empty and 0 while unknown."""

    topic: str
    type: str
    encoding: str = ""
    width: int = 0
    height: int = 0


@dataclass(frozen=True)
class CommandTopic:
    """A topic that a controller takes. names, kind: of its own parameters; empty when it has none."""

    topic: str
    type: str
    names: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True)
class RobotView:
    """What a running robot shows. Topics are relative to its namespace."""

    joints: Sequence[JointTopic] = ()
    images: Sequence[ImageTopic] = ()
    commands: Sequence[CommandTopic] = ()
    urdf: Urdf | None = None
    remarks: Sequence[str] = ()  # on what could not be read


def suggest(view: RobotView, kind: str = "") -> GeneratedContract:
    """Return a contract for a robot. kind: of the actions, as a person says it; empty: as controllers say."""
    notes = [*ORDER_NOTES, *view.remarks]
    state = _suggest_state(view, notes)
    kinds = {command.kind for command in view.commands if command.kind}
    if not kind and len(kinds) == 1 and all(command.kind for command in view.commands):
        kind = kinds.pop()
    rates = [f"{topic.topic} comes at {topic.rate_hz:.1f} Hz" for topic in view.joints]
    content: dict[str, Any] = {
        "robot_type": view.urdf.robot if view.urdf and view.urdf.robot else UNKNOWN_ROBOT_TYPE,
        "fps": mark("; ".join([UNKNOWN_FPS, *rates])),
        "state": state,
    }
    if images := _suggest_images(view.images, notes):
        content["images"] = images
    content["actions"] = _suggest_actions(view, state, kind)
    content["commands"] = _suggest_commands(view.commands)
    return GeneratedContract(content, tuple(notes))


# -- state ---------------------------------------------------------------------------------------------------


def _suggest_state(view: RobotView, notes: list[str]) -> Any:
    """Return the sources of the state: each free joint once, from the topic that has most of them.

    Topics that are not called joint_states come last: commands are JointState messages, too.
    """
    sources, taken = [], set[str]()
    for topic in sorted(view.joints, key=_rank):
        dropped = [name for name in topic.names if not _is_free(view.urdf, name)]
        if dropped:
            notes.append(f"{topic.topic}: left out, because another joint moves them: {', '.join(dropped)}")
        names = [name for name in topic.names if name not in taken and name not in dropped]
        if not names:
            notes.append(f"{topic.topic}: left out, it has no joint of its own")
            continue
        taken |= set(names)
        sources.append({"topic": topic.topic, "type": JOINT_STATE, "field": "position", "names": names})
    return sources or mark(f"a list of topics of type {JOINT_STATE} with their joints; none was received")


def _rank(topic: JointTopic) -> tuple[bool, int, str]:
    return not topic.topic.endswith(JOINT_STATES), -len(topic.names), topic.topic


def _is_free(urdf: Urdf | None, name: str) -> bool:
    return urdf is None or name not in urdf.joints or urdf.joints[name].is_free


# -- images --------------------------------------------------------------------------------------------------


def _suggest_images(topics: Sequence[ImageTopic], notes: list[str]) -> dict[str, Any]:
    """Return the cameras: of a camera's topics the one that comes compressed, because its JPEG is kept."""
    images: dict[str, Any] = {}
    taken: dict[str, str] = {}  # the topic of each camera, by its name without the transport
    unreadable = [topic.topic for topic in topics if topic.topic.endswith("/compressedDepth")]
    notes += [f"{topic}: left out, this transport is not read; take the raw topic" for topic in unreadable]
    topics = [topic for topic in topics if topic.topic not in unreadable]
    for topic in sorted(topics, key=lambda topic: (topic.type != COMPRESSED_IMAGE, topic.topic)):
        name = _camera_name(topic.topic)
        if other := taken.get(bare := topic.topic.removesuffix("/compressed")):
            notes.append(f"{topic.topic}: left out, the same camera as {other}")
            continue
        taken[bare] = topic.topic
        if name in images:
            name = topic.topic.strip("/").replace("/", "_")
        images[name] = {"topic": topic.topic, "type": topic.type, "colour": _colour(topic)}
        size = f"{topic.width} x {topic.height}, " if topic.width else ""
        notes.append(f"{topic.topic}: {size}{topic.encoding or 'no message was received'}")
    return dict(sorted(images.items()))


def _camera_name(topic: str) -> str:
    """Return the part of a topic's name that says which camera it is: `wrist` of `wrist/image_raw`."""
    parts = topic.strip("/").split("/")
    while len(parts) > 1 and parts[-1] in NAME_ENDINGS:
        parts.pop()
    return "_".join(parts)


def _colour(topic: ImageTopic) -> str:
    if not topic.encoding:
        return mark(f"rgb or depth; no message was received on {topic.topic}")
    return "depth" if topic.encoding.split(";")[0].strip() in DEPTH_ENCODINGS else "rgb"


# -- actions and commands ------------------------------------------------------------------------------------


def _suggest_actions(view: RobotView, state: Any, kind: str) -> dict[str, Any]:
    measured = [name for source in state if isinstance(source, dict) for name in source["names"]]
    known = [name for command in view.commands for name in command.names]
    is_complete = bool(view.commands) and all(command.names for command in view.commands)
    names = tuple(dict.fromkeys(known if is_complete else known + measured))
    among = f"; joints that were received: {', '.join(measured)}" if measured else ""
    limits: Any = {name: suggest_limit(view.urdf, name, kind) for name in names}
    return {
        "kind": kind or UNKNOWN_KIND,
        "names": list(names) if is_complete else mark(f"a list of the actions, in the policy's order{among}"),
        "limits": leave_grippers_unwatched(limits, kind) or UNKNOWN_LIMITS,
    }


def _suggest_commands(commands: Iterable[CommandTopic]) -> Any:
    sinks: list[dict[str, Any]] = []
    taken: dict[str, str] = {}
    for command in commands:
        names: Any = list(command.names)
        if not names:
            names = mark("a list of the actions that this controller takes, in its own order")
        elif others := sorted({taken[name] for name in names if name in taken}):
            names = mark(f"one controller for each joint: delete this entry or {', '.join(others)}")
        taken |= dict.fromkeys(command.names, command.topic)
        sinks.append({"topic": command.topic, "type": command.type, "names": names})
    if not sinks:
        topic = mark("the topic from which the controller takes commands; none was found")
        sinks.append({"topic": topic, "type": UNKNOWN_COMMAND_TYPE, "names": mark("a list of actions")})
    return sinks
