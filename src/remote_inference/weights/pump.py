# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A thread that carries frames between the links of trainers and a receiver."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from remote_inference.weights.receiver import WeightReceiver
from remote_inference.weights.transports.transport import Link, LinkClosedError

_POLL_S = 0.02  # for a frame, when none is there: how long an answer of the receiver may wait
_SEND_S = 1.0  # a trainer that does not take an answer in time is cut off
_ACCEPT_S = 0.5
_LOG = logging.getLogger(__name__)

Accept = Callable[[float], Link]


class ReceiverPump:
    """Feeds a receiver until it is closed. accepts: each waits so long [s] for a trainer, else TimeoutError.

    A trainer whose link ends gives its place up at once. What nobody foresaw is logged and costs a link at
    most: the threads go on.
    """

    def __init__(self, receiver: WeightReceiver, *accepts: Accept) -> None:
        self._receiver = receiver
        self._links: list[Link] = []
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
            try:
                self._go_round()
            except Exception:  # noqa: PERF203  each round may fail, and none may be the last
                _LOG.exception("weights: the thread that listens to trainers failed; it goes on")
                self._ends.wait(_POLL_S)
        for link in self._links:
            self._close(link)

    def _go_round(self) -> None:
        while self._new:
            self._links.append(self._new.pop())
        if not self._links:
            self._ends.wait(_POLL_S)
        for link in tuple(self._links):
            self._take(link)
        self._receiver.check_time()
        for answer in self._receiver.take_answers():
            if answer.link in self._links:
                self._say(answer.link, answer.frame)

    def _take(self, link: Link) -> None:
        try:
            data = link.receive(_POLL_S / len(self._links))
        except TimeoutError:
            return
        except Exception as error:
            self._drop(link, error)
            return
        try:
            self._receiver.handle(data, link)
        except Exception as error:
            _LOG.exception("weights: a frame of a trainer could not be handled")
            self._receiver.fail(link, error)

    def _say(self, link: Link, reply: bytes) -> None:
        try:
            link.send(reply, _SEND_S)
        except Exception as error:
            self._drop(link, error)

    def _drop(self, link: Link, error: Exception) -> None:
        if not isinstance(error, (TimeoutError, LinkClosedError)):
            _LOG.error("weights: the link to a trainer failed and is closed", exc_info=error)
        self._links.remove(link)
        self._receiver.forget(link)
        self._close(link)

    def _close(self, link: Link) -> None:
        try:
            link.close()
        except Exception:
            _LOG.exception("weights: the link to a trainer cannot be closed")

    def _accept(self, accept: Accept) -> None:
        while not self._ends.is_set():
            try:
                self.add(accept(_ACCEPT_S))
            except (TimeoutError, LinkClosedError):  # noqa: PERF203  nobody, or one who went while connecting
                self._ends.wait(_POLL_S)
            except Exception:
                _LOG.exception("weights: accepting a trainer failed; the next may come")
                self._ends.wait(_ACCEPT_S)
