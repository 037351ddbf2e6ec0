# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A thread that carries frames between the links of trainers and a receiver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from remote_inference.weights.frames import sender_of
from remote_inference.weights.receiver import WeightReceiver
from remote_inference.weights.transports.transport import Link, LinkClosedError

_POLL_S = 0.02  # for a frame, when none is there: how long an answer of the receiver may wait
_SEND_S = 1.0  # a trainer that does not take an answer in time is cut off
_ACCEPT_S = 0.5

Accept = Callable[[float], Link]


class ReceiverPump:
    """Feeds a receiver until it is closed. accepts: each waits so long [s] for a trainer, else TimeoutError.

    A trainer whose link ends gives its place up at once.
    """

    def __init__(self, receiver: WeightReceiver, *accepts: Accept) -> None:
        self._receiver = receiver
        self._links: dict[Link, bytes] = {}  # with the trainer that spoke last
        self._new: list[Link] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="weights", daemon=True)]
        for accept in accepts:
            accepting = threading.Thread(
                target=self._accept, args=(accept,), name="weights accept", daemon=True
            )
            self._threads.append(accepting)
        for thread in self._threads:
            thread.start()

    def add(self, link: Link) -> None:
        """Listen to one more trainer."""
        self._new.append(link)

    def close(self, timeout_s: float = 5.0) -> None:
        """End, and close the links."""
        self._ends.set()
        for thread in self._threads:
            thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ends.is_set():
            while self._new:
                self._links[self._new.pop()] = b""
            if not self._links:
                self._ends.wait(_POLL_S)
            for link in list(self._links):
                self._take(link)
            self._receiver.check_time()
            self._answer()
        for link in self._links:
            link.close()

    def _take(self, link: Link) -> None:
        try:
            data = link.receive(_POLL_S / len(self._links))
        except TimeoutError:
            return
        except LinkClosedError:
            self._drop(link)
            return
        self._links[link] = sender_of(data)
        self._receiver.handle(data)

    def _answer(self) -> None:
        for reply in self._receiver.take_replies():
            for link, sender in list(self._links.items()):
                if sender == sender_of(reply):
                    self._say(link, reply)

    def _say(self, link: Link, reply: bytes) -> None:
        try:
            link.send(reply, _SEND_S)
        except (TimeoutError, LinkClosedError):
            self._drop(link)

    def _drop(self, link: Link) -> None:
        link.close()
        self._receiver.forget(self._links.pop(link))

    def _accept(self, accept: Accept) -> None:
        while not self._ends.is_set():
            with suppress(TimeoutError, LinkClosedError):  # nobody, or one who went while connecting
                self.add(accept(_ACCEPT_S))
                continue
            self._ends.wait(_POLL_S)
