# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which of a contract's sources measure what is commanded: positions, and poses as wholes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.base.contract.action_kinds import ACTION_KINDS
from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.fields import require_unique
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
            if not _is_in_measured(place):
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
                    raise ValueError(
                        f"measured.names: found {name} for the action {action}, expected the order of the "
                        f"actions: {', '.join(self._joints)}"
                    )
            if len(joints) != len(self._joints):
                raise ValueError(
                    f"measured: found {len(joints)} names of field position, expected one of field position "
                    f"for each of the {len(self._joints)} actions"
                )
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
        measured_first = sorted(self._sources.items(), key=lambda item: not _is_in_measured(item[0]))
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
        return _is_in_measured(place) and source.is_joints and not self._poses_in(source)


def _is_in_measured(place: str) -> bool:
    """Return whether a place is one of `measured`."""
    return place.startswith(MEASURED)
