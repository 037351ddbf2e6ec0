# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One connection to somebody else's server: opened when it is needed, and after a failure not at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from remote_inference.core.policy import Float32Array, PolicyError

FIRST_PAUSE_S = 0.5  # after the first failure; doubled after each one that follows
LONGEST_PAUSE_S = 5.0


class LinkError(PolicyError):
    """The connection is of no use any more: only a new one may work."""


class Server(Protocol):
    """A server's wire. Every call ends within the time that it is given."""

    place: str  # kind and address, for logs and errors
    kinds: Mapping[str, tuple[str, ...]]  # as `PolicySpec.kinds`, once the server is open

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known without asking."""

    def open(self, timeout_s: float) -> bytes:
        """Connect; return what the server says of its policy.

        Raises LinkError when nobody answers as such a server does, PolicyError when the policy does not fit.
        """

    def infer(self, model_input: Any, timeout_s: float) -> Float32Array:
        """Return the rows of a chunk. Raises LinkError, or PolicyError for an answer that does not fit."""

    def reset(self, timeout_s: float) -> None:
        """Tell the server that an episode has ended, if its wire can. Raises LinkError or PolicyError."""

    def close(self) -> None:
        """Close the connection, if there is one."""


class Connection:
    """Calls a server; one that has failed is left alone for a pause, so that callers fail fast meanwhile."""

    def __init__(self, server: Server, clock_s: Callable[[], float], tell: Callable[[str], object]) -> None:
        """clock_s: monotonic [s]. tell: takes what the operator should know."""
        self._server = server
        self._clock_s = clock_s
        self._tell = tell
        self._problem = ""  # why there is no connection
        self._pause_s = FIRST_PAUSE_S
        self._next_s = 0.0  # no attempt before
        self._reset_due = False
        self.greeting: bytes | None = None  # what the server said of its policy when it was loaded

    def open(self, timeout_s: float) -> None:
        """Connect. Raises PolicyError when that fails, or when the server now says something else."""
        if (wait_s := self._next_s - self._clock_s()) > 0:
            raise PolicyError(f"{self._problem}; the next attempt is in {wait_s:.1f} s")
        try:
            greeting = self._server.open(timeout_s)
            if self.greeting not in {None, greeting}:
                raise PolicyError(
                    f"{self._server.place} describes another policy than when this server was configured; "
                    "configure it again"
                )
        except PolicyError as error:
            self._fail(error)
            raise
        self.greeting = greeting
        self._tell(f"{self._server.place}: connected")

    def infer(self, model_input: Any, timeout_s: float) -> Float32Array:
        """Return the rows of a chunk within a time. Raises PolicyError when the server gives none."""
        deadline_s = self._clock_s() + timeout_s
        if not self._server.is_open:
            self.open(timeout_s)
        try:
            if self._reset_due:
                self._server.reset(self._left(deadline_s))
                self._reset_due = False
            rows = self._server.infer(model_input, self._left(deadline_s))
        except LinkError as error:
            self._fail(error)
            raise
        self._pause_s = FIRST_PAUSE_S
        return rows

    def reset(self) -> None:
        """End the episode before the next inference: a server that is away now loses no reset."""
        self._reset_due = True

    def close(self) -> None:
        self._server.close()

    def _left(self, deadline_s: float) -> float:
        return max(0.0, deadline_s - self._clock_s())

    def _fail(self, error: PolicyError) -> None:
        self._server.close()
        self._problem = str(error)
        self._next_s = self._clock_s() + self._pause_s
        self._tell(f"{error}; the next attempt is in {self._pause_s:.1f} s")
        self._pause_s = min(2.0 * self._pause_s, LONGEST_PAUSE_S)
