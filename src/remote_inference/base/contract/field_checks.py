# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks the quantity and axis of a message's fields against the contract, by the names of the fields.

A velocity interface that gets positions runs on when the policy falls silent; a pose with two axes exchanged
leads the arm elsewhere in its first tick. The names of the fields of ROS's common messages reveal both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.field_path import FieldPath, parse_field_path
from remote_inference.base.contract.state_source import StateSource


def check_command_fields(commands: Sequence[CommandSink], actions: Actions) -> None:
    """Refuse an action of another quantity, or of another axis of a pose, than the field that carries it."""
    for place, sink in enumerate(commands):
        where = f"commands.{place}.fields"
        paths = [(parse_field_path(text), name) for text, name in sink.fields.items()]
        for path, name in paths:
            kind = actions.kind_of(name)
            found, expected = path.quantity, ACTION_KINDS[kind].field
            if found and kind != "switch" and found != expected:  # a switch's field has no usual name
                raise ValueError(
                    f"{where}: found {path.text}, of the quantity {found}, for {name}, a {kind} action, "
                    f"expected an action of kind {found}, or a field of the quantity {expected}"
                )
            if kind == "velocity":
                _check_turn(where, path, name, actions)
        _check_axes(where, paths, actions)


def check_pose_sources(sources: Mapping[str, StateSource], actions: Actions) -> None:
    """Refuse a field of another axis of a pose than the action that it measures."""
    for where, source in sources.items():
        if len(source.paths) == len(source.entries):  # else there are slices
            _check_axes(f"{where}.fields", zip(source.paths, source.entries, strict=True), actions)


def _check_axes(where: str, paths: Iterable[tuple[FieldPath, str]], actions: Actions) -> None:
    axes: dict[str, tuple[str, str, str]] = {}
    for title, pose in actions.poses.items():
        for place, names in (("position", pose.position), ("quaternion", pose.quaternion)):
            axes |= {name: (title, place, axis) for name, axis in zip(names, "xyzw", strict=False)}
    for path, name in paths:
        if name not in axes or path.axis is None:
            continue
        title, place, axis = axes[name]
        if path.axis != (place, axis):
            raise ValueError(
                f"{where}: found {path.text} for {name}, the {axis} of the pose {title}'s {place}, expected "
                "the same axis of both"
            )


def _check_turn(where: str, path: FieldPath, name: str, actions: Actions) -> None:
    """Refuse a velocity that says metres for an angular field, or radians for a linear one."""
    unit = actions.limits[name].unit  # a default unit proves nothing
    words = {part.name for part in path.parts} & {"linear", "angular"}
    if unit not in ("rad/s", "m/s") or len(words) != 1:
        return
    expected = "rad/s" if "angular" in words else "m/s"
    if unit != expected:
        raise ValueError(f"{where}: found {name} in {unit} for {path.text}, expected it in {expected}")
