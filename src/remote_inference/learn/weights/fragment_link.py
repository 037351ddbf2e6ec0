# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Links whose frames travel in messages; what publishes and receives the messages is given to them.

The sender goes on only while fewer than WINDOW pieces are unread at the other end. An end that receives
nothing for LEASE_S ends the link, or for DISCOVERY_S before the first message; the trainer's end pings every
PING_S. Pieces are numbered on each direction of a link; a message may be lost, come twice, or be another
link's. A missing piece ends the link: the trainer's next sync makes a new one and greets the server, which is
simpler than sending again, and as rare as a loss is.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from remote_inference.base.documents.problems import show_value
from remote_inference.learn.weights.frames import MAX_FRAME_BYTES, Link, LinkClosedError

PROTOCOL = 1
FRAGMENT_BYTES = 256 << 10  # one fits into the shared memory that Fast DDS has by default
MAX_FRAGMENT_BYTES = 1 << 20
WINDOW = 16  # pieces that an end may have sent and the other not read


class FragmentKind(IntEnum):
    """What a fragment is for; the numbers travel."""

    DATA = 0
    TAKEN = 1
    PING = 2
    PONG = 3
    CLOSE = 4


@dataclass(frozen=True)
class Fragment:
    """A piece of a frame, or a control message. seq: of a piece; in a control message, how many were read.

    offset, size: where the piece begins in its frame, and the whole frame [bytes].
    """

    link_id: str
    kind: FragmentKind
    seq: int = 0
    offset: int = 0
    size: int = 0
    data: bytes = b""


PING_S = 1.0
LEASE_S = 5.0  # a trainer may hold the interpreter for seconds, and a slow network a piece
DISCOVERY_S = 30.0  # on a busy machine two nodes may know each other's topics that late
GREET_S = 0.05  # between two pings until the first answer
_WAKE_S = 0.5  # a notification can be lost: no thread waits for ever

Publish = Callable[[Fragment], None]  # on any thread


class FragmentLink:
    """See Link: `send` and `receive` are for one thread, `put` and `tend` for that of the messages."""

    def __init__(
        self, name: str, link_id: str, publish: Publish, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """name: of the other end, for errors. now_s: a monotonic clock [s]."""
        self.name, self.link_id = name, link_id
        self._publish, self._now_s = publish, now_s
        self._waiting: deque[Fragment] = deque()  # received, and not read yet; needs no lock
        self._next_seq = self._taken = 0  # pieces received, and read
        self._frame, self._size = bytearray(), 0  # under way, and what it will have; no matter at its begin
        self._changed = threading.Condition()  # of all below
        self._sent = self._read_there = 0  # pieces
        self._received_s, self._lease_s = now_s(), DISCOVERY_S
        self._is_answered = False
        self._has_announced_end = False  # the other end, of this one's end
        self.end = ""  # why the link has ended; empty while it has not

    # -- one thread's frames -------------------------------------------------------------------------------

    def send(self, frame: bytes, timeout_s: float) -> None:
        end_s = self._now_s() + timeout_s
        for begin in range(0, max(len(frame), 1), FRAGMENT_BYTES):  # an empty frame has one piece, too
            self._await(lambda: self._sent - self._read_there < WINDOW, end_s)
            data = frame[begin : begin + FRAGMENT_BYTES]
            piece = Fragment(self.link_id, FragmentKind.DATA, self._sent, begin, len(frame), data)
            self._sent += 1
            self._publish(piece)

    def receive(self, timeout_s: float) -> bytes:
        end_s = self._now_s() + timeout_s
        while True:
            self._await(lambda: bool(self._waiting), end_s, reads=True)
            frame = self._read()
            self._publish_control(FragmentKind.TAKEN)
            if frame is not None:
                return frame
            if self._now_s() >= end_s:  # other links wait to be read
                raise TimeoutError

    def greet(self, timeout_s: float) -> None:
        """Ping until the other end answers. Raises TimeoutError, LinkClosedError."""
        end_s = self._now_s() + timeout_s
        while True:
            self._publish_control(FragmentKind.PING)
            try:
                return self._await(lambda: self._is_answered, min(end_s, self._now_s() + GREET_S))
            except TimeoutError:
                if self._now_s() >= end_s:
                    raise

    def close(self) -> None:
        self._finish(f"{self.name}: the link is closed")
        with self._changed:
            had_announced, self._has_announced_end = self._has_announced_end, True
        if not had_announced:
            self._publish_control(FragmentKind.CLOSE)

    # -- the thread of the messages ------------------------------------------------------------------------

    def put(self, fragment: Fragment) -> None:
        """Handle a message of the other end. Returns at once."""
        self._received_s, self._lease_s = self._now_s(), LEASE_S
        if fragment.kind is not FragmentKind.DATA:
            with self._changed:
                self._read_there = max(self._read_there, min(fragment.seq, self._sent))
                self._is_answered = self._is_answered or fragment.kind is FragmentKind.PONG
                self._changed.notify_all()
        match fragment.kind:
            case FragmentKind.PING:
                self._publish_control(FragmentKind.PONG)
            case FragmentKind.DATA:
                self._keep(fragment)
            case FragmentKind.CLOSE:
                self._finish(f"{self.name}: the other end has gone")

    def ping(self) -> None:
        """Ask whether the other end is there. The trainer's end does, every PING_S."""
        self._publish_control(FragmentKind.PING)

    def tend(self) -> None:
        """End the link when the other end has been silent for too long."""
        if self._now_s() - self._received_s > self._lease_s:
            self._finish(f"{self.name}: received nothing for {self._lease_s:g} s")

    # -- inside --------------------------------------------------------------------------------------------

    def _keep(self, piece: Fragment) -> None:
        """Keep a piece for the thread that reads; one that came before is left out.

        Ends the link when one before it is lost, or when the other end sends more than it may. The thread
        that reads learns it after what came before.
        """
        with self._changed:
            if self.end or piece.seq < self._next_seq:
                return
            problem = ""
            if piece.seq > self._next_seq:
                problem = f"piece {self._next_seq} is lost: found piece {piece.seq}"
            elif (size := len(piece.data)) > MAX_FRAGMENT_BYTES:
                problem = f"piece {piece.seq}: found {size} bytes, expected {MAX_FRAGMENT_BYTES} at most"
            elif len(self._waiting) >= WINDOW:
                problem = f"found more than {WINDOW} pieces that were not asked for"
            if problem:
                self.end = f"{self.name}: {problem}"
            else:
                self._next_seq += 1
                self._waiting.append(piece)
            self._changed.notify_all()

    def _read(self) -> bytes | None:
        """Read the piece that came first; return the frame that it ends, if it ends one.

        Ends the link and raises LinkClosedError for a piece that does not fit to those before.
        """
        piece = self._waiting.popleft()
        self._taken += 1
        begin, end = len(self._frame), len(self._frame) + len(piece.data)
        self._size = piece.size if not begin else self._size
        is_idle = not piece.data and piece.size > 0  # endless ones would never make a frame
        problem = ""
        if piece.offset != begin or piece.size != self._size or end > piece.size or is_idle:
            problem = (
                f"piece {piece.seq}: found bytes {piece.offset} to {piece.offset + len(piece.data)} of "
                f"{piece.size}, expected some from {begin} on of {self._size}"
            )
        elif piece.size > MAX_FRAME_BYTES:
            problem = f"found a frame of {piece.size} bytes, expected {MAX_FRAME_BYTES} at most"
        if problem:
            self._finish(f"{self.name}: {problem}")
            raise LinkClosedError(self.end)
        self._frame += piece.data
        if end < piece.size:
            return None
        frame, self._frame = bytes(self._frame), bytearray()
        return frame

    def _await(self, condition: Callable[[], bool], end_s: float, reads: bool = False) -> None:
        """Wait for a condition. reads: what has come may still be read when the link has ended."""
        with self._changed:
            while not (condition() and (reads or not self.end)):
                if self.end:
                    raise LinkClosedError(self.end)
                left_s = end_s - self._now_s()
                if left_s <= 0:
                    raise TimeoutError
                self._changed.wait(min(left_s, _WAKE_S))

    def _finish(self, reason: str) -> None:
        with self._changed:
            self.end = self.end or reason
            self._changed.notify_all()

    def _publish_control(self, kind: FragmentKind) -> None:
        """Publish a control message with the count of read pieces: if one is lost, the next one has it."""
        self._publish(Fragment(self.link_id, kind, self._taken))


# -- A server's links of which all messages come on one topic: who may open one, and whose a message is

MAX_LINKS = 8  # one trainer updates a server; the receiver refuses the others
LINK_ID = re.compile(r"[0-9A-Za-z_-]{16,64}")


class LinkTable:
    """The links of trainers to one server. `accept` and `close` are for any thread, all else for one."""

    def __init__(
        self,
        publish: Publish,
        now_s: Callable[[], float] = time.monotonic,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """now_s: a monotonic clock [s]. report: called with why a link has ended, and its trainer's name."""
        self._publish, self._now_s, self._report = publish, now_s, report
        self._links: dict[str, FragmentLink] = {}
        self._new: queue.Queue[FragmentLink] = queue.Queue()
        self.is_closed = False

    def open(self, protocol: int, link_id: str, trainer: str) -> str:
        """Make a link that `accept` returns, once for each id. Return why not, or nothing."""
        self.tend()
        if self.is_closed:
            return "the server takes no weights any more"
        if protocol != PROTOCOL:
            return f"found protocol {protocol}, expected {PROTOCOL}"
        if not LINK_ID.fullmatch(link_id):
            return f"found link {show_value(link_id)}, expected 16 to 64 letters, digits, - or _"
        if link_id in self._links:
            return ""
        if len(self._links) >= MAX_LINKS:
            return f"{len(self._links)} trainers have links, expected fewer than {MAX_LINKS}"
        self._links[link_id] = FragmentLink(trainer, link_id, self._publish, self._now_s)
        self._new.put(self._links[link_id])
        return ""

    def put(self, fragment: Fragment) -> None:
        """Hand a message to its link; for an unknown link, answer that it is closed."""
        link = self._links.get(fragment.link_id)
        if link is not None:
            link.put(fragment)
        elif fragment.kind is not FragmentKind.CLOSE:
            self._publish(Fragment(fragment.link_id, FragmentKind.CLOSE))

    def tend(self) -> None:
        """End the links that are silent, and forget those that have ended. Call it every second or so."""
        for link in self._links.values():
            link.tend()
            if link.end:
                self._report(link.end)
        self._links = {name: link for name, link in self._links.items() if not link.end}

    def accept(self, timeout_s: float) -> Link:
        """Return the next trainer's link. Raises TimeoutError when none comes, LinkClosedError."""
        if self.is_closed:
            raise LinkClosedError("nobody listens any more")
        try:
            return self._new.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """End all links, and open no more."""
        self.is_closed = True
        for link in tuple(self._links.values()):
            link.close()
