# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2 bags (MCAP) written from serialized messages, without a running ROS graph.

A bag is a folder with `metadata.yaml` and files that are split by size and time. `metadata.yaml` comes last:
a folder without it is a recording in progress, or one whose recorder was killed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from remote_inference import __version__
from remote_inference.bags.storage import bag_records as records
from remote_inference.bags.storage.bag_metadata import FileFacts, make_metadata, metadata_text, write_metadata
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.split_file import Channel, DigestChain, SplitFile

MAX_SPLIT_BYTES = 1 << 30  # by default
MAX_SPLIT_DURATION_S = 3600.0

WhenFull = Literal["stop", "drop_oldest"]


class DiskBudgetError(BagError):
    """The bag may not grow any more; the message says which bound it reached."""


@dataclass(frozen=True)
class BagLimits:
    """When a bag begins a new file, and what ends it. Zero means no bound.

    A file is at most one chunk larger or longer than its bounds.
    """

    max_split_bytes: int = 0
    max_split_duration_s: float = 0.0
    max_bytes: int = 0  # of all files together
    min_free_bytes: int = 0  # that stay free on the disk
    when_full: WhenFull = "stop"

    def ends_split(self, size: int, duration_s: float) -> bool:
        """Return whether a file of a size [bytes] is complete."""
        is_large = bool(self.max_split_bytes) and size >= self.max_split_bytes
        return is_large or (bool(self.max_split_duration_s) and duration_s >= self.max_split_duration_s)


def make_room(path: Path, limits: BagLimits, used: int, growth: int, drop_oldest: Callable[[], int]) -> None:
    """Drop finished files until the bag may grow.

    used: bytes on the disk. growth: bytes about to be written. drop_oldest: drops one file and returns its
    bytes, 0 when there is none left.

    Raises DiskBudgetError when nothing can or may be dropped.
    """

    def drop(reason: str) -> int:
        freed = drop_oldest() if limits.when_full == "drop_oldest" else 0
        if not freed:
            raise DiskBudgetError(f"{path}: {reason}")
        return freed

    while limits.max_bytes and used + growth > limits.max_bytes:
        used -= drop(f"the bag has reached max_bytes, {limits.max_bytes} bytes")
    free = shutil.disk_usage(path).free - growth
    while limits.min_free_bytes and free < limits.min_free_bytes:
        left = f"{max(free, 0)} bytes would stay free on the disk"
        # Counted, not measured again: a file that somebody reads is freed when he has closed it.
        free += drop(f"{left}, fewer than min_free_bytes, {limits.min_free_bytes}")


class BagWriter(AbstractContextManager["BagWriter"]):
    """Writes one new bag from CDR bytes as received. Not thread-safe.

    Leaving the context finishes the bag even after an error, so the messages until then stay readable; after
    a failed write it leaves the files as they are. `contract` is the text of the recorded robot's contract,
    with joints, units and limits. `facts` are further texts of the record RUN. Raises BagError when `path`
    exists already or the bag cannot be created.
    """

    def __init__(
        self,
        path: Path,
        topics: Iterable[BagTopic] = (),
        *,
        contract: str = "",
        facts: Mapping[str, str] | None = None,
        limits: BagLimits = BagLimits(),
    ) -> None:
        self.path = path
        self.counts: dict[str, int] = {}  # messages written, by topic, those of dropped splits included
        self.dropped: list[str] = []  # names of the splits that the disk budget has cost
        self._channels: dict[str, Channel] = {}
        self._limits = limits
        self._custom_data = {records.CONTRACT_KEY: contract} if contract else {}
        self._bag_id = uuid.uuid4().hex
        self._chain = DigestChain()
        self._finished: list[tuple[FileFacts, int]] = []  # with the size in bytes
        self._splits = 0  # begun
        self._split: SplitFile | None = None
        self._is_split_due = False
        run = {"package_version": __version__, **(facts or {})}
        if contract:
            run |= {"contract": contract, "contract_digest": hashlib.sha256(contract.encode()).hexdigest()}
        self._kept = {(records.RUN, ""): run}  # records that every split repeats
        self._is_open = False
        try:
            path.mkdir(parents=True)
            self._begin_split()
        except FileExistsError as error:
            raise BagError(f"{path}: exists already, a bag is never overwritten") from error
        except OSError as error:
            raise BagError(f"{path}: cannot create the bag: {error.strerror}") from error
        self._is_open = True
        for topic in topics:
            self.add_topic(topic)

    def __contains__(self, topic_name: str) -> bool:
        return topic_name in self._channels

    @property
    def digest(self) -> str:
        """The last link's digest, in hexadecimal digits."""
        return self._chain.digest.hex()

    def add_topic(self, topic: BagTopic) -> None:
        """Declare a topic, before its first message.

        Raises BagError when it is declared already, or its message definition is not installed.
        """
        if topic.name in self._channels:
            raise BagError(f"{self.path}: topic {topic.name} is declared already")
        channel = Channel.of(topic)
        self._channels[topic.name] = channel
        self.counts[topic.name] = 0
        if self._split is not None:
            self._split.add_channel(channel)

    def write(
        self, topic_name: str, stamp_ns: int, cdr: bytes, *, publish_ns: int | None = None, sequence: int = 0
    ) -> None:
        """Append one message.

        stamp_ns: its reception. cdr: its bytes with the CDR header. publish_ns: when its publisher sent it,
        if that is known. sequence: its number among the publisher's messages, 0 when that is unknown.

        Raises BagError when the topic is not declared, DiskBudgetError when the bag may not grow, OSError.
        """
        if topic_name not in self._channels:
            raise BagError(f"{self.path}: topic {topic_name} is not declared")
        self.tick(stamp_ns)
        if self._split is not None and self._is_split_due:
            self._end_split(self._split)
        split = self._split or self._begin_split()
        split.add_message(topic_name, stamp_ns, stamp_ns if publish_ns is None else publish_ns, sequence, cdr)
        self.counts[topic_name] += 1

    def tick(self, now_ns: int) -> None:
        """End the chunk when it is due. now_ns: by the clock of the receptions. Raises as `write`."""
        split = self._split
        if split is None or not split.is_chunk_due(now_ns):
            return
        self._make_room(split)
        split.end_chunk()
        self._is_split_due = self._limits.ends_split(split.bytes_expected, (now_ns - split.start_ns) * 1e-9)

    def add_record(self, name: str, values: Mapping[str, str], *, kept_for: str | None = None) -> None:
        """Write a metadata record behind the messages so far.

        kept_for: every later split repeats the newest record of this name and this value, so that it stands
        alone when older ones are dropped. Raises as `write`.
        """
        if kept_for is not None:
            self._kept[name, kept_for] = dict(values)
        split = self._split
        if split is None:
            split = self._begin_split()  # which writes the kept ones
            if kept_for is not None:
                return
        elif split.has_open_chunk and name != records.DROPPED:
            self._make_room(split)
        split.add_record(name, values)
        # It has ended the chunk, which may have been due for long where records come often.
        duration_s = (split.end_ns - split.start_ns) * 1e-9
        self._is_split_due = self._is_split_due or self._limits.ends_split(split.bytes_expected, duration_s)

    def close(self, reason: str = "closed", lost: Mapping[str, int] | None = None) -> None:
        """Finish the bag; a second call does nothing. reason: why it ends. lost: messages by topic.

        Raises OSError when the disk is full; then the bag has no metadata.yaml.
        """
        if not self._is_open:
            return
        self._is_open = False
        split = self._split or self._begin_split()
        split.add_record(
            records.END,
            {"reason": reason, "messages": json.dumps(self.counts), "lost": json.dumps(dict(lost or {}))},
        )
        self._end_split(split)
        files = [facts for facts, _ in self._finished]
        write_metadata(self.path, make_metadata(files, self._channels.values(), self._custom_data))

    def abandon(self) -> None:
        self._is_open = False
        if self._split is not None:
            self._split.abandon()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            self.abandon()
        else:
            self.close()

    def _begin_split(self) -> SplitFile:
        path = self.path / f"{self.path.name}_{self._splits}.mcap"
        messages_before = sum(self.counts.values())
        self._split = split = SplitFile(path, self._chain, messages_before)
        head = {
            "format": records.FORMAT,
            "bag": self._bag_id,
            "index": str(self._splits),
            "previous": self._chain.digest.hex(),
            "messages_before": str(messages_before),
        }
        self._splits += 1
        split.add_record(records.SPLIT, head)
        for (name, _), values in self._kept.items():
            split.add_record(name, values)
        for channel in self._channels.values():
            split.add_channel(channel)
        return split

    def _end_split(self, split: SplitFile) -> None:
        self._split, self._is_split_due = None, False
        split.end_chunk()
        facts = FileFacts(split.path.name, split.start_ns, split.end_ns, Counter(split.counts))
        metadata = make_metadata([facts], self._channels.values(), self._custom_data)
        split.add_record(records.ROSBAG2, {"serialized_metadata": metadata_text(metadata)})
        split.close()
        self._finished.append((facts, split.bytes_written))

    def _make_room(self, split: SplitFile) -> None:
        used = sum(size for _, size in self._finished) + split.bytes_written
        # One more chunk must fit: that is what waits when the bag is finished later.
        growth = split.bytes_expected - split.bytes_written + split.headroom
        make_room(self.path, self._limits, used, growth, self._drop_oldest)

    def _drop_oldest(self) -> int:
        if not self._finished:
            return 0
        facts, size = self._finished.pop(0)
        (self.path / facts.name).unlink(missing_ok=True)  # somebody may have moved it away
        self.dropped.append(facts.name)
        self.add_record(records.DROPPED, {"files": json.dumps(self.dropped)}, kept_for="")
        return size
