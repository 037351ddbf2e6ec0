# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every check of a bag has in common."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum

from remote_inference.bags.storage.mcap_scan import Damage, MetadataRecord, ScannedMessage


class Level(Enum):
    """How much a finding matters."""

    PROBLEM = "problem"  # the bag is not what was recorded, or not whole
    MISSING = "missing"  # something is missing, and the bag itself says so
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing that a check found."""

    level: Level
    check: str
    text: str

    def to_json(self) -> dict[str, str]:
        return {"level": self.level.value, "check": self.check, "text": self.text}


@dataclass
class BagFacts:
    """What the checks find of the bag as a whole."""

    is_finished: bool = False  # it has metadata.yaml
    links: int = 0  # of the digest chain that fit
    digest: str = ""  # of the last link


class Check:
    """Is called with the content of a bag once, in the order of its files."""

    name = ""

    def __init__(self, facts: BagFacts, findings: list[Finding]) -> None:
        """Append to `findings`, which all checks share."""
        self.facts = facts
        self.findings = findings

    def begin_file(self, name: str) -> None: ...

    def on_message(self, message: ScannedMessage) -> None: ...

    def on_record(self, record: MetadataRecord) -> None: ...

    def on_damage(self, damage: Damage) -> None: ...

    def end_file(self) -> None: ...

    def end_bag(self) -> None: ...

    def problem(self, text: str) -> None:
        self.findings.append(Finding(Level.PROBLEM, self.name, text))

    def missing(self, text: str) -> None:
        self.findings.append(Finding(Level.MISSING, self.name, text))

    def note(self, text: str) -> None:
        self.findings.append(Finding(Level.NOTE, self.name, text))


def show_time(stamp_ns: int) -> str:
    """Return an instant as people and the other verbs' pictures name it, in UTC."""
    try:
        moment = datetime.fromtimestamp(stamp_ns // 10**9, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{stamp_ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{stamp_ns % 10**9 // 10**6:03d} UTC"


def count(number: int, thing: str) -> str:
    """Return "1 message", "2 messages"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
