# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames in pieces that fit into messages, where a message may be lost, come twice, or be another link's.

Pieces are numbered on each direction of a link. One that is missing ends the link: the trainer's next sync
makes a new one and greets the server, which is simpler than sending again, and as rare as a loss is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from remote_inference.weights.frames import MAX_FRAME_BYTES
from remote_inference.weights.transports.transport import LinkClosedError

PROTOCOL = 1
FRAGMENT_BYTES = 256 << 10  # one fits into the shared memory that Fast DDS has by default
MAX_FRAGMENT_BYTES = 1 << 20
WINDOW = 16  # pieces that an end may have sent and the other not read


class FragmentKind(IntEnum):
    """What a fragment says; the numbers travel."""

    DATA = 0
    TAKEN = 1
    PING = 2
    PONG = 3
    CLOSE = 4


@dataclass(frozen=True)
class Fragment:
    """A piece of a frame, or a word about the link. seq: of a piece; in a word, how many were read.

    offset, size: where the piece begins in its frame, and the whole frame [bytes].
    """

    link_id: str
    kind: FragmentKind
    seq: int = 0
    offset: int = 0
    size: int = 0
    data: bytes = b""


def split(link_id: str, first_seq: int, frame: bytes) -> Iterator[Fragment]:
    """Yield the pieces of a frame, numbered from `first_seq`; an empty frame has one."""
    for seq, begin in enumerate(range(0, max(len(frame), 1), FRAGMENT_BYTES), first_seq):
        piece = frame[begin : begin + FRAGMENT_BYTES]
        yield Fragment(link_id, FragmentKind.DATA, seq, begin, len(frame), piece)


class Arrivals:
    """The pieces that came and were not read yet, and the frame that those read so far belong to.

    `put` is for the thread that receives messages, and cheap; `read` for the one that wants frames. They need
    no lock: they share the deque alone.
    """

    def __init__(self) -> None:
        self._waiting: deque[Fragment] = deque()
        self._next_seq = 0
        self._frame = bytearray()
        self._size = 0  # of the frame in the middle of which the pieces are; no matter at its begin
        self.taken = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, piece: Fragment) -> None:
        """Keep a piece; one that came before is left out.

        Raises LinkClosedError when one before it is lost, or when the other end sends more than it may.
        """
        if piece.seq < self._next_seq:
            return
        if piece.seq > self._next_seq:
            raise LinkClosedError(f"piece {self._next_seq} is lost: found piece {piece.seq}")
        if len(piece.data) > MAX_FRAGMENT_BYTES:
            raise LinkClosedError(
                f"piece {piece.seq}: found {len(piece.data)} bytes, expected {MAX_FRAGMENT_BYTES} at most"
            )
        if len(self._waiting) >= WINDOW:
            raise LinkClosedError(f"found more than {WINDOW} pieces that were not asked for")
        self._next_seq += 1
        self._waiting.append(piece)

    def read(self) -> bytes | None:
        """Read the piece that came first; return the frame that it ends, if it ends one.

        Raises LinkClosedError for a piece that does not fit to those before.
        """
        piece = self._waiting.popleft()
        self.taken += 1
        begin, end = len(self._frame), len(self._frame) + len(piece.data)
        self._size = piece.size if not begin else self._size
        is_idle = not piece.data and piece.size > 0  # endless ones would never make a frame
        if piece.offset != begin or piece.size != self._size or end > piece.size or is_idle:
            raise LinkClosedError(
                f"piece {piece.seq}: found bytes {piece.offset} to {piece.offset + len(piece.data)} of "
                f"{piece.size}, expected some from {begin} on of {self._size}"
            )
        if piece.size > MAX_FRAME_BYTES:
            raise LinkClosedError(f"found a frame of {piece.size} bytes, expected {MAX_FRAME_BYTES} at most")
        self._frame += piece.data
        if end < piece.size:
            return None
        frame, self._frame = bytes(self._frame), bytearray()
        return frame
