# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Contracts and the features of a LeRobot data set of version 3.0, which its `meta/info.json` describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.fields import Positive
from remote_inference.base.contract.generated import (
    UNKNOWN_KIND,
    UNKNOWN_LIMITS,
    UNKNOWN_ROBOT_TYPE,
    UNKNOWN_STATE_TOPIC,
    GeneratedContract,
    add_camera,
    unknown_commands,
    unknown_limit,
)
from remote_inference.base.contract.policy_units import POLICY_UNITS, UnitMap
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import (
    DocumentError,
    ForeignDocument,
    mark,
    parse_document,
    parse_json,
)
from remote_inference.base.documents.problems import show_value

VERSION = "v3.0"
STATE, ACTION = "observation.state", "action"
PREFIX = "observation."
PICTURES = ("image", "video")
OWN_UNITS = ("", "rad", "rad/s", "m", "m/s", "Nm", "N")  # that a contract needs no scale for
FIELDS = ("velocity", "effort")  # of state entries, which the end of their name says
NOTES = (
    "Names and rate are those of the data set. It says neither topics nor limits. Nor does it say the unit",
    "of its values, unless this package wrote it: LeRobot's own arms speak degrees and percent. A contract",
    "speaks radians and metres, and `scale` says where the policy does not; `offset` in it, where the",
    "policy's degrees count from another posture than the driver's radians.",
)


def flatten_names(names: Any) -> tuple[str, ...]:
    """Return the names that a feature has for its values, in their order; empty where it has none.

    names: a list, or as some data sets have it: a list of lists (openpi's converter for ALOHA), lists by
    group (`{"left": [...], "right": [...]}`), or the place of each name (`{"delta_x": 0}`). Raises
    ValueError, which says what was found, for anything else.
    """
    found = names
    if isinstance(names, Mapping):
        found = list(names.values())
        if found and all(type(place) is int for place in found):
            if sorted(found) != list(range(len(found))):
                raise ValueError(f"found places {show_value(found)}, expected 0 to {len(found) - 1}")
            found = sorted(names, key=lambda name: names[name])
        elif not all(isinstance(group, (list, tuple)) for group in found):
            raise ValueError(f"found {show_value(names)}, expected lists of names, or a place for each name")
    if isinstance(found, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in found):
        found = [name for group in found for name in group]
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) and name for name in found):
        raise ValueError(f"found {show_value(names)}, expected a text for each value")
    if len(set(found)) < len(found):
        raise ValueError(f"found {show_value(list(found))}, expected each name once")
    return tuple(found)


class Feature(ForeignDocument):
    """One feature. units: our own key, one for each name. Only what is used of a feature is checked."""

    dtype: str
    shape: Any = ()
    names: Any = None
    info: Any = None
    units: Any = None

    def read_joints(self) -> tuple[str, ...]:
        """Return a name for each value `[shape[0]]`. Raises ValueError, which says why not each has one."""
        if not (names := flatten_names(self.names)):
            raise ValueError("found none")
        if self.shape != (len(names),):
            found = f"found {len(names)}: {show_value(list(names))}"
            raise ValueError(f"{found}, expected one for each value of shape {show_value(self.shape)}")
        return names

    @property
    def joints(self) -> tuple[str, ...]:
        """A name for each value `[shape[0]]`; empty when the data set does not name each one."""
        try:
            return self.read_joints()
        except ValueError:
            return ()

    @property
    def unit_of(self) -> dict[str, str]:
        """The unit of each joint that is not the robot's own; empty when the data set says none."""
        pairs = zip(self.joints, self.units or (), strict=False)
        return {name: unit for name, unit in pairs if unit not in OWN_UNITS}

    @property
    def is_depth(self) -> bool:
        info = self.info if isinstance(self.info, Mapping) else {}
        return info.get("video.is_depth_map") is True or info.get("is_depth_map") is True


class Info(ForeignDocument):
    """The keys of `meta/info.json` that a contract needs."""

    codebase_version: str
    """the data set's version"""
    robot_type: str | None = None
    fps: Positive
    """the data set's rate [Hz]"""
    features: Mapping[str, Feature]
    """the data set's features"""


def read_info(text: str | bytes, source: str) -> Info:
    """Return what an `info.json` says; `source` names it in errors. Raises DocumentError."""
    info = parse_document(parse_json(text, source), Info, source)
    if info.codebase_version != VERSION:
        said = f"{source}: codebase_version: found {info.codebase_version!r}"
        raise DocumentError(f"{said}, expected {VERSION!r}")
    for key in (STATE, ACTION):
        if key not in info.features:
            raise DocumentError(f"{source}: features.{key}: missing, expected the data set's {key}")
        feature = info.features[key]
        units, count = feature.units, len(feature.joints)
        are_texts = isinstance(units, tuple) and all(isinstance(unit, str) for unit in units)
        if units is not None and not (are_texts and len(units) == count):
            found = len(units) if are_texts else show_value(units)
            expected = f"one for each of its {count} names"
            raise DocumentError(f"{source}: features.{key}.units: found {found}, expected {expected}")
    return info


def import_contract(text: str | bytes, source: str) -> GeneratedContract:
    """Return a contract for a robot that delivers a data set's features, topics and limits marked.

    text: of its `info.json`, which source names in errors. Raises DocumentError.
    """
    info = read_info(text, source)
    actions = info.features[ACTION]
    names: Any = list(actions.joints) or _unknown_names(actions, "actions")
    notes = [*NOTES]
    content: dict[str, Any] = {
        "robot_type": info.robot_type if info.robot_type not in (None, "", "unknown") else UNKNOWN_ROBOT_TYPE,
        "fps": float(info.fps),
        "state": state_sources(
            info.features[STATE].joints,
            _unknown_names(info.features[STATE], "joints"),
            info.features[STATE].unit_of,
        ),
    }
    for key, feature in info.features.items():
        if feature.dtype in PICTURES:
            add_camera(content, key, "depth" if feature.is_depth else "rgb")
        elif key.startswith(PREFIX) and key != STATE:
            notes.append(f"{key}: left out, a contract has no such feature")
    limits = {name: unknown_limit("", "the data set has none") for name in actions.joints}
    content["actions"] = {"kind": UNKNOWN_KIND, "names": names, "limits": limits or UNKNOWN_LIMITS}
    content["actions"] |= _scale({name: name for name in actions.joints}, actions.unit_of)
    content["commands"] = unknown_commands(names)
    return GeneratedContract(content, tuple(notes))


def state_sources(
    names: Sequence[str], unknown: str, units: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the sources of state entries.

    unknown: the mark that stands for names which are not known. units: of entries in another unit than the
    robot's.
    """
    split: list[tuple[str, Any]] = [*split_by_field(names)] or [("position", unknown)]
    sources = []
    for field, group in split:
        source = {"topic": UNKNOWN_STATE_TOPIC, "type": JOINT_STATE, "field": field, "names": group}
        ending = "" if field == "position" else f".{field}"  # of the entries' names
        entries = {} if isinstance(group, str) else {name + ending: name for name in group}
        sources.append(source | _scale(entries, units or {}))
    return sources


def _scale(names: Mapping[str, str], units: Mapping[str, str]) -> dict[str, Any]:
    """Return the `scale` of a section, or nothing. names: the section's, by the data set's."""
    groups: dict[str, list[str]] = {}
    for entry, name in names.items():
        if entry in units:
            groups.setdefault(units[entry], []).append(name)
    scales = [{"unit": unit, "names": group} | _unknown_scale(unit) for unit, group in groups.items()]
    return {"scale": scales} if scales else {}


def _unknown_scale(unit: str) -> dict[str, str]:
    if unit not in POLICY_UNITS.names:
        return {"factor": mark(f"how many {unit} are one of the robot's unit")}
    if (ends := POLICY_UNITS.get(unit).ends) is None:
        return {}
    return {"range": mark(f"a list of two: the robot's positions at {ends[0]:g} and at {ends[1]:g} {unit}")}


def split_by_field(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return state entries by the JointState field that the end of their name says, in their order."""

    def field_of(name: str) -> str:
        ending = name.rpartition(".")[2]
        return ending if ending in FIELDS and name != ending and name[: -len(ending) - 1] else "position"

    return [
        (field, [name if field == "position" else name.removesuffix(f".{field}") for name in group])
        for field, group in groupby(names, field_of)
    ]


def _unknown_names(feature: Feature, what: str) -> str:
    count = feature.shape[0] if isinstance(feature.shape, tuple) and feature.shape else "the"
    try:
        feature.read_joints()
        why = ""
    except ValueError as error:
        why = f"; the data set's names: {error}"
    return mark(f"a list of {count} {what}{why}")


def _joint_feature(names: Sequence[str], units: Sequence[str], map_: UnitMap) -> dict[str, Any]:
    """Return the feature of joints, with their units where they differ or one is not the robot's own."""
    differ = len(set(units) - {""}) > 1  # of the same everywhere a simulator may not know what it is
    said = {"units": list(units)} if differ or any(map_.units) else {}
    return {"dtype": "float32", "shape": [len(names)], "names": list(names)} | said


def joint_features(contract: Contract) -> dict[str, dict[str, Any]]:
    """Return the features of a robot's state and actions, under the policy's names and in its units."""
    return {
        STATE: _joint_feature(contract.policy_state_names, contract.policy_state_units, contract.state_units),
        ACTION: _joint_feature(
            contract.policy_action_names, contract.policy_action_units, contract.action_units
        ),
    }


def camera_key(feature: str) -> str:
    """Return the data set's key of a camera, from the policy's name for it."""
    return PREFIX + feature.removeprefix(PREFIX)


def to_lerobot(contract: Contract) -> dict[str, Any]:
    """Return the part of an `info.json` that a contract decides. The size of images is marked."""
    features: dict[str, Any] = joint_features(contract)
    for image, source in zip(contract.image_features, contract.images.values(), strict=True):
        is_depth = source.colour == "depth"
        features[camera_key(image.name)] = {
            "dtype": "video",
            "shape": [mark("height"), mark("width"), 1 if is_depth else 3],
            "names": ["height", "width", "channels"],
            "info": {"video.is_depth_map": is_depth},
        }
    fps = int(contract.row_fps) if contract.row_fps == int(contract.row_fps) else contract.row_fps
    return {"codebase_version": VERSION, "robot_type": contract.robot_type, "fps": fps, "features": features}
