# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Links of weights whose two ends are in one process, for measurements and tests."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from remote_inference.learn.weights import Link, LinkClosedError
from remote_inference.learn.weights.shared_memory import SharedMemoryLink

_WAITING_MAX = 4  # frames: the sender prepares the next while one is taken
_POLL_S = 0.05  # between two checks whether the link was closed meanwhile

Frames = queue.Queue[bytes]


class InProcessLink:
    """See Link."""

    def __init__(self, inbox: Frames, outbox: Frames, closed: threading.Event) -> None:
        self._inbox, self._outbox, self._closed = inbox, outbox, closed

    def send(self, frame: bytes, timeout_s: float) -> None:
        left_s = timeout_s
        while not self._closed.is_set():
            wait_s = min(max(left_s, 0.0), _POLL_S)
            try:
                return self._outbox.put(frame, timeout=wait_s) if wait_s else self._outbox.put_nowait(frame)
            except queue.Full:
                left_s -= wait_s
                if left_s <= 0:
                    raise TimeoutError from None
        raise LinkClosedError("in_process: the link is closed")

    def receive(self, timeout_s: float) -> bytes:
        left_s = timeout_s
        while True:
            wait_s = min(max(left_s, 0.0), _POLL_S)
            try:
                return self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait()
            except queue.Empty:
                left_s -= wait_s
            if self._closed.is_set():
                raise LinkClosedError("in_process: the link is closed")
            if left_s <= 0:
                raise TimeoutError

    def close(self) -> None:
        self._closed.set()


def in_process() -> tuple[InProcessLink, InProcessLink]:
    """Return the two ends of a link."""
    there, back, closed = Frames(_WAITING_MAX), Frames(_WAITING_MAX), threading.Event()
    return InProcessLink(back, there, closed), InProcessLink(there, back, closed)


def shared_memory() -> tuple[SharedMemoryLink, SharedMemoryLink]:
    """Return the two ends of a link over shared memory."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ThreadPoolExecutor(1) as pool:  # each end waits for the other's memory
        second = pool.submit(SharedMemoryLink, ends[1], 5.0)
        return SharedMemoryLink(ends[0], 5.0), second.result()


TRANSPORTS: Mapping[str, Callable[[], tuple[Link, Link]]] = {
    "in_process": in_process,
    "shared_memory": shared_memory,
}
