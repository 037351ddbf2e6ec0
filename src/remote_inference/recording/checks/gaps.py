# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Counts missing messages by their publishers' numbers, and compares with what the recorder counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.bags.bag_records import LOSSES, REPAIR, RUN, read_json
from remote_inference.recording.bags.lost_messages import count_missing
from remote_inference.recording.bags.mcap_scan import Damage, MetadataRecord, ScannedMessage
from remote_inference.recording.checks.check import BagFacts, Check, Finding, count, show_time


class GapCheck(Check):
    """A gap that the recorder counted is a loss; one that it did not count is a problem."""

    name = "gaps"

    def __init__(self, facts: BagFacts) -> None:
        super().__init__(facts)
        self._last: dict[str, int] = {}
        self._missing: Counter[str] = Counter()
        self._first_ns: dict[str, int] = {}  # of the first gap, by topic
        self._losses: Mapping[str, Mapping[str, int]] = {"queue": {}, "before": {}}
        self._uncounted: set[str] = set()
        self._is_ours = False
        self._is_damaged = False

    def take_message(self, message: ScannedMessage) -> Iterator[Finding]:
        topic = message.channel.topic
        if missing := count_missing(self._last.get(topic, 0), message.sequence):
            self._missing[topic] += missing
            self._first_ns.setdefault(topic, message.log_time_ns)
        self._last[topic] = message.sequence
        yield from ()

    def take_damage(self, _: Damage) -> Iterator[Finding]:
        self._is_damaged = True
        yield from ()

    def take_record(self, record: MetadataRecord) -> Iterator[Finding]:
        if record.name == RUN:
            self._is_ours = True
        elif record.name == REPAIR:
            self._is_damaged = True
        elif record.name == LOSSES:
            try:
                losses = {key: read_json(LOSSES, record.values, key) for key in ("queue", "before")}
                self._losses = {
                    key: {str(topic): int(lost) for topic, lost in dict(found).items()}
                    for key, found in losses.items()
                }
                self._uncounted |= set(map(str, read_json(LOSSES, record.values, "uncounted")))
            except BagError as error:
                yield self.problem(str(error))
            except (TypeError, ValueError, OverflowError):
                yield self.problem(f"record {LOSSES}: found {record.values}, expected counts by topic")

    def end_bag(self) -> Iterator[Finding]:
        for topic, missing in self._missing.items():
            if topic not in self._uncounted:
                yield self._judge(topic, missing)
        for topic, lost in {**self._losses["queue"], **self._losses["before"]}.items():
            if lost and topic not in self._missing and topic not in self._uncounted:
                yield self.missing(
                    f"{topic}: the recorder lost {count(self._counted(topic), 'message')} at its end"
                )
        if self._uncounted:
            yield self.note(
                f"several publishers, whose losses nobody can count: {', '.join(sorted(self._uncounted))}"
            )
        if self._last and not any(self._last.values()):
            yield self.note("the messages have no numbers: what was lost while recording does not show")

    def _judge(self, topic: str, missing: int) -> Finding:
        since = f"the first at {show_time(self._first_ns[topic])}"
        counted = self._counted(topic)
        if not self._is_ours:
            return self.missing(f"{topic}: {count(missing, 'message')} lost while recording, {since}")
        if missing <= counted or self._is_damaged or not self.facts.is_finished:
            queue, before = (self._losses[key].get(topic, 0) for key in ("queue", "before"))
            causes = f"{queue} in its queue, {before} before they reached it"
            return self.missing(
                f"{topic}: {count(missing, 'message')} missing, {since}; the recorder lost {causes}"
            )
        return self.problem(
            f"{topic}: {count(missing, 'message')} missing, {since}; the recorder says that it lost {counted}"
        )

    def _counted(self, topic: str) -> int:
        return sum(self._losses[key].get(topic, 0) for key in ("queue", "before"))
