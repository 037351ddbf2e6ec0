# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares what a bag holds with its digest chain."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from remote_inference.bags.checks.check import Check, Verification, count, show_time
from remote_inference.bags.storage import bag_records as records
from remote_inference.bags.storage.bag_records import BagError, Link, read_json
from remote_inference.bags.storage.mcap_records import Damage
from remote_inference.bags.storage.mcap_scan import MetadataRecord, ScannedMessage
from remote_inference.bags.storage.split_file import START, DigestChain, channel_digest


class DigestCheck(Check):
    """Computes each link anew. One that does not fit is named; the next one follows its recorded digest."""

    name = "digests"

    def __init__(self, result: Verification) -> None:
        super().__init__(result)
        self._chain = DigestChain()
        self._file = ""
        self._files: set[str] = set()
        self._bag = ""  # id
        self._is_ours = False  # written by bag_recorder
        self._next_index = 0
        self._absent: list[str] = []  # files
        self._dropped: set[str] = set()  # files that the bag says it dropped
        self._unlinked = 0  # things since the last link
        self._is_damaged = False  # since the last link
        self._start_ns = self._end_ns = 0  # of the messages since the last link
        self._has_end = self._is_repaired = False
        self._without: list[str] = []  # files without links, although nothing of them is known to be lost
        self._is_cut = False  # what this file held from some place on is known to be lost ...
        self._was_cut = False  # ... and so it was with the file before
        self._links_in_file = 0

    def begin_file(self, name: str) -> None:
        self._was_cut, self._is_cut = self._is_cut, False
        self._file, self._links_in_file = name, 0
        self._files.add(name)
        self._begin_link()

    def _begin_link(self) -> None:
        self._unlinked, self._is_damaged, self._start_ns, self._end_ns = 0, False, 0, 0

    def on_message(self, message: ScannedMessage) -> None:
        channel = message.channel
        digest = channel_digest(channel.topic, channel.msgtype, channel.encoding, channel.definition)
        times = (message.log_time_ns, message.publish_time_ns)
        self._chain.add_message(digest, message.sequence, *times, message.data)
        self._start_ns = self._start_ns or message.log_time_ns
        self._end_ns = message.log_time_ns
        self._unlinked += 1

    def on_damage(self, damage: Damage) -> None:
        self._is_damaged = self._is_damaged or not damage.is_end
        self._is_cut = self._is_cut or damage.is_end

    def on_record(self, record: MetadataRecord) -> None:
        self._is_ours = self._is_ours or record.name in {records.SPLIT, records.LINK}
        if record.name == records.SPLIT:
            self._begin_split(record.values)
        elif record.name == records.DROPPED:
            with suppress(BagError):  # else it says of no file that it was dropped
                files = read_json(records.DROPPED, record.values, "files")
                self._dropped.update(map(str, files if isinstance(files, list) else ()))
        elif record.name == records.END:
            self._has_end = True
        elif record.name == records.REPAIR:
            self._is_repaired = self._is_damaged = self._is_cut = True  # it says itself what is lost here
        if record.name == records.LINK:
            self._end_link(record.values)
        elif record.name not in records.UNLINKED:
            self._chain.add_record(record.name, record.values)
            self._unlinked += 1

    def _begin_split(self, values: Mapping[str, str]) -> None:
        try:
            previous, index = bytes.fromhex(values["previous"]), int(values["index"])
        except (KeyError, ValueError):
            self.problem(f"{self._file}: record {records.SPLIT} is damaged: {dict(values)}")
            return
        bag = values.get("bag", "")
        if self._bag and bag != self._bag:
            self.problem(f"{self._file}: is a file of another bag, {bag}, expected {self._bag}")
        elif index != self._next_index:  # then the digest before is not known
            self._check_index(index)
        elif previous != self._chain.digest and not self._was_cut:
            self.problem(f"{self._file}: does not follow the digest with which the file before ends")
        self._bag = self._bag or bag
        self._next_index = index + 1
        self._chain.continue_from(previous)
        if index == 0 and previous != START:
            self.problem(f"{self._file}: is the first file, and follows a digest")

    def _check_index(self, index: int) -> None:
        """Keep which files are absent before this one: a later record may say that they were dropped."""
        if index < self._next_index:
            self.problem(f"{self._file}: has number {index}, expected {self._next_index}")
        stem = self._file.rpartition("_")[0]
        names = [f"{stem}_{number}.mcap" for number in range(self._next_index, index)]
        self._absent += [name for name in names if name not in self._files]

    def _end_link(self, values: Mapping[str, str]) -> None:
        self._links_in_file += 1
        messages = self._chain.messages
        try:
            link = Link.of(values)
        except BagError as error:
            self.problem(f"{self._file}: {error}")
            return
        if self._chain.link() == link.digest:
            self.result.links += 1
        elif not self._is_damaged:
            self.problem(self._describe_break(messages, link))
        self.result.digest = link.digest.hex()
        self._chain.continue_from(link.digest)
        self._begin_link()

    def _describe_break(self, messages: int, link: Link) -> str:
        place = f"{self._file}: "
        if self._start_ns:
            place += f"from {show_time(self._start_ns)} to {show_time(self._end_ns)}: "
        if messages != link.messages:
            return f"{place}found {count(messages, 'message')}, recorded were {link.messages}"
        what = f"{count(messages, 'message')}, or a record between them," if messages else "a record"
        return f"{place}{what} changed after the recording"

    def end_file(self) -> None:
        if not self._links_in_file and not self._is_cut:
            self._without.append(self._file)
        elif self._unlinked and self._is_ours:
            # A recorder that closes the bag links all: only what was cut off, or repaired, has no link.
            is_whole = self.result.is_finished and not (self._is_cut or self._is_damaged or self._is_repaired)
            report = self.problem if is_whole else self.missing
            found = f"{count(self._unlinked, 'message or record')} at its end without a link"
            report(f"{self._file}: {found}: nothing proves them")

    def end_bag(self) -> None:
        self._check_absent()
        if not self._is_ours:
            self.note("no digests: another recorder wrote the bag, and nothing shows whether it was changed")
        elif self._without:
            self.problem(f"no digests in {', '.join(self._without)}, which bag_recorder writes")
        elif self._is_repaired and not self._has_end:
            self.missing("the bag was repaired: what came after its last link is lost")
        elif self.result.is_finished and not self._has_end:
            self.problem("the bag has no record of its end: its last files or messages were removed")

    def _check_absent(self) -> None:
        removed = [name for name in self._absent if name not in self._dropped]
        dropped = len(self._absent) - len(removed)
        if removed:
            names = ", ".join(removed) if len(removed) < 4 else f"{removed[0]} to {removed[-1]}"
            self.problem(f"{count(len(removed), 'file')} absent that the bag has not dropped: {names}")
        if dropped:
            self.missing(f"{count(dropped, 'file')} dropped by the disk budget")
