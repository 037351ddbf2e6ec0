# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a trainer calls: it hands over its tensors after each step and goes on training."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from remote_inference.weights.feed import Feed, ReceiverStatus
from remote_inference.weights.frames import SENDER_BYTES
from remote_inference.weights.header import Welcome
from remote_inference.weights.ledger import Built, Ledger, SenderConfig
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.tensors import Tensors
from remote_inference.weights.transports.transport import Link

Connect = Callable[[], Link]


class WeightSender:
    """Sends a trainer's weights to servers of one architecture. One thread uses it.

    read: returns the tensors to be served, by the server's names, for example `network.state_dict`. They may
    be floating-point numbers of another type than the server's. Raises WeightsError for a config that cannot
    be.
    """

    def __init__(self, read: Callable[[], Tensors], config: SenderConfig | None = None) -> None:
        self._read = read
        self._config = config or SenderConfig()
        self._config.check()
        self._sender = os.urandom(SENDER_BYTES)
        self._feeds: dict[str, Feed] = {}
        self._ledger: Ledger | None = None

    def init_sender(self, receivers: Mapping[str, Connect], version: int | None = None) -> None:
        """Greet the servers and bring them to the trainer's weights, which are this version from now on.

        receivers: how each is reached, by a name for statuses. version: None is the one above all that the
        servers that answer have ever served. A server that has these weights is sent its new version alone;
        every other is sent all of them. Does not wait for that. A server that does not answer is tried again
        at each sync; one that has served a version above the trainer's refuses with Reason.ORDER until a sync
        gives a higher one. Raises WeightsError when none answers, or the tensors are not theirs.
        """
        feeds = {name: self._make_feed(name, connect) for name, connect in receivers.items()}
        try:
            welcomes = _greet(list(feeds.values()))
            begin = max(welcome.highest for welcome in welcomes) + 1 if version is None else version
            self._ledger = Ledger(welcomes[0].table, self._read(), begin, self._config)
        except WeightsError:
            for feed in feeds.values():
                feed.close(0.0)
            raise
        for feed in feeds.values():
            self._start(feed, self._ledger)

    def add_receiver(self, name: str, connect: Connect) -> None:
        """Bring one more server up to date from now on, as `init_sender` does.

        Raises WeightsError for a name that is taken.
        """
        if name in self._feeds:
            raise WeightsError(Reason.ORDER, f"receivers: {name!r} is there already, expected another name")
        self._start(self._make_feed(name, connect), self._require_ledger())

    def sync(self, version: int) -> Built:
        """Send the tensors as they are now, as a version above the last; return what was made of them.

        Does not wait for any server: the trainer may change its tensors when this returns. A server that is
        still busy with versions before gets this one after them, or all weights at once where that is less.
        Raises WeightsError for a version or tensors that cannot be sent.
        """
        built = self._require_ledger().advance(self._read(), version)
        for feed in self._feeds.values():
            feed.wake()
        return built

    def wait(self, timeout_s: float) -> Mapping[str, ReceiverStatus]:
        """Wait until each server has the newest weights or has failed; return what they have by then.

        One that is still busy at the end may serve them later: its reason is TRANSPORT.
        """
        end_s = time.monotonic() + timeout_s
        statuses = {}
        for name, feed in self._feeds.items():
            in_time = feed.wait(end_s)
            statuses[name] = feed.status if in_time else feed.late_status(timeout_s)
        return statuses

    @property
    def version(self) -> int:
        """The newest that was sent. Raises WeightsError before `init_sender`."""
        return self._require_ledger().newest.version

    @property
    def statuses(self) -> Mapping[str, ReceiverStatus]:
        """What each server has, and why it has not the newest weights."""
        return {name: feed.status for name, feed in self._feeds.items()}

    def close(self, timeout_s: float = 5.0) -> None:
        """Let the servers take another trainer. They keep the weights they have."""
        for feed in self._feeds.values():
            feed.close(timeout_s)
        self._feeds.clear()

    def _make_feed(self, name: str, connect: Connect) -> Feed:
        return Feed(name, self._sender, connect, self._config.answer_s)

    def _start(self, feed: Feed, ledger: Ledger) -> None:
        self._feeds[feed.name] = feed
        feed.start(ledger)
        feed.wake()

    def _require_ledger(self) -> Ledger:
        if self._ledger is None:
            raise WeightsError(Reason.ORDER, "sync: found no receivers, expected init_sender first")
        return self._ledger


def _greet(feeds: Sequence[Feed]) -> Sequence[Welcome]:
    """Return what the servers that answer serve, in order. Raises the first error when none does."""
    if not feeds:
        raise WeightsError(Reason.TRANSPORT, "receivers: found none, expected one")
    # At the same time: all that are away cost one timeout.
    with ThreadPoolExecutor(len(feeds), "weights greeting") as pool:
        asked = [pool.submit(feed.greet) for feed in feeds]
    problems = [greeting.exception() for greeting in asked]
    if problems[0] and all(problems):
        raise problems[0]
    return [greeting.result() for greeting, problem in zip(asked, problems, strict=True) if not problem]
