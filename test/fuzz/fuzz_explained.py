# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Recorded messages that are none, in bags that are otherwise whole, through all that explains a run."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from fuzz_target import Target, scratch_folder
from mutation import spoil_bytes

from remote_inference.bags.provenance.explanation import explain_motion
from remote_inference.bags.provenance.page.page import write_page
from remote_inference.bags.provenance.text import motion_lines
from remote_inference.bags.report.summary import summarise
from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagError, BagTopic
from remote_inference.bags.storage.bag_writer import BagWriter
from remote_inference.bags.timeline.timeline_reader import load_timeline
from remote_inference.base.documents.document import DocumentError
from support.recording.explained_run import write_explained_run

SPOILT = 1  # the message of its topic that is spoilt: not the first, by which topics are found
TOPICS = ("executed", "observation", "chunk", "state", "joint_states")

Recorded = tuple[str, int, bytes]  # topic, time [ns], message


@dataclass(frozen=True)
class _Run:
    topics: Sequence[BagTopic]
    contract: str
    messages: Sequence[Recorded]

    def find(self, topic: str) -> int:
        """Return the index of the message of a topic that is spoilt."""
        return [n for n, (name, _, _) in enumerate(self.messages) if name.endswith(f"/{topic}")][SPOILT]


@cache
def _run() -> _Run:
    with BagReader(write_explained_run(scratch_folder() / "explained")) as bag:
        topics = [BagTopic(name, info.msgtype) for name, info in bag.topics.items()]
        return _Run(topics, bag.contract, list(bag.raw_messages()))


def _explain(topic: str, data: bytes) -> None:
    path, page = scratch_folder() / "with_spoilt", scratch_folder() / "page.html"
    shutil.rmtree(path, ignore_errors=True)
    page.unlink(missing_ok=True)
    spoilt = _run().find(topic)
    with BagWriter(path, _run().topics, contract=_run().contract) as bag:
        for index, (name, stamp_ns, message) in enumerate(_run().messages):
            bag.write(name, stamp_ns, data if index == spoilt else message)
    for use in USES:
        use(path, page)


USES: tuple[Callable[[Path, Path], object], ...] = (
    lambda path, _: motion_lines(explain_motion(path, at="2.0")),
    write_page,
    lambda path, _: summarise(load_timeline(path, None, None)),
)


def _seeds(topic: str) -> list[bytes]:
    return [_run().messages[_run().find(topic)][2]]


TARGETS = tuple(
    Target(
        f"explained_{topic}",
        partial(_explain, topic),
        partial(_seeds, topic),
        spoil_bytes,
        (BagError, DocumentError),
        0.05,
        tempfile.gettempdir(),
    )
    for topic in TOPICS
)
