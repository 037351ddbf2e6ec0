# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a contract of rosetta: their names here and in the data set, their units, what gets lost."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from remote_inference.base.documents.document import mark
from remote_inference.tools.contracts.rosetta.document import (
    CLAMP,
    RAD2DEG,
    Entry,
    Rosetta,
    Source,
    prefixes_by_topic,
)

NOTE_WIDTH = 108  # characters of a line
PER_RADIAN = math.degrees(1.0)
KINDS = ("continuous",)  # of numbers that a contract can hold without a word


@dataclass
class Losses:
    """What has no place in a contract: the places of rosetta's that share a reason."""

    places: dict[str, list[str]] = field(default_factory=dict)

    def add(self, place: str, reason: str) -> None:
        self.places.setdefault(reason, []).append(place)

    def note(self, entry: Entry[Any]) -> None:
        """Note what is lost of every source: its kind, its decoder, an alignment other than hold."""
        source = entry.source
        if source.kind not in KINDS:
            self.add(f"{entry.place}.kind", f"{source.kind} is left out, a contract has plain numbers")
        if source.channel.decoder:
            self.add(
                f"{entry.place}.channel.decoder",
                "left out; an entry point of remote_inference.message_readers reads a message by code",
            )
        if source.align is not None and source.align.strategy != "hold":
            self.add(
                f"{entry.place}.align",
                "left out; the newest message counts, and the parameter max_sensor_age_s bounds its age",
            )

    @property
    def lines(self) -> list[str]:
        """A paragraph for each reason, with its places."""
        texts = (f"{', '.join(places)}: {reason}" for reason, places in self.places.items())
        return [line for text in texts for line in wrap(text)]


def wrap(text: str) -> list[str]:
    """Return a note in lines; those behind the first are indented."""
    return textwrap.wrap(
        text, NOTE_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


@dataclass
class Names:
    """The names of the state or of the actions, in their order, and what the data set calls each number."""

    rosetta: Rosetta
    in_data_set: dict[str, str] = field(default_factory=dict)  # by name; empty: the data set does not name it
    places: dict[str, str] = field(default_factory=dict)

    def claim(self, name: str, in_data_set: str, place: str) -> str:
        """Add a name. Raises DocumentError for one that is there already: a contract has each name once."""
        if name in self.places:
            raise self.rosetta.fail(
                f"{place}.select",
                f"found {name!r} as in {self.places[name]}, expected each name once: delete a source, or "
                "give the joints of one driver a prefix",
            )
        self.in_data_set[name] = in_data_set
        self.places[name] = place
        return name

    def choose(self, in_data_set: str, entry: Entry[Any]) -> str:
        """Add a name for a number that has none in its message: the data set's, or one with the topic's."""
        topic = entry.source.channel.topic.strip("/").replace("/", "_")
        names = (in_data_set or topic, f"{topic}.{in_data_set}")
        free = next((name for name in names if name not in self.places), names[0])
        return self.claim(free, in_data_set, entry.place)


def name_numbers(entries: Sequence[Entry[Any]]) -> list[list[str]]:
    """Return the data set's name of each number of each source, and "" for one that has no `select`.

    Where two features have a name in common, the second one's begins with its key.
    """
    topics: dict[str, list[str]] = {}
    for entry in entries:
        topics.setdefault(entry.key, []).append(entry.source.channel.topic)
    taken: set[str] = set()
    found = []
    for entry in entries:
        prefix = prefixes_by_topic(dict.fromkeys(topics[entry.key]))[entry.source.channel.topic]
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
            losses.add(
                name,
                "the data set has one name for the state and another for the actions; a manifest may give "
                "the policy this name for both, by state_names and action_names",
            )
        elif wanted and wanted != {name}:
            found[f"joints.{name}"] = wanted.pop()
    return found


def scale(source: Source, names: Sequence[str], is_angular: bool = True) -> dict[str, Any]:
    """Return the key `scale` of numbers, or nothing. is_angular: whether they may count in degrees."""
    if custom := source.custom_operators:
        which = ", ".join(custom)
        unit = mark(f"the policy's unit, which rosetta's operator {which} makes; or delete this scale")
        factor = mark(f"how many of it are one of the message's unit; add an offset if {which} shifts")
        return {"scale": [{"unit": unit, "names": list(names), "factor": factor}]}
    if not source.is_in_degrees:
        return {}
    known = {"unit": "degrees", "names": list(names)}
    return {"scale": [known if is_angular else known | {"unit": "rad2deg", "factor": PER_RADIAN}]}


def clamp(rosetta: Rosetta, entry: Entry[Any]) -> tuple[float, float] | None:
    """Return the range of the commands in the message's unit, or None. Raises DocumentError for none."""
    low, high, factor = -math.inf, math.inf, 1.0
    for name, arguments in entry.source.operators:
        if name == CLAMP:
            low, high = max(low, arguments["min"] / factor), min(high, arguments["max"] / factor)
        elif name == RAD2DEG:
            factor = PER_RADIAN
        else:
            return None  # nobody knows in which unit what follows is
    if low >= high:
        raise rosetta.fail(
            f"{entry.place}.apply", f"found clamps to {low:g} and {high:g}, expected min < max"
        )
    return (low, high) if math.isfinite(low) else None


def places_of(entries: Iterable[Entry[Any]], key: str) -> list[str]:
    return [f"{entry.place}.{key}" for entry in entries]
