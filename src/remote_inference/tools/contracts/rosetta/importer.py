# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Imports a contract of rosetta: ROS 2 topics as LeRobot's features (schema of 0.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from remote_inference.base.contract.commands.sink import TAKEOVER_INTERFACES
from remote_inference.base.contract.generated import UNKNOWN_STATE_TOPIC, GeneratedContract
from remote_inference.base.contract.image_source import COMPRESSED_IMAGE, IMAGE
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.rosetta import document, numbers
from remote_inference.tools.contracts.rosetta.document import Entry, Rosetta, TeleopInput
from remote_inference.tools.contracts.rosetta.numbers import Action, Losses, Names

# -- The observations of a contract of rosetta: the state and the cameras --------------------------------

STATE = "observation.state"  # the feature that LeRobot's policies see as the state

Item = dict[str, Any]
Reader = Callable[[Entry, Sequence[str], Names], list[Item]]


def suggest_state(rosetta: Rosetta, names: Names, losses: Losses) -> list[Item]:
    """Return the sources of the state, whose names go into `names`."""
    entries = []
    for entry in rosetta.observations:
        if entry.is_camera:
            continue
        channel = entry.source.channel
        if channel.type == document.TEXT or channel.dtype in (document.TEXT, "string"):
            losses.add(entry.place, "left out, a text is no number of the state")
        else:
            entries.append(entry)
    items = []
    for entry, in_data_set in zip(entries, numbers.name_numbers(entries), strict=True):
        losses.note(entry)
        if entry.key != STATE:
            reason = f"joins the one state; LeRobot's policies see {STATE} alone: delete it for them"
            losses.add(entry.place, reason)
        if any(name == document.CLAMP for name, _ in entry.source.operators):
            losses.add(f"{entry.place}.apply", "clamp is left out, a contract bounds no sensors")
        items += _reader(entry)(entry, in_data_set, names)
    if not entries:
        raise rosetta.fail("observations", "found no numbers, expected those of the joints")
    return items


def _reader(entry: Entry) -> Reader:
    channel = entry.source.channel
    if channel.type == JOINT_STATE and not channel.decoder:
        return _joints
    is_known = not channel.decoder and document.has_paths(channel.type, entry.source.select)
    return _numbers if is_known else _marked


def _head(entry: Entry) -> Item:
    return {"topic": entry.source.channel.topic, "type": entry.source.channel.type}


def _joints(entry: Entry, in_data_set: Sequence[str], names: Names) -> list[Item]:
    """Return an item for each run of joints of one field: what a contract picks from a JointState by name."""
    picked = [document.split_joint(text) for text in entry.source.select or ()]
    for (field, joint), name in zip(picked, in_data_set, strict=True):
        names.claim(joint if field == "position" else f"{joint}.{field}", name, entry.place)
    items = []
    for field, group in groupby(picked, lambda pair: pair[0]):
        joints = [joint for _, joint in group]
        item = {**_head(entry), "field": field, "names": joints}
        items.append(item | numbers.scale(entry.source, joints, field != "effort"))
    return items


def _numbers(entry: Entry, in_data_set: Sequence[str], names: Names) -> list[Item]:
    own = [names.choose(name, entry) for name in in_data_set]
    fields = document.parse_select(entry.source.channel.type, entry.source.select or [""])
    item = {**_head(entry), "fields": fields} | ({} if own == fields else {"names": own})
    return [item | numbers.scale(entry.source, own)]


def _marked(entry: Entry, in_data_set: Sequence[str], names: Names) -> list[Item]:
    """Return an item whose numbers a person has to find: a decoder or the order of a message decides."""
    own = [names.choose(name, entry) for name in in_data_set]
    who = entry.source.channel.decoder or f"rosetta's decoder of {entry.source.channel.type}"
    wanted = f"a list of the {len(own)} numbers of the message that {who} makes {', '.join(own)} of"
    if entry.source.channel.type == JOINT_STATE:
        field = mark("position, velocity or effort")
        return [{**_head(entry), "field": field, "names": mark(f"{wanted}, as joints")}]
    item = {**_head(entry), "fields": mark(f"{wanted}, as paths"), "names": own}
    return [item | numbers.scale(entry.source, own)]


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
            size = "; the policy's manifest says the size" if operator == document.RESIZE else ""
            reason = f"left out{size}, a contract changes no pictures"
            losses.add(f"{entry.place}.apply.{operator}", reason)
        key = entry.key.removeprefix(document.CAMERAS).removeprefix("observation.")
        name = re.sub(r"[^A-Za-z0-9_]", "_", key)
        while not name or name in images:
            name += "_"
        known = channel.type in document.PICTURES and not channel.decoder
        wanted = mark(f"{IMAGE} or {COMPRESSED_IMAGE}; rosetta reads {channel.type} by code")
        images[name] = {"topic": channel.topic, "type": channel.type if known else wanted}
        renamed[f"images.{name}"] = entry.key
    return images, renamed


NOTES = (
    "Topics, names and rate are rosetta's; what is renamed has the name that its data sets have. It says no",
    "velocities, and limits only by clamp. Its align and qos have no place: the newest message counts.",
)
SAFETY = {
    "position": "the parameter fallback says it: hold or repeat_last for positions",
    "velocity": "the parameter fallback says it: zero for velocities, which get zeros beside positions, too",
    "effort": "the parameter fallback says it: zero for efforts, which get zeros beside positions, too",
    "": "the parameter fallback says it: hold or repeat_last for positions, zero for others",
}


def import_contract(text: bytes, source: str) -> GeneratedContract:
    """Return a contract made of rosetta's contract file. source: its name. Raises DocumentError."""
    rosetta = document.read_rosetta(text, source)
    whole, losses = rosetta.whole, Losses()
    state_names, action_names = Names(rosetta), Names(rosetta)
    state = suggest_state(rosetta, state_names, losses)
    images, renamed = suggest_images(rosetta, losses)
    actions, section, commands = numbers.suggest_actions(rosetta, action_names, losses)
    renamed |= numbers.rename(state_names, action_names, losses)
    content: dict[str, Any] = {"robot_type": whole.robot_type, "fps": float(whole.fps)}
    content |= _instruction(rosetta, losses) | {"state": state}
    content |= {key: part for key, part in (("images", images), ("rename", renamed)) if part}
    content |= {"actions": section, "commands": commands}
    content |= _measured(state, actions, losses) | _takeover(rosetta, actions, losses)
    _note_rest(rosetta, actions, losses)
    return GeneratedContract(content, (*NOTES, *losses.lines))


def _instruction(rosetta: Rosetta, losses: Losses) -> dict[str, Any]:
    """Return the topic of instructions: the first of rosetta's tasks that is a text."""
    found: dict[str, Any] = {}
    for key, task in rosetta.whole.tasks.items():
        if found or task.channel.type != document.TEXT:
            losses.add(f"tasks.{key}", f"left out, `instruction` is one {document.TEXT}")
        else:
            found = {"instruction": {"topic": task.channel.topic, "type": document.TEXT}}
    return found


def _measured(state: Sequence[dict[str, Any]], actions: Sequence[Action], losses: Losses) -> dict[str, Any]:
    """Return the section `measured`, where the state does not hold each position that is commanded."""
    sources = [source for source in state if source.get("field") == "position"]
    known = {name for source in sources if isinstance(source["names"], list) for name in source["names"]}
    positions = [action.name for action in actions if action.kind == "position"]
    for action in actions:
        if not action.kind and action.name not in known:
            reason = "if it is a position, the key `measured` has to name a joint for each position action"
            losses.add(action.name, reason)
    if set(positions) <= known:
        return {}
    names = mark(f"a list with a joint for each position action: {', '.join(positions)}")
    source = {"topic": UNKNOWN_STATE_TOPIC, "type": JOINT_STATE, "field": "position", "names": names}
    return {"measured": source}


# -- what a person does --------------------------------------------------------------------------------------


def _takeover(rosetta: Rosetta, actions: Sequence[Action], losses: Losses) -> dict[str, Any]:
    """Return the section `takeover`, where one topic of a person's drives all actions by their names."""
    section = {}
    targets = list(dict.fromkeys(action.entry.source.channel.topic for action in actions))
    for index, source in enumerate(rosetta.whole.teleop.input):
        place = f"teleop.input.{index}"
        if source.target not in targets:
            expected = " or ".join(targets)
            raise rosetta.fail(f"{place}.target", f"found {source.target}, expected {expected}")
        if problem := _find_takeover_problem(rosetta, source, actions):
            losses.add(place, f"left out, {problem}")
        else:
            section = {"takeover": {"topic": source.channel.topic, "type": source.channel.type}}
    for event in rosetta.whole.teleop.events.select:
        reason = "no button has a meaning here; services have: takeover, release, start_episode"
        losses.add(f"teleop.events.{event}", f"left out, {reason}")
    for index, _ in enumerate(rosetta.whole.teleop.feedback):
        losses.add(f"teleop.feedback.{index}", "left out, nothing is sent to a person's device")
    return section


def _find_takeover_problem(rosetta: Rosetta, source: TeleopInput, actions: Sequence[Action]) -> str:
    """Return why a person's commands cannot be taken, or an empty string."""
    targets = {action.entry.source.channel.topic: action.entry.source for action in actions}
    if len(targets) > 1 or len(rosetta.whole.teleop.input) > 1:
        return "`takeover` has one topic for all actions"
    channel = source.channel
    if channel.type != JOINT_STATE or channel.type not in TAKEOVER_INTERFACES.names or channel.decoder:
        return f"`takeover` takes a {JOINT_STATE} with the actions' names"
    if source.operators != targets[source.target].operators:
        return "its `apply` is not that of the action, and `takeover` is in the unit of the commands"
    given = {document.split_joint(text) for text in source.select or ()}
    if given != {(action.kind, action.name) for action in actions}:
        return "its joints are not those of the actions"
    taken = {entry.source.channel.topic for entry in rosetta.actions}
    sensors = {entry.source.channel.topic: entry.source.channel.type for entry in rosetta.observations}
    if channel.topic in taken or sensors.get(channel.topic, channel.type) != channel.type:
        return f"{channel.topic} is a topic of a command, or of another type"
    return ""


# -- notes ---------------------------------------------------------------------------------------------------


def _note_rest(rosetta: Rosetta, actions: Sequence[Action], losses: Losses) -> None:
    """Say which parameter stands in the place of `safety`, by the kind of each controller's actions.

    And what of the file has no place at all.
    """
    kinds = {action.entry.place: action.kind for action in actions}
    for kind, reason in SAFETY.items():
        for place in (place for place, own in kinds.items() if own == kind):
            losses.add(f"{place}.channel.safety", reason)
    for section in document.RECORDED:
        for key in getattr(rosetta.whole, section):
            losses.add(f"{section}.{key}", "left out, a policy sees none of it; a bag may hold its topic")
    for index, bare in enumerate(rosetta.whole.adjunct):
        losses.add(f"adjunct.{index} ({bare.channel.topic})", "left out, record it with the robot's bag")
