# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Finds publishers of the robot's sensors that are gone from the graph, and those behind a dead link.

A node that has ended and one behind a dead link look alike from here: the middleware shows neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

FREEZE_NS = 1_500_000_000  # from which a lease of 2 s can end: it was last heard up to 0.5 s before
AFTERMATH_NS = 5_000_000_000  # after a freeze, in which the links go that it has cost


@dataclass(frozen=True, order=True)
class LostPublisher:
    """A node that published a stale topic and is in the graph no more. topic: as the contract has it."""

    topic: str
    node: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.node}"


class LostPublishers:
    """Remembers who published each topic while it was fresh. For one thread, which updates it all the time.

    This process is cut off from a node when it stood still for FREEZE_NS itself, and thereupon lost all
    topics that the node published. Of a driver that hangs, ends or is unplugged nothing of the kind is true.
    """

    def __init__(self, max_cut_off_ns: int) -> None:
        self._max_cut_off_ns = max_cut_off_ns
        self._publishers: dict[str, frozenset[str]] = {}
        self._changeable: set[str] = set()  # topics that were stale since their publishers were asked for
        self._updated_ns: int | None = None
        self._froze_ns: int | None = None  # end of this process's last freeze
        self._suspects: dict[LostPublisher, int] = {}  # lost upon a freeze, since when
        self.lost: tuple[LostPublisher, ...] = ()

    def update(
        self,
        topics: Collection[str],
        stale: Collection[str],
        find: Callable[[str], Collection[str]],
        now_ns: int,
    ) -> None:
        """Check the topics that are wanted, of which some are stale. find: who publishes one now."""
        if self._updated_ns is not None and now_ns - self._updated_ns >= FREEZE_NS:
            self._froze_ns = now_ns
        self._updated_ns = now_ns
        before = self.lost
        self.lost = tuple(
            LostPublisher(topic, node)
            for topic in sorted(topics)
            for node in sorted(self._find_lost(topic, find, is_stale=topic in stale))
        )
        recent = self._froze_ns is not None and now_ns - self._froze_ns <= AFTERMATH_NS
        new = [lost for lost in self.lost if recent and lost not in before]
        self._suspects = {lost: since for lost, since in self._suspects.items() if lost in self.lost}
        self._suspects |= dict.fromkeys(new, now_ns)

    def _find_lost(
        self, topic: str, find: Callable[[str], Collection[str]], *, is_stale: bool
    ) -> frozenset[str]:
        """Return the publishers that a topic has lost; while it is fresh, learn who they are."""
        if is_stale:
            self._changeable.add(topic)
            known = self._publishers.get(topic)
            return known - set(find(topic)) if known else frozenset()
        asks = topic in self._changeable or topic not in self._publishers
        if asks and (found := frozenset(find(topic))):  # discovery may come after the first message
            self._publishers[topic] = found
            self._changeable.discard(topic)
        return frozenset()

    def find_cut_off(self, now_ns: int) -> str:
        """Return the node that this process has been cut off from for too long, or an empty string."""
        for suspect, since_ns in self._suspects.items():
            its = {topic for topic, nodes in self._publishers.items() if suspect.node in nodes}
            gone = {other.topic for other in self._suspects if other.node == suspect.node}
            if its <= gone and now_ns - since_ns >= self._max_cut_off_ns:
                return suspect.node
        return ""
