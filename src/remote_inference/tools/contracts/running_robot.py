# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Generates a contract from a running robot: its topics, its controllers and its URDF."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from remote_inference.base.contract import generated, image_source
from remote_inference.base.contract.generated import GeneratedContract, LeftOut
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.urdf import JointLimits, Urdf, suggest_limit, tighten

JOINT_STATES = "joint_states"  # the topic of drivers and broadcasters
FORMATS = {
    "rgb": ("jpeg", "jpg"),
    "depth": ("png",),
}  # of compressed images that a contract takes as they are
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
    """A topic that a controller takes. names, kind: of its own parameters; empty when it has none.

    inactive: its controller and that one's state, where it takes no commands now.
    """

    topic: str
    type: str
    names: tuple[str, ...] = ()
    kind: str = ""
    inactive: str = ""


@dataclass(frozen=True)
class OtherTopic:
    """A topic of any other type, or an action. is_taken: a node listens that is no observer, or serves it.

    numbers: paths of its numbers. remedy: why they are not known, and what installs the type.
    """

    topic: str
    type: str
    is_published: bool = False
    is_taken: bool = False
    numbers: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class RobotView:
    """What a running robot shows. Topics are relative to its namespace."""

    joints: Sequence[JointTopic] = ()
    images: Sequence[ImageTopic] = ()
    commands: Sequence[CommandTopic] = ()
    urdf: Urdf | None = None
    remarks: Sequence[str] = ()  # on what could not be read
    others: Sequence[OtherTopic] = ()
    joint_limits: Mapping[str, JointLimits] = field(default_factory=dict)  # by a name of who says them


def suggest(view: RobotView, kind: str = "") -> GeneratedContract:
    """Return a contract for a robot. kind: of the actions, as a person says it; empty: as controllers say."""
    notes = [*ORDER_NOTES, *view.remarks]
    left_out: list[LeftOut] = []
    view = replace(view, commands=_choose_commands(view.commands, notes, left_out))
    for source, limits in view.joint_limits.items():
        if view.urdf is None:
            notes.append(f"{source}: joint_limits left out, no URDF says whether a joint turns or slides")
        else:
            view = replace(view, urdf=tighten(view.urdf, limits, source, notes))
    state = _suggest_state(view, notes)
    kinds = {command.kind for command in view.commands if command.kind}
    if not kind and len(kinds) == 1 and all(command.kind for command in view.commands):
        kind = kinds.pop()
    rates = [f"{topic.topic} comes at {topic.rate_hz:.1f} Hz" for topic in view.joints]
    content: dict[str, Any] = {
        "robot_type": view.urdf.robot if view.urdf and view.urdf.robot else generated.UNKNOWN_ROBOT_TYPE,
        "fps": mark("; ".join([generated.UNKNOWN_FPS, *rates])),
        "state": state,
    }
    if images := _suggest_images(view.images, notes):
        content["images"] = images
    content["actions"] = _suggest_actions(view, state, kind, notes)
    content["commands"] = _suggest_commands(view.commands)
    left_out += _leave_out_others(view.others, notes)
    return GeneratedContract(content, tuple(notes), tuple(left_out))


# -- state ---------------------------------------------------------------------------------------------------


def _suggest_state(view: RobotView, notes: list[str]) -> Any:
    """Return the sources of the state: each free joint once, from the topic that has most of them.

    Topics that are not called joint_states come last: commands are JointState messages, too.
    """
    sources, taken = [], set[str]()
    known = view.urdf.joints if view.urdf else {}
    for topic in sorted(
        view.joints, key=lambda one: (not one.topic.endswith(JOINT_STATES), -len(one.names), one.topic)
    ):
        dropped = [name for name in topic.names if name in known and not known[name].is_free]
        if dropped:
            notes.append(f"{topic.topic}: left out, because another joint moves them: {', '.join(dropped)}")
        names = [name for name in topic.names if name not in taken and name not in dropped]
        if not names:
            notes.append(f"{topic.topic}: left out, it has no joint of its own")
            continue
        taken |= set(names)
        sources.append({"topic": topic.topic, "type": JOINT_STATE, "field": "position", "names": names})
    return sources or mark(f"a list of topics of type {JOINT_STATE} with their joints; none was received")


# -- images --------------------------------------------------------------------------------------------------


def _suggest_images(topics: Sequence[ImageTopic], notes: list[str]) -> dict[str, Any]:
    """Return the cameras: of a camera's topics the one that comes compressed, because its JPEG is kept."""
    images: dict[str, Any] = {}
    taken: dict[str, str] = {}  # the topic of each camera, by its name without the transport
    unreadable = {topic.topic: why for topic in topics if (why := _why_unreadable(topic))}
    notes += [f"{topic}: left out, {why}; take the raw topic" for topic, why in unreadable.items()]
    topics = [topic for topic in topics if topic.topic not in unreadable]
    for topic in sorted(topics, key=lambda topic: (topic.type != image_source.COMPRESSED_IMAGE, topic.topic)):
        name = _camera_name(topic.topic)
        if other := taken.get(bare := topic.topic.removesuffix("/compressed")):
            notes.append(f"{topic.topic}: left out, the same camera as {other}")
            continue
        taken[bare] = topic.topic
        if name in images:
            name = topic.topic.strip("/").replace("/", "_")
        unknown = mark(f"rgb or depth; no message was received on {topic.topic}")
        colour = _colour(topic.encoding) if topic.encoding else unknown
        images[name] = {"topic": topic.topic, "type": topic.type, "colour": colour}
        size = f"{topic.width} x {topic.height}, " if topic.width else ""
        notes.append(f"{topic.topic}: {size}{topic.encoding or 'no message was received'}")
    return dict(sorted(images.items()))


def _why_unreadable(topic: ImageTopic) -> str:
    """Return why a robot cannot send a camera's images as they come; empty where it can."""
    if topic.topic.endswith("/compressedDepth"):
        return "this transport is not read"
    if topic.type != image_source.COMPRESSED_IMAGE or not topic.encoding:
        return ""
    colour = _colour(topic.encoding)
    if image_source.first_word(topic.encoding) not in FORMATS[colour]:
        return f"found {topic.encoding!r}, expected {FORMATS[colour][0]}"
    return image_source.find_wrong_origin(topic.encoding, colour)


def _camera_name(topic: str) -> str:
    """Return the part of a topic's name that says which camera it is: `wrist` of `wrist/image_raw`."""
    parts = topic.strip("/").split("/")
    while len(parts) > 1 and parts[-1] in NAME_ENDINGS:
        parts.pop()
    return "_".join(parts)


def _colour(encoding: str) -> image_source.Colour:
    return "depth" if encoding.partition(";")[0].strip() in image_source.DEPTH_ENCODINGS else "rgb"


# -- actions and commands ------------------------------------------------------------------------------------


def _suggest_actions(view: RobotView, state: Any, kind: str, notes: list[str]) -> dict[str, Any]:
    measured = [name for source in state if isinstance(source, dict) for name in source["names"]]
    known = [name for command in view.commands for name in command.names]
    is_complete = bool(view.commands) and all(command.names for command in view.commands)
    names = tuple(dict.fromkeys(known if is_complete else known + measured))
    among = f"; joints that were received: {', '.join(measured)}" if measured else ""
    limits: Any = {name: suggest_limit(view.urdf, name, kind) for name in names}
    if any("max_jerk" in limit for limit in limits.values()):
        notes.append("max_jerk needs ruckig, of the extra smooth; delete it to do without")
    return {
        "kind": kind or generated.UNKNOWN_KIND,
        "names": list(names) if is_complete else mark(f"a list of the actions, in the policy's order{among}"),
        "limits": generated.leave_grippers_unwatched(limits, kind) or generated.UNKNOWN_LIMITS,
    }


def _choose_commands(
    commands: Sequence[CommandTopic], notes: list[str], left_out: list[LeftOut]
) -> list[CommandTopic]:
    """Return the commands of active controllers, and of others those for joints that no active one takes."""
    active = [command for command in commands if not command.inactive]
    taken = {name for command in active for name in command.names}
    is_known = all(command.names for command in active)  # which joints they take
    chosen = list(active)
    for command in commands:
        if not command.inactive:
            continue
        if active and (not is_known or not command.names or taken & set(command.names)):
            entry = {"topic": command.topic, "type": command.type, "names": list(command.names)}
            left_out.append(LeftOut("commands", [entry], f"controller {command.inactive}: {DRIVERS_PAGE}"))
        else:
            remedy = "activate it before it is commanded"
            notes.append(f"{command.topic}: controller {command.inactive}, {remedy}")
            chosen.append(command)
    return sorted(chosen, key=lambda command: command.topic)


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
        names = mark("a list of actions")
        sinks.append({"topic": topic, "type": generated.UNKNOWN_COMMAND_TYPE, "names": names})
    return sinks


# -- other topics: a person may want them, and a page tells how ----------------------------------------------

COMMANDS_PAGE = "docs/how-to/mobile_base.md"
CONTRACT_PAGE = "docs/reference/contract.md"
DRIVERS_PAGE = "docs/reference/drivers.md"
GRIPPER_PAGE = "docs/how-to/gripper_action.md"
STATE_PAGE = "docs/how-to/state_from_any_message.md"
ACTION = "/action/"  # in the types of actions
STOP_WHEN = mark("true or false: what stops the robot")
MOST_FIELDS = 16  # of an entry
# Of the runtime, not of the robot.
_PLUMBING = re.compile(
    r"(action_msgs|bond|controller_manager_msgs|diagnostic_msgs|lifecycle_msgs|pal_statistics_msgs|rcl_interfaces"
    r"|remote_inference|rosgraph_msgs|tf2_msgs|visualization_msgs|\w+_image_transport)/.*"
    r"|sensor_msgs/msg/CameraInfo|control_msgs/msg/\w*ControllerState"
)
_NO_SENSOR = re.compile(r"(^|\.)(header|stamp|layout)\.|covariance")  # of the paths of numbers


def _numbers(topic: OtherTopic) -> list[str]:
    return [path for path in topic.numbers if not _NO_SENSOR.search(path)]


def _is_command(topic: OtherTopic) -> bool:
    """Whether a topic seems to be for commands: others may publish some, and others listen to sensors."""
    return topic.is_taken and (not topic.is_published or "cmd" in topic.topic or "command" in topic.topic)


def _slug(topic: OtherTopic) -> str:
    return topic.topic.strip("/").replace("/", "_")


def _name_numbers(topic: OtherTopic) -> dict[str, str]:
    """Return a name of its own for each number: that of a single number is named as the topic."""
    paths = _numbers(topic)[:MOST_FIELDS]
    return {path: _slug(topic) if path == "data" else f"{_slug(topic)}.{path}" for path in paths}


@dataclass(frozen=True)
class _Place:
    """A section that a topic may go to, what is said of it, and its entry.

    fields: the entry's key of that name. wrap: the entry as it stands in the section, with names of its own.
    """

    section: str
    why: str
    fits: Callable[[OtherTopic], bool]
    fields: Callable[[OtherTopic], Any] | None = None
    wrap: Callable[[OtherTopic, dict[str, Any]], Any] = lambda _, entry: [entry]


_PLACES = (  # the first that fits
    _Place(
        "instruction",
        f"a text, which may be the task: {CONTRACT_PAGE}",
        lambda topic: topic.is_published and topic.type == "std_msgs/msg/String",
        wrap=lambda _, entry: entry,
    ),
    _Place(
        "stops",
        f"true or false, which may be a stop: {CONTRACT_PAGE}",
        lambda topic: topic.is_published and topic.type == "std_msgs/msg/Bool",
        wrap=lambda topic, entry: {_slug(topic): entry | {"stop_when": STOP_WHEN}},
    ),
    _Place(
        "commands",
        f"a node serves it; its action needs limits: {GRIPPER_PAGE}",
        lambda topic: ACTION in topic.type,
        lambda topic: {path: _slug(topic) for path in _numbers(topic) if "position" in path},
    ),
    _Place(
        "commands",
        f"a node listens; an action for each field, with its kind and limits: {COMMANDS_PAGE}",
        _is_command,
        _name_numbers,
    ),
    _Place(
        "state",
        f"a sensor's numbers, of which the policy may see some: {STATE_PAGE}",
        lambda topic: topic.is_published,
        lambda topic: list(_name_numbers(topic)),
        lambda topic, entry: [entry | ({"names": [*_name_numbers(topic).values()]} if topic.numbers else {})],
    ),
)


def _leave_out_others(topics: Iterable[OtherTopic], notes: list[str]) -> list[LeftOut]:
    """Return the entries of topics that a contract may have; those without a number are noted."""
    left_out = []
    for topic in topics:
        place = next((place for place in _PLACES if place.fits(topic)), None)
        if place is None or _PLUMBING.fullmatch(topic.type):  # None: only observers listen
            continue
        key = "action" if ACTION in topic.type else "topic"
        entry: dict[str, Any] = {key: topic.topic, "type": topic.type}
        why = f"{place.why}; {topic.remedy}" if topic.remedy else place.why
        if place.fields is not None and not topic.remedy:
            if not (fields := place.fields(topic)):
                notes.append(f"{topic.topic}: left out, {topic.type} has no number")
                continue
            entry["fields"] = fields
            if len(_numbers(topic)) > MOST_FIELDS:
                why = f"{why}; the first {MOST_FIELDS} of its {len(_numbers(topic))} numbers"
        left_out.append(LeftOut(place.section, place.wrap(topic, entry), why))
    return left_out
