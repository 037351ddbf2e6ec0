# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Streams a bag for a page: the run, its images, and the newest joint states at each tick."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from PIL import Image

from remote_inference.bags.provenance.motion import Command, ImageFacts, Request
from remote_inference.bags.provenance.run_reader import WATCHDOG, RunReader, describe_damage, describe_image
from remote_inference.bags.storage.bag import OnProgress
from remote_inference.bags.storage.bag_file import Window
from remote_inference.bags.storage.bag_records import BagError
from remote_inference.bags.timeline.messages import Newest, RequestKey
from remote_inference.bags.timeline.robot_bag import JointRecord, RecordReader, RobotBag
from remote_inference.base.contract.image_source import find_encoding
from remote_inference.base.wire.images.encodings import IMAGE_ENCODINGS
from remote_inference.base.wire.images.images import ImageError, image_from_message
from remote_inference.robot.command import CommandSource

T = TypeVar("T")


class Thinned(Generic[T]):
    """Items in order. Above a weight of `limit` every second one goes, and is skipped from then on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._weights: list[int] = []
        self._total = 0
        self.items: list[T] = []
        self.every = 1  # one of so many is kept
        self.offered = 0

    @property
    def missing(self) -> int:
        """How many were offered and are not kept."""
        return self.offered - len(self.items)

    def takes_next(self) -> bool:
        """Count the next item; return whether it is kept, and to be added."""
        self.offered += 1
        return (self.offered - 1) % self.every == 0

    def add(self, item: T, weight: int = 1) -> None:
        self.items.append(item)
        self._weights.append(weight)
        self._total += weight
        while self._total > self._limit and len(self.items) > 1:
            del self.items[1::2], self._weights[1::2]
            self._total = sum(self._weights)
            self.every *= 2


MAX_SIDE = 320  # [px] of an image
MAX_BYTES = 24 << 20  # of the images of all observations; a third more in the page, where they are text
_QUALITY = 70


@dataclass(frozen=True)
class ObservationShot:
    """The images of one observation as JPEG, None where one cannot be read."""

    request: RequestKey
    jpegs: tuple[bytes | None, ...]


class Thumbnails(Thinned[ObservationShot]):
    """Keeps the observations' images within MAX_BYTES: when there are too many, every second one goes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(max_bytes)
        self.unreadable = 0

    def add_images(self, request: Request, pictures: Sequence[Any]) -> None:
        if not self.takes_next():
            return
        jpegs = tuple(map(make_thumbnail, pictures))
        self.unreadable += jpegs.count(None)
        shot = ObservationShot((request.session_id, request.seq_id), jpegs)
        self.add(shot, sum(len(jpeg or b"") for jpeg in jpegs))

    def left_out(self) -> list[str]:
        notes = []
        if self.every > 1:
            missing, limit = f"{self.missing} of {self.offered}", self._limit / 2**20
            notes.append(f"the images of {missing} observations: all would be over {limit:g} MiB")
        if self.unreadable:
            notes.append(f"{self.unreadable} images that cannot be read")
        return notes


def make_thumbnail(picture: Any) -> bytes | None:
    """Return an image as a small JPEG; None when it cannot be read."""
    try:
        image = _open(picture)
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.BOX)
        data = io.BytesIO()
        image.convert("RGB").save(data, "JPEG", quality=_QUALITY)
    except (ImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return data.getvalue()


def _open(picture: Any) -> Image.Image:
    if not hasattr(picture, "format"):
        return _as_image(np.asarray(image_from_message(picture)))
    encoding = find_encoding(picture.format)
    if encoding is not None and encoding != "jpeg":  # JPEG is drafted small, or tried
        return _as_image(IMAGE_ENCODINGS.get(encoding).decode(picture.data))
    image = Image.open(io.BytesIO(picture.data), formats=["JPEG"])
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))
    return image


def _as_image(pixels: np.ndarray) -> Image.Image:
    """Return colour as it is, and depth as grey: black is near, or not measured."""
    if pixels.ndim == 2:
        pixels = (pixels / max(1, int(pixels.max())) * 255).astype(np.uint8)
    return Image.fromarray(pixels)


# What the cameras showed while a person commanded: no observation was sent then, but their topics go on.
# A control tick shows each camera's newest message by then, as in an export. Only the parts of the bag in
# which a person commanded are read.
LOOK_BACK_NS = 2_000_000_000  # before the first tick: a camera is silent for less


@dataclass(frozen=True)
class Picture:
    """A camera's message, and its image as JPEG, None when it cannot be read."""

    t_s: float  # reception since the start of the bag
    image: ImageFacts
    jpeg: bytes | None


class CameraPictures:
    """The pictures of each camera within max_bytes together: when there are too many, every second one goes.

    Without a contract the cameras are not known.
    """

    def __init__(self, robot: RobotBag, max_bytes: int) -> None:
        self._bag = robot.bag
        images = robot.contract.images if robot.contract else {}
        self._cameras = {topic: name for name, source in images.items() for topic in robot.recorded([source])}
        limit = max_bytes // max(1, len(self._cameras))
        self._kept: dict[str, Thinned[Picture]] = {name: Thinned(limit) for name in self._cameras.values()}
        self._newest: dict[str, tuple[int, bytes]] = {}  # not shown yet: reception [ns], message, by topic

    @property
    def by_camera(self) -> dict[str, list[Picture]]:
        return {name: kept.items for name, kept in self._kept.items()}

    def read(self, ticks_ns: Sequence[int]) -> list[str]:
        """Read what had been received by some instants, in their order; return what damage hides."""
        if not self._cameras or not ticks_ns:
            return []
        try:
            # In stretches that lie further apart than LOOK_BACK_NS.
            gaps = (np.flatnonzero(np.diff(ticks_ns) > LOOK_BACK_NS) + 1).tolist()
            for stretch in np.split(np.array(ticks_ns, np.int64), gaps):
                self._read_stretch(stretch.tolist())
        except BagError as error:
            return [describe_damage(error)]
        return []

    def _read_stretch(self, ticks_ns: Sequence[int]) -> None:
        window = ticks_ns[0] - LOOK_BACK_NS, ticks_ns[-1] + 1
        place = 0
        for topic, at_ns, cdr in self._bag.raw_messages(list(self._cameras), window):
            while ticks_ns[place] < at_ns:
                self._show_newest()
                place += 1
            self._newest[topic] = at_ns, cdr
        self._show_newest()

    def _show_newest(self) -> None:
        for topic, (at_ns, cdr) in self._newest.items():
            kept = self._kept[self._cameras[topic]]
            if not kept.takes_next():
                continue
            message = self._bag.decode(topic, at_ns, cdr)
            jpeg = make_thumbnail(message)
            facts = describe_image(message, self._cameras[topic])
            kept.add(Picture(self._bag.seconds(at_ns), facts, jpeg), len(jpeg or b""))
        self._newest.clear()

    def left_out(self) -> list[str]:
        return [
            f"{kept.missing} of {kept.offered} pictures of {name} in takeovers: one of {kept.every} is shown"
            for name, kept in self._kept.items()
            if kept.every > 1
        ]


MAX_TICKS = 36_000  # of a page: 20 minutes at 30 Hz
PERSON_SHARE = 4  # one part of so many of the bytes is for the cameras while a person commands


@dataclass(frozen=True)
class PageTick:
    """A control tick, and the joint states by then."""

    command: Command
    joints: Mapping[str, JointRecord]  # newest record by topic


class PageReader:
    """Reads a robot's part of a bag."""

    def __init__(self, robot: RobotBag, max_image_bytes: int) -> None:
        self._bag = robot.bag
        self.album = Thumbnails(max_image_bytes)
        self.pictures = CameraPictures(robot, max_image_bytes // PERSON_SHARE)
        self.reader = RunReader(robot, self._add_command, self.album.add_images)
        self.ticks: Thinned[PageTick] = Thinned(MAX_TICKS)
        self._of_joints = RecordReader(robot)
        self._newest = {topic: Newest() for topic in robot.joint_topics()}
        self._records: dict[str, tuple[bytes, JointRecord]] = {}  # the newest, with the bytes that it is of

    def read(self, window: Window, on_progress: OnProgress) -> None:
        """Read what was received in a window, and the states of the node and the watchdog before it."""
        if window[0] is not None:
            self.reader.read(("state", WATCHDOG), (None, window[0]))
        self.reader.read(window=window, others=self._newest, on_progress=on_progress)
        commands = [tick.command for tick in self.ticks.items]
        by_person_s = sorted(c.t_s for c in commands if c.source == CommandSource.HUMAN.name)
        at_ns = [self._bag.start_ns + round(t_s * 1e9) for t_s in by_person_s]
        self.reader.run.damage += self.pictures.read(at_ns)
        self.reader.read_policies(commands)

    def _add_command(self, command: Command) -> None:
        at_ns = self._bag.start_ns + round(command.t_s * 1e9)
        # Also when the tick is skipped: it forgets.
        newest = {topic: one.at(at_ns) for topic, one in self._newest.items()}
        if not self.ticks.takes_next():
            return
        records = {topic: self._record(topic, *found) for topic, found in newest.items() if found}
        self.ticks.add(PageTick(command, records))

    def _record(self, topic: str, at_ns: int, cdr: bytes) -> JointRecord:
        before = self._records.get(topic)
        if before is None or before[0] is not cdr:
            message = self._bag.decode(topic, at_ns, cdr)
            self._records[topic] = cdr, self._of_joints.read(topic, self._bag.seconds(at_ns), message)
        return self._records[topic][1]

    def left_out(self) -> list[str]:
        """Return what of the ticks and the images is not kept, in words."""
        notes = [*self.album.left_out(), *self.pictures.left_out()]
        if self.ticks.every > 1:
            missing, of = self.ticks.missing, self.ticks.offered
            notes.append(f"{missing} of {of} control ticks: one of {self.ticks.every} is shown")
        return notes
