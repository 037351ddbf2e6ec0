# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Looks for times that go back."""

from __future__ import annotations

from collections.abc import Iterator

from remote_inference.recording.bags.bag_records import CLOCK
from remote_inference.recording.bags.mcap_scan import MetadataRecord, ScannedMessage
from remote_inference.recording.checks.check import BagFacts, Check, Finding, count, show_time


class OrderCheck(Check):
    """The messages of a topic lie in the order of their reception."""

    name = "order"

    def __init__(self, facts: BagFacts) -> None:
        super().__init__(facts)
        self._last_ns: dict[str, int] = {}
        self._back: list[tuple[int, int, str]] = []  # (step [ns], at [ns], topic) of the largest step
        self._steps_back = 0

    def take_message(self, message: ScannedMessage) -> Iterator[Finding]:
        topic, now_ns = message.channel.topic, message.log_time_ns
        step_ns = self._last_ns.get(topic, now_ns) - now_ns
        if step_ns > 0:
            self._steps_back += 1
            self._back = [max([*self._back, (step_ns, now_ns, topic)])]
        self._last_ns[topic] = now_ns
        yield from ()

    def take_record(self, record: MetadataRecord) -> Iterator[Finding]:
        if record.name == CLOCK:
            try:
                at, jump_s, ahead_s = (float(record.values[key]) for key in ("at_ns", "jump_s", "ahead_s"))
                when = show_time(int(at))
            except (KeyError, ValueError, OverflowError, OSError):
                yield self.problem(
                    f"record {CLOCK}: found {record.values}, expected at_ns, jump_s and ahead_s"
                )
                return
            yield self.note(
                f"the wall clock jumped by {jump_s:+.3f} s at {when}; the bag's times go on "
                f"steadily, and the stamps in messages are {ahead_s:+.3f} s ahead from there on"
            )

    def end_bag(self) -> Iterator[Finding]:
        for step_ns, at_ns, topic in self._back:
            yield self.problem(
                f"times of reception go back {count(self._steps_back, 'time')}, at most by "
                f"{step_ns * 1e-9:.3f} s ({topic} at {show_time(at_ns)}): the clock was set, "
                "or the messages were moved; readers sort them by these times"
            )
