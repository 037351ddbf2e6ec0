# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a contract's sources and commands fit its actions: what measures them, and whether all carry the same.

A velocity interface that gets positions runs on when the policy falls silent; a pose with two axes exchanged
leads the arm elsewhere in its first tick. The names of the fields of ROS's common messages reveal both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.contract.field_path import FieldPath, parse_field_path
from remote_inference.base.contract.fields import require_unique
from remote_inference.base.contract.policy_units import find_contradiction, scales_by_name, zeros_agree
from remote_inference.base.contract.state_source import JOINT_STATE, StateSource

MEASURED = "measured"  # section of the sources that measure and that the policy does not see


@dataclass(frozen=True)
class Measurement:
    """A source that measures what is commanded. `actions`: that of each entry; empty where it is of none."""

    place: str  # in the contract
    source: StateSource
    actions: tuple[str, ...]


class Measurements:
    """Finds the sources that measure actions.

    A JointState of `measured` has the order of the position actions, all others go by the actions' names. A
    pose is taken from one source, one of `measured` first: its seven numbers are of one instant.
    """

    def __init__(self, sources: Mapping[str, StateSource], actions: Actions) -> None:
        """Keep the sources of the state and of `measured`, by place in the contract."""
        self._sources = sources
        self._actions = actions
        held = tuple(name for name in actions.names if ACTION_KINDS[actions.kind_of(name)].stays)
        self.wanted = held or actions.names
        """Actions whose positions are measured: those of positions and poses, or without any all."""
        self._joints = tuple(name for name in self.wanted if actions.kind_of(name) != "pose")

    def check(self) -> None:
        """Require positions and poses: the first step of these can be bounded only from where they are.

        Raises ValueError naming the place.
        """
        joints: list[str] = []
        for place, source in self._sources.items():
            if not place.startswith(MEASURED):
                continue
            joints += source.names if self._is_in_order(place, source) else ()
            for key in ("scale", "rotations"):
                if getattr(source, key):
                    raise ValueError(f"{place}.{key}: found one, expected none: the policy does not see it")
            if source.is_joints:
                if source.field != "position":
                    raise ValueError(f"{place}: found field {source.field}, expected field position")
            elif not self._poses_in(source):
                expected = f"{JOINT_STATE}, or the seven names of a pose"
                raise ValueError(f"{place}.type: found {source.type}, expected {expected}")
        if joints:
            require_unique(joints, "measured.names")
            for name, action in zip(joints, self._joints, strict=False):
                if name != action and name in self._joints:
                    found = f"measured.names: found {name} for the action {action}"
                    raise ValueError(f"{found}, expected the order of the actions: {', '.join(self._joints)}")
            if len(joints) != len(self._joints):
                found = f"measured: found {len(joints)} names of field position"
                one_each = f"one of field position for each of the {len(self._joints)} actions"
                raise ValueError(f"{found}, expected {one_each}")
        self._require_all()

    def _require_all(self) -> None:
        measured = {name for measurement in self.find() for name in measurement.actions}
        if missing := [name for name in self._actions.positions if name not in measured]:
            raise ValueError(
                f"state holds no position of {', '.join(missing)}, from which the first step is bounded; "
                "expected the names of the actions, in JointStates, or `measured` with a joint for each"
            )
        for title, pose in self._actions.poses.items():
            if not measured.issuperset(pose.names):
                raise ValueError(
                    f"no source of state holds the pose {title}, from which the first step is bounded; "
                    f"expected the names {', '.join(pose.names)} in one of them, or in one of `measured`"
                )

    def find(self) -> tuple[Measurement, ...]:
        """Return the sources that measure an action, in the contract's order."""
        pose_names = self._find_pose_names()
        joints = list(self._joints)
        in_order = [place for place, source in self._sources.items() if self._is_in_order(place, source)]
        found = []
        for place, source in self._sources.items():
            if place in in_order:
                actions, joints = joints[: len(source.names)], joints[len(source.names) :]
            else:
                wanted = set(pose_names.get(place, ()))
                if source.is_joints and source.field == "position" and not in_order:
                    wanted.update(self._joints)
                actions = [name if name in wanted else "" for name in source.entries]
            if any(actions):
                found.append(Measurement(place, source, tuple(actions)))
        return tuple(found)

    def _find_pose_names(self) -> dict[str, set[str]]:
        """Return the actions of poses that are taken from each place."""
        measured_first = sorted(self._sources.items(), key=lambda item: not item[0].startswith(MEASURED))
        names: dict[str, set[str]] = {}
        for title, pose in self._actions.poses.items():
            if held := [place for place, source in measured_first if title in self._poses_in(source)]:
                names.setdefault(held[0], set()).update(pose.names)
        return names

    def _poses_in(self, source: StateSource) -> tuple[str, ...]:
        """Return the poses whose seven names a source has, which may be positions of a JointState."""
        if source.is_joints and source.field != "position":
            return ()
        poses = self._actions.poses.items()
        return tuple(title for title, pose in poses if set(pose.names) <= set(source.entries))

    def _is_in_order(self, place: str, source: StateSource) -> bool:
        return place.startswith(MEASURED) and source.is_joints and not self._poses_in(source)


# -- Quantities and axes of a message's fields, by their names --------------------------------------------


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
            found = f"{where}: found {path.text} for {name}, the {axis} of the pose {title}'s {place}"
            raise ValueError(f"{found}, expected the same axis of both")


def _check_turn(where: str, path: FieldPath, name: str, actions: Actions) -> None:
    """Refuse a velocity that says metres for an angular field, or radians for a linear one."""
    unit = actions.limits[name].unit  # a default unit proves nothing
    words = {part.name for part in path.parts} & {"linear", "angular"}
    if unit not in ("rad/s", "m/s") or len(words) != 1:
        return
    expected = "rad/s" if "angular" in words else "m/s"
    if unit != expected:
        raise ValueError(f"{where}: found {name} in {unit} for {path.text}, expected it in {expected}")


# -- Kinds of actions and units ----------------------------------------------------------------------------


def check_command_kinds(commands: Sequence[CommandSink], actions: Actions) -> None:
    """Refuse actions that a controller's message cannot carry, and a pose of several controllers."""
    for sink in commands:
        kinds = dict.fromkeys(map(actions.kind_of, sink.names))
        if len(kinds) > 1:
            found = f"commands: {sink.destination} takes {' and '.join(kinds)} actions"
            raise ValueError(f"{found}, expected one kind for each controller")
        if (kind := actions.kind_of(sink.names[0])) not in sink.interface.kinds:
            expected = f"actions of kind {' or '.join(sink.interface.kinds)}, found {kind}"
            taken = sink.type.split("/")[-1]
            raise ValueError(f"commands: {sink.destination} takes a {taken}, expected {expected}")
        if kind in ("switch", "pose") and sink.interface.takes_horizon:
            expected = f"another type for a {kind}"
            raise ValueError(f"commands: {sink.topic} takes actions ahead, expected {expected}")
    for title, pose in actions.poses.items():
        takers = [sink for sink in commands if not set(pose.names).isdisjoint(sink.names)]
        if len(takers) > 1:
            found = " and ".join(sink.destination for sink in takers)
            raise ValueError(f"commands: found the pose {title} in {found}, expected it in one command")


def check_scales_agree(state: Sequence[StateSource], actions: Actions) -> None:
    """Refuse degrees for a joint whose limits are not in radians, and a joint with two zeros."""
    for place, source in enumerate(state):
        of_kind = [name for name in actions.names if actions.kind_of(name) == source.field]
        actions.check_angles(f"state.{place}.scale", source.scale, of_kind)
    seen = scales_by_name([scale for source in state for scale in source.scale])
    commanded = scales_by_name(actions.scale)
    if turned := [name for name in actions.quaternions if name in seen]:
        expected = "none: it has no unit"
        raise ValueError(f"state: found scale of {', '.join(turned)}, of a quaternion, expected {expected}")
    measured = {name for source in state for name in source.state_names}
    for name in (*actions.positions, *actions.pose_positions):
        if name not in measured:
            continue
        if not zeros_agree(seen.get(name), commanded.get(name)):
            places = {"state": seen.get(name), "actions": commanded.get(name)}
            found = [f"{scale.zero if scale else 'none'} in {place}" for place, scale in places.items()]
            expected = "one zero: the arm would go elsewhere than where it is seen"
            raise ValueError(f"scale: found {name} with {' and '.join(found)}, expected {expected}")
        if problem := find_contradiction(seen.get(name), commanded.get(name)):
            raise ValueError(f"scale: found {name} {problem}")
