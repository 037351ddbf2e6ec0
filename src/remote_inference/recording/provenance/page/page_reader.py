# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Streams a bag for a page: the run, its images, and the joints as they were heard at each tick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.bags.bag import BagReader, Window
from remote_inference.recording.provenance.motion import Command
from remote_inference.recording.provenance.page.album import Album
from remote_inference.recording.provenance.page.camera_pictures import CameraPictures
from remote_inference.recording.provenance.page.thinned import Thinned
from remote_inference.recording.provenance.recorded_command import Tell
from remote_inference.recording.provenance.run_reader import WATCHDOG, RunReader
from remote_inference.recording.timeline.joint_records import JointRecord, RecordReader, joint_topics
from remote_inference.recording.timeline.newest import Newest

MAX_TICKS = 36_000  # of a page: 20 minutes at 30 Hz
PERSON_SHARE = 4  # what cameras showed of a person's commands may take one part of so many, besides


@dataclass(frozen=True)
class PageTick:
    """A control tick, and what had been heard of the joints by then."""

    command: Command
    joints: Mapping[str, JointRecord]  # newest record by topic


class PageReader:
    """Reads a robot's part of a bag. ns: the robot's namespace, without a slash at its end."""

    def __init__(self, bag: BagReader, ns: str, contract: Contract | None, max_image_bytes: int) -> None:
        self._bag, self._contract = bag, contract
        self.album = Album(max_image_bytes)
        self.pictures = CameraPictures(bag, ns, contract, max_image_bytes // PERSON_SHARE)
        self.reader = RunReader(bag, ns, contract)
        self.ticks: Thinned[PageTick] = Thinned(MAX_TICKS)
        self._of_joints = RecordReader(ns, contract)
        self._newest = {topic: Newest() for topic in joint_topics(bag.topics, ns, contract)}
        self._records: dict[str, tuple[bytes, JointRecord]] = {}  # the newest, with the bytes that it is of

    def read(self, window: Window, tell: Tell) -> None:
        """Read what was received in a window, and what the node and the watchdog had said before."""
        said = ("state", WATCHDOG)
        if window[0] is not None:
            self.reader.read(said, (None, window[0]))
        self.reader.read(
            ("executed", "observation", "chunk", "decisions", *said),
            window,
            take_command=self._take_command,
            take_pictures=self.album.take,
            take_other=lambda topic, at_ns, cdr: self._newest[topic].add(at_ns, (at_ns, cdr)),
            others=list(self._newest),
            tell=tell,
        )
        commands = [tick.command for tick in self.ticks.items]
        by_person_s = sorted(c.t_s for c in commands if c.source == CommandSource.HUMAN.name)
        at_ns = [self._bag.start_ns + round(t_s * 1e9) for t_s in by_person_s]
        self.reader.run.damage += self.pictures.read(at_ns)
        self.reader.read_policies(commands)

    def _take_command(self, command: Command) -> None:
        at_ns = self._bag.start_ns + round(command.t_s * 1e9)
        heard = {topic: newest.at(at_ns) for topic, newest in self._newest.items()}
        if not self.ticks.takes_next:
            self.ticks.skip()
            return
        records = {topic: self._record(topic, *found) for topic, found in heard.items() if found}
        self.ticks.add(PageTick(command, records))

    def _record(self, topic: str, at_ns: int, cdr: bytes) -> JointRecord:
        before = self._records.get(topic)
        if before is None or before[0] is not cdr:
            message = self._bag.decode(topic, at_ns, cdr)
            with self._bag.expecting(topic):
                record = self._of_joints.read(topic, self.reader.seconds(at_ns), message)
            self._records[topic] = cdr, record
        return self._records[topic][1]

    def left_out(self) -> list[str]:
        """Return what of the ticks and the images is not kept, in words."""
        told = [*self.album.left_out(), *self.pictures.left_out()]
        if self.ticks.every > 1:
            missing = self.ticks.offered - len(self.ticks.items)
            told.append(
                f"{missing} of {self.ticks.offered} control ticks: one of {self.ticks.every} is shown"
            )
        return told
