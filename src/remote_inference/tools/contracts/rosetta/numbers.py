# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a contract of rosetta: their names here and in the data set, their units, what gets lost.

Those of the actions have kinds and limits, too, and are the controllers' commands.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote_inference.base.contract import generated
from remote_inference.base.contract.action_kinds import GOING_ON
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.rosetta import document
from remote_inference.tools.contracts.rosetta.document import Entry, Rosetta, Source

NOTE_WIDTH = 108  # characters of a line
PER_RADIAN = math.degrees(1.0)


@dataclass
class Losses:
    """What has no place in a contract: the places of rosetta's that share a reason."""

    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, place: str, reason: str) -> None:
        self.places.setdefault(reason, []).append(place)

    def note(self, entry: Entry) -> None:
        """Note what is lost of every source: its kind, its decoder, an alignment other than hold."""
        source = entry.source
        if source.kind != "continuous":
            self.add(f"{entry.place}.kind", f"{source.kind} is left out, a contract has plain numbers")
        if source.channel.decoder:
            reason = "left out; an entry point of remote_inference.message_readers reads a message by code"
            self.add(f"{entry.place}.channel.decoder", reason)
        if source.align is not None and source.align.strategy != "hold":
            reason = "left out; the newest message counts, and the parameter max_sensor_age_s bounds its age"
            self.add(f"{entry.place}.align", reason)

    @property
    def lines(self) -> list[str]:
        """A paragraph for each reason, with its places."""
        texts = (f"{', '.join(places)}: {reason}" for reason, places in self.places.items())
        wrapper = textwrap.TextWrapper(
            NOTE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        return [line for text in texts for line in wrapper.wrap(text)]


@dataclass
class Names:
    """The names of the state or of the actions, in their order, and what the data set calls each number."""

    rosetta: Rosetta
    in_data_set: dict[str, str] = field(default_factory=dict)  # by name; empty: the data set does not name it
    places: dict[str, str] = field(default_factory=dict)

    def claim(self, name: str, in_data_set: str, place: str) -> str:
        """Add a name. Raises DocumentError for one that is there already: a contract has each name once."""
        if name in self.places:
            found, remedy = self.places[name], "delete a source, or give the joints of one driver a prefix"
            problem = f"found {name!r} as in {found}, expected each name once: {remedy}"
            raise self.rosetta.fail(f"{place}.select", problem)
        self.in_data_set[name] = in_data_set
        self.places[name] = place
        return name

    def choose(self, in_data_set: str, entry: Entry) -> str:
        """Add a name for a number that has none in its message: the data set's, or one with the topic's."""
        topic = entry.source.channel.topic.strip("/").replace("/", "_")
        names = (in_data_set or topic, f"{topic}.{in_data_set}")
        free = next((name for name in names if name not in self.places), names[0])
        return self.claim(free, in_data_set, entry.place)


def name_numbers(entries: Sequence[Entry]) -> list[list[str]]:
    """Return the data set's name of each number of each source, and "" for one that has no `select`.

    Where two features have a name in common, the second one's begins with its key.
    """
    topics: dict[str, list[str]] = {}
    for entry in entries:
        topics.setdefault(entry.key, []).append(entry.source.channel.topic)
    taken: set[str] = set()
    found = []
    for entry in entries:
        prefix = document.prefixes_by_topic(dict.fromkeys(topics[entry.key]))[entry.source.channel.topic]
        names = [f"{prefix}.{text}" if prefix else text for text in entry.source.select or ()]
        key = entry.key.removeprefix("observation.")
        names = [f"{key}.{name}" if name in taken else name for name in names]
        taken |= set(names)
        found.append(names or [""])
    return found


def rename(state: Names, actions: Names, losses: Losses) -> dict[str, str]:
    """Return what the contract has to rename, so that the policy sees the data set's names.

    The contract renames a joint in the state and in the actions; where the data set has two names for it, it
    keeps its own.
    """
    found: dict[str, str] = {}
    for name in {**state.in_data_set, **actions.in_data_set}:
        wanted = {names.in_data_set[name] for names in (state, actions) if name in names.in_data_set} - {""}
        if len(wanted) > 1:
            conflict = "the data set has one name for the state and another for the actions"
            remedy = "a manifest may give the policy this name for both, by state_names and action_names"
            losses.add(name, f"{conflict}; {remedy}")
        elif wanted and wanted != {name}:
            found[f"joints.{name}"] = wanted.pop()
    return found


def scale(source: Source, names: Sequence[str], is_angular: bool = True) -> dict[str, Any]:
    """Return the key `scale` of numbers, or nothing. is_angular: whether they may count in degrees."""
    names_of_operators = [name for name, _ in source.operators]
    known = (document.RAD2DEG, document.CLAMP, document.RESIZE)
    if custom := [name for name in names_of_operators if name not in known]:
        which = ", ".join(custom)
        unit = mark(f"the policy's unit, which rosetta's operator {which} makes; or delete this scale")
        factor = mark(f"how many of it are one of the message's unit; add an offset if {which} shifts")
        return {"scale": [{"unit": unit, "names": list(names), "factor": factor}]}
    if document.RAD2DEG not in names_of_operators:
        return {}
    degrees = {"unit": "degrees", "names": list(names)}
    return {"scale": [degrees if is_angular else degrees | {"unit": "rad2deg", "factor": PER_RADIAN}]}


def clamp(rosetta: Rosetta, entry: Entry) -> tuple[float, float] | None:
    """Return the range of the commands in the message's unit, or None. Raises DocumentError for none."""
    low, high, factor = -math.inf, math.inf, 1.0
    for name, arguments in entry.source.operators:
        if name == document.CLAMP:
            low, high = max(low, arguments["min"] / factor), min(high, arguments["max"] / factor)
        elif name == document.RAD2DEG:
            factor = PER_RADIAN
        else:
            return None  # nobody knows in which unit what follows is
    if low >= high:
        problem = f"found clamps to {low:g} and {high:g}, expected min < max"
        raise rosetta.fail(f"{entry.place}.apply", problem)
    return (low, high) if math.isfinite(low) else None


# -- The actions: their names, kinds and limits, and the controllers' commands ---------------------------

ACTION = "action"  # the feature that LeRobot's policies answer with
LINEAR = "linear"  # part of the path of a velocity in m/s


@dataclass(frozen=True)
class Action:
    """One number of the action vector. kind: empty where rosetta does not say it."""

    name: str
    kind: str
    entry: Entry
    is_linear: bool = False


Command = tuple[dict[str, Any], list[Action]]  # the message's part of a controller's section, the actions


def _joints(entry: Entry, in_data_set: Sequence[str], names: Names) -> Command:
    is_trajectory = entry.source.channel.type == document.TRAJECTORY
    fields = document.POINT_FIELDS if is_trajectory else document.JOINT_FIELDS
    actions: list[Action] = []
    for index, text in enumerate(entry.source.select or ()):
        where = f"{entry.place}.select.{index}"
        if text.startswith("acceleration"):
            raise names.rosetta.fail(where, f"found {text!r}, expected position.NAME")
        kind, joint = document.split_joint(text, fields)
        if is_trajectory and kind != "position":
            words = "expected position.NAME: a trajectory is one of positions"
            raise names.rosetta.fail(where, f"found {text!r}, {words}")
        if actions and kind != actions[0].kind:
            words = f"expected {actions[0].kind}.NAME as before: a controller takes actions of one kind"
            raise names.rosetta.fail(where, f"found {text!r}, {words}")
        actions.append(Action(names.claim(joint, in_data_set[index], entry.place), kind, entry))
    return {"names": [action.name for action in actions]}, actions


def _array(entry: Entry, in_data_set: Sequence[str], names: Names) -> Command:
    """Read the names of `select` as joints where they have that form: an array itself has none."""
    actions = []
    for text, called in zip(entry.source.select or [""], in_data_set, strict=True):
        field, _, joint = text.partition(".")
        is_joint = field in document.JOINT_FIELDS and joint
        if is_joint and joint not in names.places:
            name = names.claim(joint, called, entry.place)
        else:
            name = names.choose(called, entry)
        actions.append(Action(name, field if is_joint else "", entry))
    kinds = {action.kind for action in actions}
    if len(kinds) > 1:
        found = " and ".join(sorted(kind or "other words" for kind in kinds))
        problem = f"found {found}, expected one of them: a controller takes actions of one kind"
        raise names.rosetta.fail(f"{entry.place}.select", problem)
    return {"names": [action.name for action in actions]}, actions


def _fields(entry: Entry, in_data_set: Sequence[str], names: Names) -> Command:
    select = entry.source.select or [""]
    kind = "velocity" if entry.source.channel.type in document.TWISTS else ""
    fields: dict[str, str] = {}
    actions = []
    paths = document.parse_select(entry.source.channel.type, select)
    for path, text, called in zip(paths, select, in_data_set, strict=True):
        name = names.choose(called, entry)
        fields[path] = name
        actions.append(Action(name, kind, entry, bool(kind) and LINEAR in text.split(".")))
    return {"fields": fields}, actions


def _marked(entry: Entry, in_data_set: Sequence[str], names: Names) -> Command:
    """Return a command whose fields a person has to find: code makes the message, or it has no floats."""
    own = [names.choose(called, entry) for called in in_data_set]
    channel = entry.source.channel
    who = channel.encoder or f"rosetta's encoder of {channel.type}"
    wanted = f"a mapping with a field of {channel.type} for each of {', '.join(own)}, as {who} fills them"
    return {"fields": mark(wanted)}, [Action(name, "", entry) for name in own]


_BY_TYPE: dict[str, Callable[[Entry, Sequence[str], Names], Command]] = {
    JOINT_STATE: _joints,
    document.TRAJECTORY: _joints,
    document.FLOAT_ARRAYS[1]: _array,
    **dict.fromkeys((*document.TWISTS, *document.FLOATS, document.FLOAT_ARRAYS[0]), _fields),
}


def suggest_actions(
    rosetta: Rosetta, names: Names, losses: Losses
) -> tuple[list[Action], dict[str, Any], list[Any]]:
    """Return the actions, and the sections `actions` and `commands`. Raises DocumentError."""
    actions: list[Action] = []
    sinks: list[dict[str, Any]] = []
    scales: list[dict[str, Any]] = []
    for entry, in_data_set in zip(rosetta.actions, name_numbers(rosetta.actions), strict=True):
        channel = entry.source.channel
        losses.note(entry)
        if entry.key != ACTION:
            reason = f"joins the one action vector; LeRobot's policies answer with {ACTION} alone"
            losses.add(entry.place, reason)
        if channel.encoder:
            writers = "remote_inference.command_interfaces"
            reason = f"left out; an entry point of {writers} writes a message by code"
            losses.add(f"{entry.place}.channel.encoder", reason)
        translate = _marked if channel.encoder else _BY_TYPE.get(channel.type, _marked)
        content, own = translate(entry, in_data_set, names)
        sinks.append({"topic": channel.topic, "type": channel.type, **content})
        actions += own
        for is_angular in (True, False):
            group = [one.name for one in own if (one.kind != "effort" and not one.is_linear) == is_angular]
            scales += scale(entry.source, group, is_angular).get("scale", []) if group else []
    kinds = dict.fromkeys(action.kind for action in actions if action.kind)
    kind = "position" if "position" in kinds else next(iter(kinds), "")  # of the section; others say theirs
    section = {
        "kind": kind or generated.UNKNOWN_KIND,
        "names": [action.name for action in actions],
        "limits": {action.name: _limit(rosetta, action, kind) for action in actions},
    }
    return actions, section | ({"scale": scales} if scales else {}), sinks


def _limit(rosetta: Rosetta, action: Action, main_kind: str) -> dict[str, Any]:
    unit = "m/s" if action.is_linear else ""
    limit = generated.unknown_limit(action.kind, "rosetta has none", unit)
    shown = unit or generated.unit_of(action.kind)
    if action.kind == "velocity":  # whose size is bounded, not its change
        limit["max_velocity"] = mark(f"highest velocity, both ways [{shown}]; rosetta has none")
    if (ends := clamp(rosetta, action.entry)) is not None:
        limit |= {"min": ends[0], "max": ends[1]}
        if action.kind == "velocity":
            limit["max_velocity"] = max(map(abs, ends))
        if action.kind in GOING_ON and not ends[0] <= 0.0 <= ends[1]:
            why = f"[{shown}], of a range with 0; rosetta's clamp says {ends[0]:g} to {ends[1]:g}"
            limit |= {"min": mark(f"lowest command {why}"), "max": mark(f"highest command {why}")}
    limit |= generated.leave_grippers_unwatched({action.name: limit}, action.kind)[action.name]
    if unit:
        limit["unit"] = unit
    if main_kind and action.kind != main_kind:
        limit["kind"] = action.kind or generated.UNKNOWN_KIND
    return limit
