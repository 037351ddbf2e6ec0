# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the recorder's callbacks hand to the thread that writes the bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

from remote_inference.recording.bag_topic import BagTopic
from remote_inference.recording.bag_writer import BagWriter


class Entry(Protocol):
    """Something to be written."""

    @property
    def kind(self) -> str:
        """What is counted when the entry is lost: a topic's name, or nothing."""

    @property
    def size(self) -> int:
        """Bytes that it holds while it waits."""

    def write(self, bag: BagWriter) -> None:
        """Write it to the bag. Raises as BagWriter's methods."""


@dataclass(frozen=True)
class MessageEntry:
    """A message on its way to the bag."""

    topic: BagTopic
    stamp_ns: int  # reception, by the bag's clock
    publish_ns: int
    sequence: int  # 0: the middleware does not say
    cdr: bytes

    @property
    def kind(self) -> str:
        return self.topic.name

    @property
    def size(self) -> int:
        return len(self.cdr)

    def write(self, bag: BagWriter) -> None:
        if self.topic.name not in bag:
            bag.add_topic(self.topic)
        bag.write(
            self.topic.name, self.stamp_ns, self.cdr, publish_ns=self.publish_ns, sequence=self.sequence
        )


@dataclass(frozen=True)
class RecordEntry:
    """A metadata record on its way to the bag."""

    name: str
    values: dict[str, str]
    kept_for: str | None = None
    kind: ClassVar[str] = ""
    size: ClassVar[int] = 0

    def write(self, bag: BagWriter) -> None:
        bag.add_record(self.name, self.values, kept_for=self.kept_for)


@dataclass(frozen=True)
class TickEntry:
    """Ends a chunk in time when no message comes."""

    now_ns: int
    kind: ClassVar[str] = ""
    size: ClassVar[int] = 0

    def write(self, bag: BagWriter) -> None:
        bag.tick(self.now_ns)
