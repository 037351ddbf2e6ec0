# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The actions of a contract of rosetta: their names, kinds and limits, and the controllers' commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.base.contract.action_kinds import GOING_ON
from remote_inference.base.contract.generated import (
    UNKNOWN_KIND,
    leave_grippers_unwatched,
    unit_of,
    unknown_limit,
)
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.rosetta.document import (
    FLOAT_ARRAYS,
    FLOATS,
    JOINT_FIELDS,
    POINT_FIELDS,
    TRAJECTORY,
    TWISTS,
    CommandSource,
    Entry,
    Rosetta,
    parse_of,
    split_joint,
)
from remote_inference.tools.contracts.rosetta.numbers import (
    Losses,
    Names,
    clamp,
    name_numbers,
    scale,
)

ACTION = "action"  # the feature that LeRobot's policies answer with
LINEAR = "linear"  # part of the path of a velocity in m/s
Actions = Entry[CommandSource]


@dataclass(frozen=True)
class Action:
    """One number of the action vector. kind: empty where rosetta does not say it."""

    name: str
    kind: str
    entry: Actions
    is_linear: bool = False


@dataclass(frozen=True)
class Command:
    """What a controller takes: the message's part of its section, and the actions."""

    content: dict[str, Any]
    actions: list[Action]


class Commands:
    """Translates the sources of the actions, one for each controller."""

    def __init__(self, rosetta: Rosetta, names: Names) -> None:
        self.rosetta = rosetta
        self.names = names

    def translate(self, entry: Actions, in_data_set: Sequence[str]) -> Command:
        """Return the command of a source, whose names go into `names`. Raises DocumentError."""
        channel = entry.source.channel
        by_type: dict[str, Callable[[Actions, Sequence[str]], Command]] = {
            JOINT_STATE: self._joints,
            TRAJECTORY: self._joints,
            FLOAT_ARRAYS[1]: self._array,
            **dict.fromkeys((*TWISTS, *FLOATS, FLOAT_ARRAYS[0]), self._fields),
        }
        translate = self._marked if channel.encoder else by_type.get(channel.type, self._marked)
        return translate(entry, in_data_set)

    def _joints(self, entry: Actions, in_data_set: Sequence[str]) -> Command:
        is_trajectory = entry.source.channel.type == TRAJECTORY
        kinds: list[str] = []
        actions = []
        for index, text in enumerate(entry.source.select or ()):
            where = f"{entry.place}.select.{index}"
            if text.startswith("acceleration"):
                raise self.rosetta.fail(where, f"found {text!r}, expected position.NAME")
            kind, joint = split_joint(text, POINT_FIELDS if is_trajectory else JOINT_FIELDS)
            kinds.append(kind)
            if is_trajectory and kind != "position":
                words = "expected position.NAME: a trajectory is one of positions"
                raise self.rosetta.fail(where, f"found {text!r}, {words}")
            if kind != kinds[0]:
                words = f"expected {kinds[0]}.NAME as before: a controller takes actions of one kind"
                raise self.rosetta.fail(where, f"found {text!r}, {words}")
            actions.append(Action(self.names.claim(joint, in_data_set[index], entry.place), kind, entry))
        return Command({"names": [action.name for action in actions]}, actions)

    def _array(self, entry: Actions, in_data_set: Sequence[str]) -> Command:
        """Read the names of `select` as joints where they have that form: an array itself has none."""
        actions = []
        for text, called in zip(entry.source.select or [""], in_data_set, strict=True):
            field, _, joint = text.partition(".")
            is_joint = field in JOINT_FIELDS and joint
            if is_joint and joint not in self.names.places:
                name = self.names.claim(joint, called, entry.place)
            else:
                name = self.names.choose(called, entry)
            actions.append(Action(name, field if is_joint else "", entry))
        kinds = {action.kind for action in actions}
        if len(kinds) > 1:
            raise self.rosetta.fail(
                f"{entry.place}.select",
                f"found {' and '.join(sorted(kind or 'other words' for kind in kinds))}, expected one of "
                "them: a controller takes actions of one kind",
            )
        return Command({"names": [action.name for action in actions]}, actions)

    def _fields(self, entry: Actions, in_data_set: Sequence[str]) -> Command:
        parse = parse_of(entry.source.channel.type)
        kind = "velocity" if entry.source.channel.type in TWISTS else ""
        fields: dict[str, str] = {}
        actions = []
        for index, (text, called) in enumerate(zip(entry.source.select or [""], in_data_set, strict=True)):
            name = self.names.choose(called, entry)
            fields[parse(index, text)] = name
            actions.append(Action(name, kind, entry, bool(kind) and LINEAR in text.split(".")))
        return Command({"fields": fields}, actions)

    def _marked(self, entry: Actions, in_data_set: Sequence[str]) -> Command:
        """Return a command whose fields a person has to find: code makes the message, or it has no floats."""
        names = [self.names.choose(called, entry) for called in in_data_set]
        channel = entry.source.channel
        who = channel.encoder or f"rosetta's encoder of {channel.type}"
        wanted = mark(
            f"a mapping with a field of {channel.type} for each of {', '.join(names)}, as {who} fills them"
        )
        return Command({"fields": wanted}, [Action(name, "", entry) for name in names])


def suggest_actions(
    rosetta: Rosetta, names: Names, losses: Losses
) -> tuple[list[Action], dict[str, Any], list[Any]]:
    """Return the actions, and the sections `actions` and `commands`. Raises DocumentError."""
    commands = Commands(rosetta, names)
    actions: list[Action] = []
    sinks: list[dict[str, Any]] = []
    scales: list[dict[str, Any]] = []
    for entry, in_data_set in zip(rosetta.actions, name_numbers(rosetta.actions), strict=True):
        _note(entry, losses)
        command = commands.translate(entry, in_data_set)
        channel = entry.source.channel
        sinks.append({"topic": channel.topic, "type": channel.type, **command.content})
        actions += command.actions
        for is_angular in (True, False):
            group = [action.name for action in command.actions if _is_angular(action) == is_angular]
            scales += scale(entry.source, group, is_angular).get("scale", []) if group else []
    kind = _main_kind(actions)
    section = {
        "kind": kind or UNKNOWN_KIND,
        "names": [action.name for action in actions],
        "limits": {action.name: _limit(rosetta, action, kind) for action in actions},
    }
    return actions, section | ({"scale": scales} if scales else {}), sinks


def _note(entry: Actions, losses: Losses) -> None:
    losses.note(entry)
    if entry.key != ACTION:
        losses.add(entry.place, f"joins the one action vector; LeRobot's policies answer with {ACTION} alone")
    if entry.source.channel.encoder:
        losses.add(
            f"{entry.place}.channel.encoder",
            "left out; an entry point of remote_inference.command_interfaces writes a message by code",
        )


def _is_angular(action: Action) -> bool:
    return action.kind != "effort" and not action.is_linear


def _main_kind(actions: Sequence[Action]) -> str:
    """Return the kind of the section: positions', where there are any; empty if no kind is known."""
    kinds = dict.fromkeys(action.kind for action in actions if action.kind)
    return "position" if "position" in kinds else next(iter(kinds), "")


def _limit(rosetta: Rosetta, action: Action, main_kind: str) -> dict[str, Any]:
    unit = "m/s" if action.is_linear else ""
    limit = unknown_limit(action.kind, "rosetta has none", unit)
    shown = unit or unit_of(action.kind)
    if action.kind == "velocity":  # whose size is bounded, not its change
        limit["max_velocity"] = mark(f"highest velocity, both ways [{shown}]; rosetta has none")
    if (ends := clamp(rosetta, action.entry)) is not None:
        limit |= {"min": ends[0], "max": ends[1]}
        if action.kind == "velocity":
            limit["max_velocity"] = max(map(abs, ends))
        if action.kind in GOING_ON and not ends[0] <= 0.0 <= ends[1]:
            why = f"[{shown}], of a range with 0; rosetta's clamp says {ends[0]:g} to {ends[1]:g}"
            limit |= {"min": mark(f"lowest command {why}"), "max": mark(f"highest command {why}")}
    limit |= leave_grippers_unwatched({action.name: limit}, action.kind)[action.name]
    if unit:
        limit["unit"] = unit
    if main_kind and action.kind != main_kind:
        limit["kind"] = action.kind or UNKNOWN_KIND
    return limit
