# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Both ends of live weights behind four verbs, whatever the strategy and the transport."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from remote_inference.learn.weights.frames import Link, LinkClosedError
from remote_inference.learn.weights.ledger import Built, SenderConfig
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.receiver import ReceiverLimits, WeightReceiver
from remote_inference.learn.weights.sender import Connect, WeightSender
from remote_inference.learn.weights.tensors import Tensors

# -- A thread that carries frames between the links of trainers and a receiver ---------------------------

_POLL_S = 0.02  # for a frame, when none is there: how long an answer of the receiver may wait
_SEND_S = 1.0  # a trainer that does not take an answer in time is cut off
_ACCEPT_S = 0.5
_LOG = logging.getLogger(__name__)

Accept = Callable[[float], Link]


class ReceiverPump:
    """Feeds a receiver until it is closed. accepts: each waits so long [s] for a trainer, else TimeoutError.

    A trainer whose link ends gives its place up at once. An unexpected error is logged and costs a link at
    most: the threads go on.
    """

    def __init__(self, receiver: WeightReceiver, *accepts: Accept) -> None:
        self._receiver = receiver
        self._links: list[Link] = []  # appended to by any thread
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run, name="weights", daemon=True)]
        self._threads += [
            threading.Thread(target=self._accept, args=(accept,), name="weights accept", daemon=True)
            for accept in accepts
        ]
        for thread in self._threads:
            thread.start()

    def add(self, link: Link) -> None:
        """Serve one more trainer's link."""
        self._links.append(link)

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
        if not self._links:
            self._ends.wait(_POLL_S)
        for link in tuple(self._links):
            self._receive(link)
        self._receiver.check_time()
        for to, frame in self._receiver.take_answers():
            if to in self._links:
                self._send(to, frame)

    def _receive(self, link: Link) -> None:
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

    def _send(self, link: Link, reply: bytes) -> None:
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


class WeightSyncer:
    """One end of live weights: a trainer's `init_sender`, `sync`, or a server's `init_receiver`, `apply`.

    `sender`, `receiver` and `pump` are there for all that the four verbs do not do.
    """

    def __init__(self, config: SenderConfig | None = None, limits: ReceiverLimits | None = None) -> None:
        self.sender: WeightSender | None = None
        self.receiver: WeightReceiver | None = None
        self.pump: ReceiverPump | None = None
        self._config, self._limits = config, limits

    def init_sender(
        self, read: Callable[[], Tensors], receivers: Mapping[str, Connect], version: int | None = None
    ) -> None:
        """Begin to send; see WeightSender and its `init_sender`."""
        self._require_new()
        sender = WeightSender(read, self._config)
        sender.init_sender(receivers, version)
        self.sender = sender

    def init_receiver(self, tensors: Tensors, accept: Accept | None = None, version: int = 0) -> None:
        """Begin to receive into tensors that are served as this version; see WeightReceiver, ReceiverPump."""
        self._require_new()
        self.receiver = WeightReceiver(tensors, version, self._limits)
        self.pump = ReceiverPump(self.receiver, *([accept] if accept else []))

    def sync(self, version: int) -> Built:
        """Send the trainer's tensors as they are now. Raises what WeightSender's `sync` raises."""
        if self.sender is None:
            raise WeightsError(Reason.ORDER, "sync: found no sender, expected init_sender first")
        return self.sender.sync(version)

    def apply(self) -> int:
        """Serve the prepared update, if any; return the version served. Never waits for a trainer."""
        if self.receiver is None:
            raise WeightsError(Reason.ORDER, "apply: found no receiver, expected init_receiver first")
        return self.receiver.apply()

    def close(self) -> None:
        """End; the served weights stay as they are."""
        if self.sender:
            self.sender.close()
        if self.pump:
            self.pump.close()

    def _require_new(self) -> None:
        if self.sender or self.receiver:
            raise WeightsError(Reason.ORDER, "init: found an initialised end, expected another WeightSyncer")
