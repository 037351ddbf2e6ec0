# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The observations of a contract of rosetta: the state and the cameras."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from remote_inference.core.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.core.contract.state_source import JOINT_STATE
from remote_inference.core.documents.marks import mark
from remote_inference.core.drafts.rosetta_document import CAMERAS, CLAMP, RESIZE, Entry, Rosetta, Source
from remote_inference.core.drafts.rosetta_numbers import Losses, Names, name_numbers, scale
from remote_inference.core.drafts.rosetta_select import (
    JOINT_FIELDS,
    PICTURES,
    TEXT,
    has_paths,
    parse_of,
    split_joint,
)

STATE = "observation.state"  # the feature that LeRobot's policies see as the state

Item = dict[str, Any]
Reader = Callable[[Entry[Source], Sequence[str], Names], list[Item]]


def suggest_state(rosetta: Rosetta, names: Names, losses: Losses) -> list[Item]:
    """Return the sources of the state, whose names go into `names`."""
    entries = []
    for entry in rosetta.observations:
        if entry.is_camera:
            continue
        if (
            TEXT in (entry.source.channel.type, entry.source.channel.dtype)
            or entry.source.channel.dtype == "string"
        ):
            losses.add(entry.place, "left out, a text is no number of the state")
        else:
            entries.append(entry)
    items = []
    for entry, in_data_set in zip(entries, name_numbers(entries), strict=True):
        _note(entry, losses)
        items += _reader(entry)(entry, in_data_set, names)
    if not entries:
        raise rosetta.fail("observations", "found no numbers, expected those of the joints")
    return items


def _note(entry: Entry[Source], losses: Losses) -> None:
    losses.note(entry)
    if entry.key != STATE:
        losses.add(
            entry.place, f"joins the one state; LeRobot's policies see {STATE} alone: delete it for them"
        )
    if any(name == CLAMP for name, _ in entry.source.operators):
        losses.add(f"{entry.place}.apply", "clamp is left out, a contract bounds no sensors")


def _reader(entry: Entry[Source]) -> Reader:
    channel = entry.source.channel
    if channel.type == JOINT_STATE and not channel.decoder:
        return _joints
    return _marked if channel.decoder or not has_paths(channel.type, entry.source.select) else _numbers


def _head(entry: Entry[Source]) -> Item:
    return {"topic": entry.source.channel.topic, "type": entry.source.channel.type}


def _joints(entry: Entry[Source], in_data_set: Sequence[str], names: Names) -> list[Item]:
    """Return an item for each run of joints of one field: what a contract picks from a JointState by name."""
    picked = [split_joint(text, JOINT_FIELDS) for text in entry.source.select or ()]
    for (field, joint), name in zip(picked, in_data_set, strict=True):
        names.claim(joint if field == "position" else f"{joint}.{field}", name, entry.place)
    items = []
    for field, group in groupby(picked, lambda pair: pair[0]):
        joints = [joint for _, joint in group]
        item = {**_head(entry), "field": field, "names": joints}
        items.append(item | scale(entry.source, joints, field != "effort"))
    return items


def _numbers(entry: Entry[Source], in_data_set: Sequence[str], names: Names) -> list[Item]:
    own = [names.choose(name, entry) for name in in_data_set]
    parse = parse_of(entry.source.channel.type)
    fields = [parse(index, text) for index, text in enumerate(entry.source.select or [""])]
    item = {**_head(entry), "fields": fields} | ({} if own == fields else {"names": own})
    return [item | scale(entry.source, own)]


def _marked(entry: Entry[Source], in_data_set: Sequence[str], names: Names) -> list[Item]:
    """Return an item whose numbers a person has to find: a decoder or the order of a message decides."""
    own = [names.choose(name, entry) for name in in_data_set]
    who = entry.source.channel.decoder or f"rosetta's decoder of {entry.source.channel.type}"
    wanted = f"a list of the {len(own)} numbers of the message that {who} makes {', '.join(own)} of"
    if entry.source.channel.type == JOINT_STATE:
        field = mark("position, velocity or effort")
        return [{**_head(entry), "field": field, "names": mark(f"{wanted}, as joints")}]
    item = {**_head(entry), "fields": mark(f"{wanted}, as paths"), "names": own}
    return [item | scale(entry.source, own)]


def suggest_images(rosetta: Rosetta, losses: Losses) -> tuple[dict[str, Item], dict[str, str]]:
    """Return the cameras, and the features to which they are renamed."""
    images: dict[str, Item] = {}
    renamed: dict[str, str] = {}
    for entry in (entry for entry in rosetta.observations if entry.is_camera):
        channel = entry.source.channel
        if other := next((name for name, image in images.items() if image["topic"] == channel.topic), ""):
            losses.add(entry.place, f"left out, the camera {other} has its topic")
            continue
        losses.note(entry)
        for operator, _ in entry.source.operators:
            reason = "left out; the policy's manifest says the size" if operator == RESIZE else "left out"
            losses.add(f"{entry.place}.apply.{operator}", f"{reason}, a contract changes no pictures")
        name = re.sub(r"[^A-Za-z0-9_]", "_", entry.key.removeprefix(CAMERAS).removeprefix("observation."))
        while not name or name in images:
            name += "_"
        known = channel.type in PICTURES and not channel.decoder
        wanted = mark(f"{IMAGE} or {COMPRESSED_IMAGE}; rosetta reads {channel.type} by code")
        images[name] = {"topic": channel.topic, "type": channel.type if known else wanted}
        renamed[f"images.{name}"] = entry.key
    return images, renamed
