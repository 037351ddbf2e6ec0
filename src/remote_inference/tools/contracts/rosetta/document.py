# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract of rosetta 0.2 as a document: the keys that are translated, and what is refused at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from remote_inference.base.contract.action_kinds import MOTIONS
from remote_inference.base.contract.field_path import parse_field_path
from remote_inference.base.contract.fields import MessageType, Name, Names, Positive, Topic, require_unique
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import (
    DocumentError,
    ForeignDocument,
    parse_document,
    parse_yaml,
)
from remote_inference.base.documents.problems import show_value

# -- What rosetta's `select` means for each message type, and how its data sets name the numbers ---------

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

JOINT_FIELDS: dict[str, str] = {field: field for field in MOTIONS}
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
    parse_select(message_type, select)


def parse_select(message_type: str, select: Sequence[str]) -> list[str]:
    """Return the path of the field of each number. Raises ValueError, with the key, for one without."""
    parse, index = _PARSERS.get(message_type, _path), 0
    paths = []
    try:
        for index, text in enumerate(select):
            paths.append(parse(index, text))
    except ValueError as error:
        raise ValueError(f"select.{index}: {error}") from None
    return paths


def has_paths(message_type: str, select: Sequence[str] | None) -> bool:
    """Return whether each number has a fixed place in the message, as far as its type is known."""
    if message_type in BY_NAME or not (select or message_type in WITHOUT_SELECT):
        return False
    try:
        parse_select(message_type, select or ())
    except ValueError:
        return False
    return True


def split_joint(text: str, fields: Mapping[str, str] = JOINT_FIELDS) -> tuple[str, str]:
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


def _point(_: int, text: str) -> str:
    is_acceleration = text.partition(".")[0].startswith("acceleration")
    return text if is_acceleration else ".".join(split_joint(text, POINT_FIELDS))


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
    JOINT_STATE: lambda _index, text: ".".join(split_joint(text)),
    TRAJECTORY: _point,
    JOY: _joy,
    **dict.fromkeys(NESTED, _nested_path),
    **dict.fromkeys(SCALARS, lambda _index, _text: "data"),
    **dict.fromkeys(ARRAYS, lambda index, _text: f"data[{index}]"),
    **dict.fromkeys((*PICTURES, TEXT, BY_NAME[1]), lambda _index, text: text),
}


def prefixes_by_topic(topics: Iterable[str]) -> dict[str, str]:
    """Return the prefix of each topic's numbers in a data set, where one feature has several topics.

    It is the first part of the topics' names in which all differ, or as many parts as it takes. A feature of
    one topic has none.
    """
    parts = {topic: topic.strip("/").split("/") for topic in topics}
    if len(parts) < 2:
        return dict.fromkeys(parts, "")
    depth = max(map(len, parts.values()))
    columns = [slice(place, place + 1) for place in range(depth)]
    begins = [slice(length) for length in range(2, depth + 1)]
    for taken in (*columns, *begins):
        names = {topic: ".".join(words[taken]) for topic, words in parts.items()}
        if len(set(names.values())) == len(parts):
            return names
    return dict.fromkeys(parts, "")


RAD2DEG, CLAMP, RESIZE = "rad2deg", "clamp", "resize"
MOST = 1e9  # of an end of `clamp`, both ways
CAMERAS = "observation.images."  # at the beginning of a feature's key


def _plain(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Word = BeforeValidator(_plain)  # rosetta takes its own words in capitals, too


class Channel(ForeignDocument):
    """Where messages come from, or go to.

    decoder, encoder: "module:function" of code that makes numbers of messages, or messages of numbers.
    """

    topic: Topic
    type: Annotated[MessageType, Field(description="message type of the topic")]
    dtype: str | None = None
    decoder: str | None = None
    encoder: str | None = None


class Align(ForeignDocument):
    """How messages are laid on the ticks."""

    strategy: Annotated[Literal["hold", "asof", "drop"], Word, Field(description="hold, asof or drop")]


class Source(ForeignDocument):
    """Numbers, or pictures, of one channel."""

    channel: Annotated[Channel, Field(description="where it comes from: topic and type")]
    align: Align | None = None
    select: Names | None = None
    apply: tuple[Any, ...] = ()
    kind: Annotated[str, Word] = "continuous"

    @model_validator(mode="after")
    def _consistent(self) -> Source:
        require_unique(self.select or (), "select")
        check_select(self.channel.type, self.select, self.channel.decoder)
        for index, item in enumerate(self.apply):
            if isinstance(item, str) or (isinstance(item, Mapping) and len(item) == 1):
                continue
            expected = "an operator's name, or one name with what it takes"
            raise ValueError(f"apply.{index}: found {show_value(item)}, expected {expected}")
        names = [name for name, _ in self.operators]
        if names.count(RAD2DEG) > 1:
            raise ValueError(f"apply: found {RAD2DEG} {names.count(RAD2DEG)} times, expected it once")
        for index, (name, arguments) in enumerate(self.operators):
            if name == CLAMP:
                _check_clamp(index, arguments)
        return self

    @property
    def operators(self) -> tuple[tuple[str, Any], ...]:
        """Name and arguments of each operator, in the order in which messages pass them."""
        pairs = ((item, None) if isinstance(item, str) else next(iter(item.items())) for item in self.apply)
        return tuple((str(name), arguments) for name, arguments in pairs)


def _check_clamp(index: int, arguments: Any) -> None:
    ends: list[Any] = []
    if isinstance(arguments, Mapping) and len(arguments) == 2:
        ends = [end for end in map(arguments.get, ("min", "max")) if type(end) in (int, float)]
    if len(ends) < 2 or not -MOST <= ends[0] < ends[1] <= MOST:
        found = show_value(arguments)
        raise ValueError(f"apply.{index}.clamp: found {found}, expected min and max, two numbers, min < max")


class TeleopInput(Source):
    """A person's commands. target: the topic of the action that they drive."""

    target: Annotated[Topic, Field(description="the topic of an action")]


class Bare(ForeignDocument):
    """A channel alone."""

    channel: Annotated[Channel, Field(description="where it comes from: topic and type")]


class TeleopEvents(ForeignDocument):
    """Buttons by event."""

    select: Mapping[str, Any] = {}


class Teleop(ForeignDocument):
    """What a person has in hand."""

    input: tuple[TeleopInput, ...] = ()
    events: TeleopEvents = TeleopEvents()
    feedback: tuple[Any, ...] = ()


class Whole(ForeignDocument):
    """The keys of the file. The sections of features hold one source or a list of them under each key."""

    robot_type: Annotated[Name, Field(description="a name for this kind of robot")]
    fps: Annotated[Positive, Field(description="the rate of its data sets [Hz]")]
    observations: Annotated[Mapping[Name, Any], Field(min_length=1, description="a source for each feature")]
    actions: Annotated[Mapping[Name, Any], Field(min_length=1, description="a source for each feature")]
    tasks: Mapping[str, Bare] = {}
    teleop: Teleop = Teleop()
    rewards: Mapping[Name, Any] = {}
    signals: Mapping[Name, Any] = {}
    info: Mapping[Name, Any] = {}
    complementary_data: Mapping[Name, Any] = {}
    adjunct: tuple[Bare, ...] = ()


RECORDED = ("rewards", "signals", "info", "complementary_data")  # sections of what a policy never sees


@dataclass(frozen=True)
class Entry:
    """A source, the key of its feature, and its place in the file."""

    key: str
    place: str
    source: Source

    @property
    def is_camera(self) -> bool:
        return self.key.startswith(CAMERAS) or self.source.channel.type in PICTURES


@dataclass(frozen=True)
class Rosetta:
    """A contract of rosetta. file: named in errors."""

    file: str
    whole: Whole
    observations: tuple[Entry, ...]
    actions: tuple[Entry, ...]

    def fail(self, place: str, problem: str) -> DocumentError:
        return DocumentError(f"{self.file}: {place}: {problem}")


def read_rosetta(text: bytes, file: str) -> Rosetta:
    """Return a contract of rosetta; `file` names it in errors. Raises DocumentError."""
    try:
        words = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DocumentError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    whole = parse_document(parse_yaml(words, file), Whole, file)
    sections = {"observations": whole.observations, "actions": whole.actions}
    rosetta = Rosetta(file, whole, *(_entries(file, *section) for section in sections.items()))
    for entry in (*rosetta.observations, *rosetta.actions):
        if not entry.is_camera and RESIZE in dict(entry.source.operators):
            raise rosetta.fail(f"{entry.place}.apply", f"found {RESIZE}, expected it for cameras alone")
    _check_topics(rosetta)
    return rosetta


def _entries(file: str, section: str, keyed: Mapping[str, Any]) -> tuple[Entry, ...]:
    found = []
    for key, value in keyed.items():
        place = f"{section}.{key}"
        if value == ():
            raise DocumentError(f"{file}: {place}: found an empty list, expected a source, or several")
        items = [(place, value)]
        if isinstance(value, tuple):
            items = [(f"{place}.{index}", item) for index, item in enumerate(value)]
        for where, item in items:
            found.append(Entry(key, where, parse_document(item, Source, f"{file}: {where}")))
    return tuple(found)


def _check_topics(rosetta: Rosetta) -> None:
    """Refuse what a contract cannot hold: a topic of two types, and one of two commands."""
    seen: dict[str, Entry] = {}
    for entry in rosetta.observations:
        channel = entry.source.channel
        other = seen.setdefault(channel.topic, entry)
        if other.source.channel.type != channel.type:
            found, expected = f"{channel.type} for {channel.topic}", other.source.channel.type
            problem = f"found {found}, expected {expected} as in {other.place}"
            raise rosetta.fail(f"{entry.place}.channel.type", problem)
    taken: dict[str, str] = {entry.source.channel.topic: entry.place for entry in rosetta.observations}
    for command in rosetta.actions:
        topic = command.source.channel.topic
        if topic in taken:
            expected = "a topic that nothing else has"
            why = "a contract has one command for each, and reads none of them"
            problem = f"found {topic} as in {taken[topic]}, expected {expected}: {why}"
            raise rosetta.fail(f"{command.place}.channel.topic", problem)
        taken[topic] = command.place
