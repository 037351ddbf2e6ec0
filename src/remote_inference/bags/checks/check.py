# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every check of a bag has in common."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from remote_inference.bags.storage.mcap_records import Damage
from remote_inference.bags.storage.mcap_scan import MetadataRecord, ScannedMessage


class Level(str, Enum):
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


@dataclass
class Verification:
    """What a bag holds, and what is wrong with it. Times are receptions in ns, 0 without messages."""

    path: Path
    files: int = 0
    size: int = 0  # bytes
    counts: Counter[str] = field(default_factory=Counter)  # messages by topic
    types: dict[str, str] = field(default_factory=dict)  # of the topics that have messages
    left_out: dict[str, str] = field(default_factory=dict)  # why other verbs cannot read a topic
    contract: str | None = None  # as the recorder noted it; None: another recorder wrote the bag
    start_ns: int = 0
    end_ns: int = 0
    is_finished: bool = False  # it has metadata.yaml
    links: int = 0  # of the digest chain that fit
    digest: str = ""  # of the last link
    findings: list[Finding] = field(default_factory=list)

    def add_problem(self, text: str) -> None:
        """Add what is wrong with the files."""
        self.findings.append(Finding(Level.PROBLEM, "files", text))

    def of(self, level: Level) -> list[Finding]:
        return [finding for finding in self.findings if finding.level is level]

    @property
    def is_intact(self) -> bool:
        """Whether no problem was found: the bag is what was recorded, and says itself what is missing."""
        return not self.of(Level.PROBLEM)

    def to_json(self) -> dict[str, Any]:
        return {
            "bag": str(self.path),
            "intact": self.is_intact,
            "files": self.files,
            "bytes": self.size,
            "messages": self.counts.total(),
            "topics": dict(self.counts),
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "links": self.links,
            "digest": self.digest,
            "findings": [asdict(finding) for finding in self.findings],
        }


class Check:
    """Is called with the content of a bag once, in the order of its files."""

    name = ""

    def __init__(self, result: Verification) -> None:
        self.result = result  # all checks share it

    def begin_file(self, name: str) -> None: ...

    def on_message(self, message: ScannedMessage) -> None: ...

    def on_record(self, record: MetadataRecord) -> None: ...

    def on_damage(self, damage: Damage) -> None: ...

    def end_file(self) -> None: ...

    def end_bag(self) -> None: ...

    def problem(self, text: str) -> None:
        self.result.findings.append(Finding(Level.PROBLEM, self.name, text))

    def missing(self, text: str) -> None:
        self.result.findings.append(Finding(Level.MISSING, self.name, text))

    def note(self, text: str) -> None:
        self.result.findings.append(Finding(Level.NOTE, self.name, text))


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
