# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way to a session: which server, in which step of the handshake, and when to try again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from remote_inference.core.exchange import SessionReply

JITTER = 0.25  # each pause is drawn from 1 - JITTER to 1 + JITTER times the backoff


class Phase(Enum):
    """Steps of the handshake, in order."""

    WAITING = "waiting"  # until the pause between attempts is over
    CHECKING = "checking"  # get_status is out
    OPENING = "opening"  # open_session is out
    MATCHING = "matching"  # session granted, endpoints not matched both ways yet
    OPEN = "open"


@dataclass(frozen=True)
class Backoff:
    """Pauses between rounds over all servers: doubling, with jitter."""

    initial_s: float
    maximum_s: float

    def pause_ns(self, failed_rounds: int, rng: random.Random) -> int:
        pause_s: float = min(self.initial_s * 2.0 ** min(failed_rounds, 32), self.maximum_s)
        return int(pause_s * rng.uniform(1 - JITTER, 1 + JITTER) * 1e9)


class Link:
    """Holds the handshake's position; its owner makes the calls."""

    def __init__(self, servers: Sequence[str], backoff: Backoff, timeout_ns: int, rng: random.Random) -> None:
        """timeout_ns: deadline of each step of the handshake."""
        self._servers = tuple(servers)
        self._backoff = backoff
        self._timeout_ns = timeout_ns
        self._rng = rng
        self._index = 0
        self._failures = 0
        self._deadline_ns = 0
        self._proven = False  # true once the session in use has delivered a chunk
        self.phase = Phase.WAITING
        self.epoch = 0
        self.session: SessionReply | None = None

    @property
    def server(self) -> str:
        """The server in use or tried next."""
        return self._servers[self._index]

    @property
    def open(self) -> bool:
        return self.phase is Phase.OPEN

    def is_due(self, now_ns: int) -> bool:
        """Tell whether the pause is over or the step's deadline has passed."""
        return self.phase is not Phase.OPEN and now_ns >= self._deadline_ns

    def advance(self, phase: Phase, now_ns: int) -> None:
        """Enter the next step of the handshake."""
        if phase is Phase.OPENING:
            self.epoch += 1
            self._proven = False
        self.phase = phase
        self._deadline_ns = now_ns + self._timeout_ns

    def prove(self) -> None:
        """Note that the session has delivered: the next loss is answered at once, not after a pause."""
        self._proven = True
        self._failures = 0

    def fail(self, now_ns: int) -> None:
        """Move on to the next server; pause when all of them have failed."""
        self.session = None
        self.phase = Phase.WAITING
        self._index = (self._index + 1) % len(self._servers)
        self._failures += 1
        rounds, rest = divmod(self._failures, len(self._servers))
        self._deadline_ns = now_ns if rest else now_ns + self._backoff.pause_ns(rounds - 1, self._rng)

    def lose(self, now_ns: int, *, move_on: bool) -> None:
        """Give the session up; try the same server again at once, or the next one.

        A session that never delivered counts as a failed attempt.
        """
        if not self._proven:
            self.fail(now_ns)
            return
        self.session = None
        self.phase = Phase.WAITING
        if move_on:
            self._index = (self._index + 1) % len(self._servers)
        self._deadline_ns = now_ns
