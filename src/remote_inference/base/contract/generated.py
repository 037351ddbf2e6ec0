# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A contract that is not finished, and the YAML text of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from remote_inference.base.contract.action_bounds import is_gripper
from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import find_marks, mark
from remote_inference.base.documents.yaml_text import PlainDumper, dump_yaml

FLOW_WIDTH = 90  # characters of a list or section that stands on one line
UNKNOWN_COMMAND_TYPE = mark("the message type that the controller takes")
UNKNOWN_FPS = "the policy's training rate [Hz]"
UNKNOWN_LIMITS = mark("for each action, by name, min, max and max_velocity")
UNKNOWN_KIND = mark("position, velocity or effort: what the controllers take")
UNKNOWN_ROBOT_TYPE = mark("a name for this kind of robot")
UNKNOWN_STATE_TOPIC = mark(f"the topic of type {JOINT_STATE} that has these joints")


@dataclass(frozen=True)
class LeftOut:
    """An entry of a section that a person may want. why: it is left out, and the page that tells how."""

    section: str
    entry: Any
    why: str


@dataclass(frozen=True)
class GeneratedContract:
    """The keys of a contract, marks among the values, and what its reader should know, a line each.

    left_out: what stands in the file as a comment.
    """

    content: dict[str, Any]
    notes: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def marks(self) -> list[str]:
        """A line for each marked value: its place, and what is expected there."""
        return find_marks(self.content)

    def to_yaml(self) -> str:
        """Return the text of the file."""
        head = ["Generated: fill in each value that begins with FILL_IN, or the contract does not load."]
        return _comment([*head, *self.notes]) + _dump(self.content) + _comment(self._lines_left_out())

    def _lines_left_out(self) -> list[str]:
        """Return YAML of what is left out, each section once: entries may be moved to the contract's own."""
        head = ["", "Seen and left out. Move what is needed to the section of this name."]
        lines = head if self.left_out else []
        for section in dict.fromkeys(one.section for one in self.left_out):
            lines += ["", f"{section}:"]
            for one in self.left_out:
                if one.section == section:
                    lines += [f"  {line}" for line in (f"# {one.why}", *_dump(one.entry).splitlines())]
        return lines


class _Dumper(PlainDumper):
    """Writes a short list or section of plain values on one line, and each mark on a line of its own."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: Any = None) -> yaml.SequenceNode:  # noqa: ARG002
        return super().represent_sequence(tag, sequence, flow_style=_is_short(sequence))

    def represent_mapping(self, tag: str, mapping: Any, flow_style: Any = None) -> yaml.MappingNode:  # noqa: ARG002
        return super().represent_mapping(tag, mapping, flow_style=_is_short(mapping))

    def ignore_aliases(self, _: Any) -> bool:
        return True


def _is_short(section: Any) -> bool:
    values = section.values() if isinstance(section, dict) else section
    is_flat = not any(isinstance(value, (dict, list)) for value in values)
    return is_flat and not find_marks(section) and len(str(section)) <= FLOW_WIDTH


def unit_of(kind: str) -> str:
    """Return the unit of a command of a kind, and the word for it where the kind is not known."""
    return ACTION_KINDS[kind].unit if kind in ACTION_KINDS else "unit"


def unknown_limit(kind: str, why: str, unit: str = "") -> dict[str, Any]:
    """Return the limit of an action of which nothing is known. why: said with each value."""
    unit = unit or unit_of(kind)
    return {
        "min": mark(f"lowest command [{unit}]; {why}"),
        "max": mark(f"highest command [{unit}]; {why}"),
        "max_velocity": mark(f"bound on the change of the command [{unit}/s]; {why}"),
    }


def leave_grippers_unwatched(limits: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return limits by action in which a gripper may stay behind its position commands: objects stop it."""
    if kind != "position":
        return limits
    off = {"max_following_error": "off"}
    return {name: limit | off if is_gripper(name) else limit for name, limit in limits.items()}


def unknown_commands(names: Any) -> list[dict[str, Any]]:
    """Return the command section of a robot of which only the actions' names are known, or marked."""
    topic = mark("the topic from which the controller takes commands")
    return [{"topic": topic, "type": UNKNOWN_COMMAND_TYPE, "names": names}]


def add_camera(content: dict[str, Any], key: str, colour: str) -> None:
    """Add a camera of which only the policy's name for it is known."""
    images, rename = content.setdefault("images", {}), content.setdefault("rename", {})
    name = key.removeprefix("observation.").removeprefix("images.").replace("/", "_")
    while name in images:
        name += "_"
    images[name] = {
        "topic": mark(f"the topic of the camera {name}"),
        "type": mark(f"{IMAGE} or {COMPRESSED_IMAGE}"),
        "colour": colour,
    }
    rename[f"images.{name}"] = key


def _dump(content: Any) -> str:
    return dump_yaml(content, _Dumper, width=math.inf, allow_unicode=True)


def _comment(lines: Iterable[str]) -> str:
    return "".join(f"# {_printable(line)}".rstrip() + "\n" for line in lines)


def _printable(text: str) -> str:
    """Return a text that cannot end the comment in which it stands."""
    return "".join(character if character.isprintable() else "?" for character in text)
