# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer and a server on one host: frames in shared memory, and a socket with notes on where they are.

Each end has a memory of its own that only it writes; the other end gets it with the first message on the
socket. The memory has no name: when both have gone, killed or not, so has the memory, and the socket shows
each at once that the other has gone. Linux only.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import struct
import time
from pathlib import Path

from remote_inference.learn.weights.frames import MAX_FRAME_BYTES, LinkClosedError

SLOTS = 4
SLOT_BYTES = 1 << 20
_SIZE = SLOTS * SLOT_BYTES
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW  # memory that shrank under a reader would end its process
_NOTE = struct.Struct("<BBIQ")  # kind, slot, bytes in the slot, bytes of the frame that are left with these
_HERE, _FREE = 1, 2  # kinds: the slot holds bytes; the slot was read
_NAME = "shared_memory"
_PAIR_S = 5.0


class SharedMemoryLink:
    """See Link. Takes a connected socket of the type SOCK_SEQPACKET, and owns it."""

    def __init__(self, connection: socket.socket, timeout_s: float) -> None:
        """Exchange the memories. Raises LinkClosedError and TimeoutError when the other end does not."""
        self._connection: socket.socket | None = connection
        self._free = list(range(SLOTS))
        # Slot, bytes, bytes left: came while a slot was awaited.
        self._unread: list[tuple[int, int, int]] = []
        self._frame = bytearray()
        try:
            own = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                os.ftruncate(own, _SIZE)
                fcntl.fcntl(own, fcntl.F_ADD_SEALS, _SEALS)
                self._own = mmap.mmap(own, _SIZE)
                connection.settimeout(timeout_s)
                socket.send_fds(connection, [b"\0"], [own])
            finally:
                os.close(own)
            self._other = _receive_memory(connection)
        except (OSError, LinkClosedError) as error:
            connection.close()
            if isinstance(error, (TimeoutError, LinkClosedError)):
                raise
            raise LinkClosedError(f"{_NAME}: the other end has gone: {error}") from error

    def send(self, frame: bytes, timeout_s: float) -> None:
        end_s, begin = time.monotonic() + timeout_s, 0
        while begin < len(frame):
            while not self._free:
                self._receive_note(end_s)
            slot, size = self._free.pop(), min(SLOT_BYTES, len(frame) - begin)
            self._own[slot * SLOT_BYTES : slot * SLOT_BYTES + size] = frame[begin : begin + size]
            self._send_note(_NOTE.pack(_HERE, slot, size, len(frame) - begin), end_s)
            begin += size

    def receive(self, timeout_s: float) -> bytes:
        end_s = time.monotonic() + timeout_s
        while True:
            while not self._unread:
                self._receive_note(end_s)
            slot, size, left = self._unread.pop(0)
            if len(self._frame) + left > MAX_FRAME_BYTES:
                self.close()
                raise LinkClosedError(f"{_NAME}: found a frame of more than {MAX_FRAME_BYTES} bytes")
            self._frame += self._other[slot * SLOT_BYTES : slot * SLOT_BYTES + size]
            self._send_note(_NOTE.pack(_FREE, slot, 0, 0), end_s + 1.0)  # the slot was read, in time or not
            if left == size:
                frame, self._frame = bytes(self._frame), bytearray()
                return frame

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def _send_note(self, note: bytes, end_s: float) -> None:
        connection = self._require(end_s)
        try:
            connection.sendall(note)
        except TimeoutError:
            raise
        except OSError as error:
            raise LinkClosedError(f"{_NAME}: the other end has gone: {error}") from error

    def _receive_note(self, end_s: float) -> None:
        """Read the other end's next note."""
        connection = self._require(end_s)
        try:
            note = connection.recv(_NOTE.size)
        except (BlockingIOError, TimeoutError):  # the first when asked not to wait
            raise TimeoutError from None
        except OSError as error:
            raise LinkClosedError(f"{_NAME}: the other end has gone: {error}") from error
        if len(note) != _NOTE.size:
            self.close()
            raise LinkClosedError(f"{_NAME}: the other end has gone")
        kind, slot, size, left = _NOTE.unpack(note)
        if kind == _FREE and slot < SLOTS and slot not in self._free:
            self._free.append(slot)
        elif kind == _HERE and slot < SLOTS and 0 < size <= min(SLOT_BYTES, left):
            self._unread.append((slot, size, left))
        else:
            self.close()
            raise LinkClosedError(f"{_NAME}: found a note that makes no sense: {note.hex()}")

    def _require(self, end_s: float) -> socket.socket:
        if self._connection is None:
            raise LinkClosedError(f"{_NAME}: the link is closed")
        self._connection.settimeout(max(end_s - time.monotonic(), 0.0))
        return self._connection


class SharedMemoryListener:
    """A server's side: trainers connect to a socket's path, which only this user can open."""

    def __init__(self, path: Path) -> None:
        """Listen. Raises LinkClosedError when the socket cannot be made, for example as the path is taken."""
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _remove_remains(path)
            self._socket.bind(str(path))
            path.chmod(0o600)
            self._socket.listen()
        except OSError as error:
            self._socket.close()
            raise LinkClosedError(f"{path}: no socket can be made: {error.strerror or error}") from error

    def accept(self, timeout_s: float) -> SharedMemoryLink:
        """Return the link to the next trainer. Raises TimeoutError when none comes, LinkClosedError."""
        self._socket.settimeout(timeout_s)
        try:
            connection, _ = self._socket.accept()
        except (BlockingIOError, TimeoutError):
            raise TimeoutError from None
        except OSError as error:
            raise LinkClosedError(f"{self._path}: nobody listens any more: {error.strerror}") from error
        return SharedMemoryLink(connection, max(timeout_s, 1.0))

    def close(self) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)


def connect(path: Path, timeout_s: float) -> SharedMemoryLink:
    """Return a trainer's link to a server. Raises LinkClosedError when nobody listens, TimeoutError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(timeout_s)
    try:
        connection.connect(str(path))
        return SharedMemoryLink(connection, timeout_s)
    except TimeoutError as error:
        connection.close()
        raise TimeoutError(f"{path}: no answer in {timeout_s:g} s") from error
    except OSError as error:
        connection.close()
        raise LinkClosedError(f"{path}: nobody listens: {error.strerror or error}") from error


def _remove_remains(path: Path) -> None:
    """Remove the socket of a server that was killed; one at which somebody listens stays."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.settimeout(_PAIR_S)
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)


def _receive_memory(connection: socket.socket) -> mmap.mmap:
    _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    if not descriptors:
        raise LinkClosedError(f"{_NAME}: found no memory in the other end's first message")
    try:
        seals = fcntl.fcntl(descriptors[0], fcntl.F_GET_SEALS)
        if os.fstat(descriptors[0]).st_size != _SIZE or seals & _SEALS != _SEALS:
            raise LinkClosedError(f"{_NAME}: found another memory than {_SIZE} bytes of fixed size")
        return mmap.mmap(descriptors[0], _SIZE, prot=mmap.PROT_READ)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
