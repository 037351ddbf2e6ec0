# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A link whose frames travel in messages. What publishes and receives them is given to it.

The sender goes on only while fewer than WINDOW pieces are unread at the other end. Who hears nothing for
LEASE_S gives the other end up, or for DISCOVERY_S if it never heard it; the trainer's end asks every PING_S
whether the server's is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from remote_inference.weights.transports.fragments import WINDOW, Arrivals, Fragment, FragmentKind, split
from remote_inference.weights.transports.transport import LinkClosedError

PING_S = 1.0
LEASE_S = 5.0  # a trainer may hold the interpreter for seconds, and a slow network a piece
DISCOVERY_S = 30.0  # on a busy machine two nodes may know each other's topics that late
GREET_S = 0.05  # between two pings until the first answer
_WAKE_S = 0.5  # a wake-up can be lost: no thread waits without an end

Publish = Callable[[Fragment], None]


class FragmentLink:
    """See Link: `send` and `receive` are for one thread, `put` and `tend` for that of the messages.

    publish: takes a fragment, on any thread.
    """

    def __init__(
        self, name: str, link_id: str, publish: Publish, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """name: of the other end, for errors. now_s: a monotonic clock [s]."""
        self.name, self.link_id = name, link_id
        self._publish, self._now_s = publish, now_s
        self._arrivals = Arrivals()
        self._changed = threading.Condition()  # of all below
        self._sent = self._read_there = 0  # pieces
        self._heard_s, self._lease_s = now_s(), DISCOVERY_S
        self._is_answered = False
        self._is_told = False  # the other end, of this one's end
        self._end = ""  # why the link has ended

    # -- one thread's frames -------------------------------------------------------------------------------

    def send(self, frame: bytes, timeout_s: float) -> None:
        end_s = self._now_s() + timeout_s
        for piece in split(self.link_id, self._sent, frame):
            self._await(lambda: self._sent - self._read_there < WINDOW, end_s)
            self._sent += 1
            self._publish(piece)

    def receive(self, timeout_s: float) -> bytes:
        end_s = self._now_s() + timeout_s
        while True:
            self._await(lambda: bool(self._arrivals), end_s, reads=True)
            frame = self._read()
            self._say(FragmentKind.TAKEN)
            if frame is not None:
                return frame
            if self._now_s() >= end_s:  # other links wait to be read
                raise TimeoutError

    def greet(self, timeout_s: float) -> None:
        """Wait until the other end answers. Raises TimeoutError, LinkClosedError."""
        end_s = self._now_s() + timeout_s
        while True:
            self._say(FragmentKind.PING)
            try:
                return self._await(lambda: self._is_answered, min(end_s, self._now_s() + GREET_S))
            except TimeoutError:
                if self._now_s() >= end_s:
                    raise

    def close(self) -> None:
        self._finish(f"{self.name}: the link is closed")
        with self._changed:
            was_told, self._is_told = self._is_told, True
        if not was_told:
            self._say(FragmentKind.CLOSE)

    # -- the thread of the messages ------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return bool(self._end)

    @property
    def end(self) -> str:
        """Why the link has ended; empty while it has not."""
        return self._end

    def put(self, fragment: Fragment) -> None:
        """Take what the other end says. Returns at once."""
        self._heard_s, self._lease_s = self._now_s(), LEASE_S
        if fragment.kind is not FragmentKind.DATA:
            self._note_taken(fragment.seq)
        match fragment.kind:
            case FragmentKind.PING:
                self._say(FragmentKind.PONG)
            case FragmentKind.PONG:
                self._note_answer()
            case FragmentKind.DATA:
                self._keep(fragment)
            case FragmentKind.CLOSE:
                self._finish(f"{self.name}: the other end has gone")

    def ping(self) -> None:
        """Ask whether the other end is there. The trainer's end does, every PING_S."""
        self._say(FragmentKind.PING)

    def tend(self) -> None:
        """End the link when the other end has been silent for too long."""
        if self._now_s() - self._heard_s > self._lease_s:
            self._finish(f"{self.name}: heard nothing for {self._lease_s:g} s")

    # -- inside --------------------------------------------------------------------------------------------

    def _note_answer(self) -> None:
        with self._changed:
            self._is_answered = True
            self._changed.notify_all()

    def _note_taken(self, count: int) -> None:
        with self._changed:
            self._read_there = max(self._read_there, min(count, self._sent))
            self._changed.notify_all()

    def _keep(self, piece: Fragment) -> None:
        with self._changed:
            if self._end:
                return
            try:
                self._arrivals.put(piece)
            except LinkClosedError as error:  # the thread that reads learns it after what came before
                self._end = f"{self.name}: {error}"
            self._changed.notify_all()

    def _read(self) -> bytes | None:
        try:
            return self._arrivals.read()
        except LinkClosedError as error:
            self._finish(f"{self.name}: {error}")
            raise LinkClosedError(self._end) from error

    def _await(self, condition: Callable[[], bool], end_s: float, reads: bool = False) -> None:
        """Wait for a condition. reads: what has come may still be read when the link has ended."""
        with self._changed:
            while not (condition() and (reads or not self._end)):
                if self._end:
                    raise LinkClosedError(self._end)
                left_s = end_s - self._now_s()
                if left_s <= 0:
                    raise TimeoutError
                self._changed.wait(min(left_s, _WAKE_S))

    def _finish(self, reason: str) -> None:
        """End the link, unless it has ended before."""
        with self._changed:
            self._end = self._end or reason
            self._changed.notify_all()

    def _say(self, kind: FragmentKind) -> None:
        """Say a word, and how many pieces were read: if one such word is lost, the next says it again."""
        self._publish(Fragment(self.link_id, kind, self._arrivals.taken))
