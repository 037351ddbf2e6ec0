# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""rosbag2 bags (MCAP, SQLite) read without a running ROS graph, message by message, over all of their files.

A message is read by the definition that its bag carries. A bag in which one of this package's messages has
another definition than this release's is refused when it is opened.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rosbags.rosbag2 import ReaderError
from rosbags.serde import SerdeError

from remote_inference.bags.storage.bag_file import FILE_TYPES, BagFile, Window, in_order
from remote_inference.bags.storage.bag_metadata import (
    METADATA_NAME,
    BagMetadata,
    compare_names,
    describe_unfinished,
    find_files,
    read_metadata,
)
from remote_inference.bags.storage.bag_records import (
    CONTRACT_KEY,
    QUOTED_CONTRACT_KEY,
    RUN,
    TOPIC_TYPES,
    ZSTD_MAGIC,
    BagError,
    BagTopic,
    advise_repair,
)
from remote_inference.bags.storage.message_decoder import MessageDecoder
from remote_inference.base.paths import PACKAGE

# Files of one recording follow one another. Writers of several threads mix their ends a little.
MAX_OVERLAP_S = 1.0

Definition = tuple[str, str, bool]  # a type's name, its text, and whether that is IDL
OnProgress = Callable[[float], None]  # is called with the fraction of the bag that is read


def no_progress(_: float) -> None:
    """Do nothing with the progress."""


class IncompleteBagError(BagError):
    """All that can be read of a bag was read, and it was less than there should be."""


class BagReader(AbstractContextManager["BagReader"]):
    """A rosbag2 bag, open for reading: its topics, and its messages in order of reception.

    remarks: what of it is read otherwise than its files and metadata.yaml say, or left out. They are logged.
    """

    def __init__(self, path: Path) -> None:
        """Open it. Raises BagError when there is no bag at `path`, or it was not finished."""
        self.path = path
        metadata = read_metadata(path)
        if not metadata.exists:
            is_bag = any(path.glob("*.mcap"))
            raise BagError(f"{path}: {describe_unfinished(path) if is_bag else 'no bag there'}")
        self.remarks = [f"{metadata.problem}: read from the files themselves"] if metadata.problem else []
        self._files: list[BagFile] = []
        try:
            self._open_files(metadata)
            self.topics: dict[str, BagTopic] = {}
            definitions = self._find_topics(metadata)
            different = {one for several in definitions.values() for one in several}
            self._decoder, unreadable = _decoder_of(tuple(sorted(different, reverse=True)))  # empty ones last
            # Why the messages of some topics cannot be read.
            self._unreadable = {
                topic: unreadable[one]
                for topic, several in definitions.items()
                for one in several
                if one in unreadable
            }
            self._expected = self._count_expected(metadata)
            # Text of the recorded robot's contract, empty without one.
            said = metadata.custom_data
            self.contract = (
                said.get(CONTRACT_KEY)
                or unquote(said.get(QUOTED_CONTRACT_KEY, ""))
                or next((values.get("contract", "") for name, values in self.records() if name == RUN), "")
            )
            self._require_this_release()
        except BaseException:
            self.close()
            raise
        filled = [file for file in self._files if file.end_ns]
        # Reception of the first and of the last message.
        self.start_ns = min((file.start_ns for file in filled), default=0)
        self.end_ns = max((file.end_ns for file in filled), default=0)
        for text in [*self.remarks, *(loss for file in self._files for loss in file.losses)]:
            _log_once(f"{path}: {text}")

    @property
    def message_count(self) -> int:
        """How many messages the bag has by its own words."""
        return sum(self._expected.values())

    def _open_files(self, metadata: BagMetadata) -> None:
        """Open the files by their times. Raises BagError for one that is absent, and for two that overlap."""
        files = find_files(self.path, metadata)
        for name in metadata.files:
            if not (self.path / name).is_file():
                raise BagError(f"{self.path}: {METADATA_NAME} names {name}, which is absent")
        self.remarks += compare_names(metadata, files)
        for path in files:
            with _reading(self.path, f"{path.name}: "):
                file = FILE_TYPES[metadata.storage](path)
                self._files.append(file)
                self.remarks += [*file.remarks, *file.losses]
        self._files.sort(key=lambda file: file.start_ns)
        for before, after in pairwise(file for file in self._files if file.end_ns):
            overlap_s = (before.end_ns - after.start_ns) * 1e-9
            is_copy = before.start_ns == after.start_ns < before.end_ns == after.end_ns
            if overlap_s > MAX_OVERLAP_S or is_copy:
                found = f"{before.path.name} and {after.path.name} overlap by {overlap_s:.1f} s"
                raise BagError(f"{self.path}: {found}, expected files that follow one another")

    def _find_topics(self, metadata: BagMetadata) -> Mapping[str, list[Definition]]:
        """Set the topics; return the definitions by topic."""
        definitions: defaultdict[str, list[Definition]] = defaultdict(list)
        for file in self._files:
            for name, found in file.topics.items():
                kind = found.topic.msgtype
                known = self.topics.setdefault(name, found.topic)
                if known.msgtype != kind:
                    where = f"{file.path.name}: {name}"
                    self.remarks.append(f"{where} is left out: found {kind}, and {known.msgtype} before")
                elif found.definition:  # one type may have several: only equal ones can be read together
                    definitions[name].append((kind, found.definition, found.is_idl))
        for name in self.topics.keys() - definitions.keys():
            definitions[name].append((self.topics[name].msgtype, "", False))
        left_out = {name for file in self._files for name in file.left_out}
        for topic in metadata.topics:
            if topic.name not in self.topics and topic.name not in left_out:
                self.topics[topic.name] = topic
            elif topic.name in self.topics and not self.topics[topic.name].offered_qos:
                self.topics[topic.name] = replace(self.topics[topic.name], offered_qos=topic.offered_qos)
        return definitions

    def _count_expected(self, metadata: BagMetadata) -> Counter[str]:
        """Return how many messages of each topic there should be: by the files, and by metadata.yaml."""
        by_files: Counter[str] = Counter()
        for file in self._files:
            by_files.update(file.counts or {})
        said = Counter({name: metadata.counts[name] for name in self.topics if name in metadata.counts})
        self._is_counted = all(file.counts is not None for file in self._files)
        self._counted = {*self.topics} if self._is_counted else {*said}  # topics that somebody counted
        if self._is_counted and said - by_files:
            counted = f"counts {said.total()} messages, its files {by_files.total()}"
            self.remarks.append(f"{METADATA_NAME} {counted}: some are missing")
        return by_files | said

    def _require_this_release(self) -> None:
        """Raise BagError for a topic of this package whose messages are not those of this release."""
        for topic, found in self.topics.items():
            kind = topic.rpartition(f"/{PACKAGE}/")[2]
            expected = TOPIC_TYPES.get(kind, found.msgtype)
            problem = self._unreadable.get(topic, "") if expected.startswith(f"{PACKAGE}/") else ""
            if found.msgtype != expected:
                problem = f"found {found.msgtype}, expected {expected}"
            if problem:
                raise BagError(f"{self.path}: {topic}: {problem}")

    def raw_messages(
        self,
        topic_names: Collection[str] = (),
        window_ns: Window = (None, None),
        on_progress: OnProgress = no_progress,
    ) -> Iterator[tuple[str, int, bytes]]:
        """Yield (topic name, reception [ns], CDR bytes) of the named topics, or of all of them.

        window_ns: from the first instant on and before the second; None: no such bound.

        Raises BagError when a topic is not in the bag, or the bag is damaged.
        """
        wanted = self._select(topic_names)
        records = in_order(
            source for file in self._files for source in file.sources(_same_type(file, wanted), window_ns)
        )
        read: Counter[str] = Counter()
        while True:
            with _reading(self.path):  # not around `yield`: the errors of who reads are their own
                record = next(records, None)
            if record is None:
                break
            stamp_ns, topic, cdr = record
            read[topic] += 1
            on_progress((stamp_ns - self.start_ns) / max(1, self.end_ns - self.start_ns))
            yield topic, stamp_ns, cdr
        if window_ns == (None, None):
            self._require_all(wanted, read)

    def _require_all(self, topics: Collection[str], read: Counter[str]) -> None:
        """Raise BagError when other messages came than there should be."""
        losses = (loss for file in self._files for loss in file.losses)
        problem = "" if self._counted >= {*topics} else next(losses, "")
        for topic in topics:
            found, expected = read[topic], self._expected[topic]
            if found < expected or (self._is_counted and found > expected):
                problem = f"{topic}: read {found} messages, expected {expected}"
        if problem:
            raise IncompleteBagError(f"{self.path}: {problem}; {advise_repair(self.path)}")

    def messages(
        self,
        topic_names: Collection[str] = (),
        window_ns: Window = (None, None),
        on_progress: OnProgress = no_progress,
    ) -> Iterator[tuple[str, int, Any]]:
        """Yield (topic name, reception [ns], message); numeric sequences of a message are numpy arrays.

        Arguments and errors are those of `raw_messages`; also raises BagError as `decode`.
        """
        for topic, stamp_ns, cdr in self.raw_messages(topic_names, window_ns, on_progress):
            yield topic, stamp_ns, self.decode(topic, stamp_ns, cdr)

    def decode(self, topic: str, stamp_ns: int, cdr: bytes) -> Any:
        """Return the message in the bytes that `raw_messages` yielded for a topic.

        Raises BagError when it does not fit its definition, or that cannot be read.
        """
        if topic in self._unreadable:
            raise BagError(f"{self.path}: {topic}: {self._unreadable[topic]}")
        if cdr.startswith(ZSTD_MAGIC):  # `ros2 bag reindex` and `convert` forget that they are compressed
            raise BagError(f"{self.path}: {topic}: ros2 bag compressed its messages one by one, with zstd")
        with _reading(self.path, f"{topic} at {stamp_ns} ns: "):
            return self._decoder.decode(self.topics[topic].msgtype, cdr)

    def seconds(self, t_ns: int) -> float:
        return (t_ns - self.start_ns) * 1e-9

    def records(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield name and values of the metadata records of an MCAP bag, in order. See `bag_records`."""
        for file in self._files:
            yield from file.records()

    def _select(self, topic_names: Collection[str]) -> Mapping[str, BagTopic]:
        for name in topic_names:
            if name not in self.topics:
                present = ", ".join(sorted(self.topics)) or "nothing"
                raise BagError(f"{self.path}: topic {name} is not in the bag, which holds {present}")
        return {name: self.topics[name] for name in topic_names or self.topics}

    def close(self) -> None:
        """Close the bag's files; a second call does nothing."""
        for file in self._files:
            file.close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


@lru_cache(maxsize=1024)  # a verb may open a bag several times
def _log_once(text: str) -> None:
    logging.getLogger(__name__).warning("%s", text)


def _same_type(file: BagFile, topics: Mapping[str, BagTopic]) -> list[str]:
    """Return those topics that have the same type in a file."""
    return [
        name
        for name, topic in topics.items()
        if name in file.topics and file.topics[name].topic.msgtype == topic.msgtype
    ]


@contextmanager
def _reading(path: Path, place: str = "") -> Iterator[None]:
    """Turn what rosbags raises for a damaged bag, which may be anything, into BagError."""
    try:
        yield
    except BagError:
        raise
    except (ReaderError, OSError, SerdeError, ValueError) as error:
        raise BagError(f"{path}: {place}{error}") from error
    except Exception as error:
        raise BagError(f"{path}: {place}the bag is damaged ({type(error).__name__})") from error


@lru_cache(maxsize=16)  # making it is most of opening a bag, and the next bag has the same types
def _decoder_of(definitions: tuple[Definition, ...]) -> tuple[MessageDecoder, dict[Definition, str]]:
    """Return a decoder of types, and why some of them cannot be read.

    It has the bag's own definitions, and the installed ones where the bag has none.
    """
    decoder = MessageDecoder()
    unreadable: dict[Definition, str] = {}
    for definition in definitions:
        msgtype, text, is_idl = definition
        try:
            decoder.add_type(msgtype, text, is_idl=is_idl)
            if problem := decoder.find_difference(msgtype):
                unreadable[definition] = problem
        except Exception as error:  # rosbags raises many kinds; the other topics are readable
            reason, *definition_lines = str(error).splitlines() or [type(error).__name__]  # it quotes
            more = " ..." if definition_lines else ""
            unreadable[definition] = f"{reason}{more}"
    return decoder, unreadable
