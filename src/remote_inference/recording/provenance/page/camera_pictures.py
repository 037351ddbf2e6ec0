# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the cameras showed while a person commanded: no observation was sent then, but their topics go on.

A control tick shows each camera's newest message by then, as in an export. Only the parts of the bag in which
a person commanded are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from remote_inference.core.contract.contract import Contract
from remote_inference.core.exchange import in_namespace
from remote_inference.recording.bags.bag import BagReader
from remote_inference.recording.bags.bag_error import BagError
from remote_inference.recording.provenance.motion import SeenImage
from remote_inference.recording.provenance.page.album import shrink
from remote_inference.recording.provenance.page.thinned import Thinned
from remote_inference.recording.provenance.run_reader import look_at, tell_damage

LOOK_BACK_NS = 2_000_000_000  # before the first tick: a camera is silent for less


@dataclass(frozen=True)
class Picture:
    """A camera's message, and its image as JPEG, None when it cannot be read."""

    t_s: float  # reception since the start of the bag
    image: SeenImage
    jpeg: bytes | None


class CameraPictures:
    """The pictures of each camera within max_bytes together: when there are too many, every second one goes.

    ns: the robot's namespace, without a slash at its end. Without a contract nobody knows the cameras.
    """

    def __init__(self, bag: BagReader, ns: str, contract: Contract | None, max_bytes: int) -> None:
        self._bag = bag
        named = contract.images.items() if contract else ()
        topics = {name: in_namespace(ns, source.topic) for name, source in named}
        self._cameras = {topic: name for name, topic in topics.items() if topic in bag.topics}
        limit = max_bytes // max(1, len(self._cameras))
        self._kept: dict[str, Thinned[Picture]] = {name: Thinned(limit) for name in self._cameras.values()}
        self._newest: dict[str, tuple[int, bytes]] = {}  # reception [ns] and message, by topic
        self._taken: dict[str, int] = {}  # reception of the message last taken, by topic

    @property
    def by_camera(self) -> dict[str, list[Picture]]:
        """The pictures of each camera, in their order."""
        return {name: kept.items for name, kept in self._kept.items()}

    def read(self, ticks_ns: Sequence[int]) -> list[str]:
        """Read what had been received by some instants, in their order; return what damage hides."""
        if not self._cameras:
            return []
        try:
            for stretch in _stretches(ticks_ns):
                self._read_stretch(stretch)
        except BagError as error:
            return [tell_damage(error)]
        return []

    def _read_stretch(self, ticks_ns: Sequence[int]) -> None:
        window = ticks_ns[0] - LOOK_BACK_NS, ticks_ns[-1] + 1
        place = 0
        for topic, at_ns, cdr in self._bag.raw_messages(list(self._cameras), window):
            while ticks_ns[place] < at_ns:
                self._take_newest()
                place += 1
            self._newest[topic] = at_ns, cdr
        self._take_newest()

    def _take_newest(self) -> None:
        for topic, (at_ns, cdr) in self._newest.items():
            if self._taken.get(topic) == at_ns:
                continue
            self._taken[topic] = at_ns
            kept = self._kept[self._cameras[topic]]
            if not kept.takes_next:
                kept.skip()
                continue
            message = self._bag.decode(topic, at_ns, cdr)
            t_s = (at_ns - self._bag.start_ns) * 1e-9
            with self._bag.expecting(topic):
                jpeg = shrink(message)
                picture = Picture(t_s, look_at(message, self._cameras[topic]), jpeg)
            kept.add(picture, len(jpeg or b""))

    def left_out(self) -> list[str]:
        """Return what is not kept, in words."""
        return [
            f"{kept.offered - len(kept.items)} of {kept.offered} pictures of {name} in takeovers: "
            f"one of {kept.every} is shown"
            for name, kept in self._kept.items()
            if kept.every > 1
        ]


def _stretches(ticks_ns: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the instants in stretches that lie further apart than one looks back."""
    begin = 0
    for place, (before, after) in enumerate(pairwise(ticks_ns), start=1):
        if after - before > LOOK_BACK_NS:
            yield ticks_ns[begin:place]
            begin = place
    if ticks_ns:
        yield ticks_ns[begin:]
