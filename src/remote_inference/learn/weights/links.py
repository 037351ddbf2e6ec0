# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What carries whole frames between a trainer and a server."""

from __future__ import annotations

from typing import Protocol

from remote_inference.learn.weights.reasons import Reason, WeightsError


class LinkClosedError(WeightsError):
    """The other end has gone, or this one is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(Reason.TRANSPORT, text)


class Link(Protocol):
    """One end of a connection. Frames arrive whole and in order, or not at all. One thread uses an end."""

    def send(self, frame: bytes, timeout_s: float) -> None:
        """Hand a frame over. Raises LinkClosedError, and TimeoutError when the other end takes nothing more.

        After a TimeoutError a part of the frame may be on its way: the link is good for nothing but closing.
        """

    def receive(self, timeout_s: float) -> bytes:
        """Return the next frame. Raises LinkClosedError, and TimeoutError when none comes in time."""

    def close(self) -> None:
        """Let the other end know; safe to call again."""
