# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a receiver says to its trainers, each answer with the link that it is for."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from remote_inference.weights.header import (
    Applied,
    Refused,
    Welcome,
    pack_applied,
    pack_refused,
    pack_welcome,
)
from remote_inference.weights.reasons import Reason
from remote_inference.weights.transports.transport import Link

_MAX_ANSWERS = 64  # that nobody has fetched; older ones are dropped


@dataclass(frozen=True)
class Peer:
    """A trainer by one of its links: a new one may be there before the old one's end shows.

    link: None where frames come without links.
    """

    sender: bytes
    link: Link | None


@dataclass(frozen=True)
class Answer:
    """A frame for the trainer at the other end of a link."""

    link: Link | None
    frame: bytes


class Answers:
    """Those that nobody has fetched yet. For any thread. tell: takes what each update has come to."""

    def __init__(self, tell: Callable[[Applied | Refused], None]) -> None:
        self.refusals: Counter[Reason] = Counter()
        self._tell = tell
        self._waiting: deque[Answer] = deque(maxlen=_MAX_ANSWERS)
        self._lock = threading.Lock()

    def welcome(self, peer: Peer, welcome: Welcome) -> None:
        self._put(peer, pack_welcome(peer.sender, welcome))

    def applied(self, peer: Peer, applied: Applied) -> None:
        self._put(peer, pack_applied(peer.sender, applied))
        self._tell(applied)

    def refused(self, peer: Peer, refused: Refused) -> None:
        with self._lock:
            self.refusals[refused.reason] += 1
        self._put(peer, pack_refused(peer.sender, refused))
        self._tell(refused)

    def take(self) -> list[Answer]:
        """Return the answers, each once."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
        return taken

    def _put(self, peer: Peer, frame: bytes) -> None:
        with self._lock:
            self._waiting.append(Answer(peer.link, frame))
