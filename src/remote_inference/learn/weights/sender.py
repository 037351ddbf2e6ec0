# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The sending end: a trainer hands over its tensors after each step and goes on training."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace

from remote_inference.base.calls import Calls
from remote_inference.learn.weights import frames
from remote_inference.learn.weights.frames import SENDER_BYTES, Frame, Kind, Link, LinkClosedError, Welcome
from remote_inference.learn.weights.ledger import Built, Ledger, SenderConfig, Update
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.tensors import Table, Tensors, find_difference

# -- The sending end for one server, in a thread of its own: a slow server keeps nobody else waiting -----

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReceiverStatus:
    """What a server has. version: it serves, -1 when it is unknown. reason: why it has not the newest.

    updates, full_updates: applied; the latter held all weights. size: bytes of payload sent. apply_s: that
    the server's last exchange took [s].
    """

    version: int = -1
    is_current: bool = False
    reason: Reason | None = None
    text: str = ""
    updates: int = 0
    full_updates: int = 0
    size: int = 0
    apply_s: float = 0.0


class Feed:
    """Sends each new version to one server, from a thread of its own, once `start` has given the ledger.

    connect: makes a link to the server, once now and again after an error; raises LinkClosedError and
    TimeoutError.
    """

    def __init__(self, name: str, sender: bytes, connect: Callable[[], Link], answer_s: float) -> None:
        self.name = name
        self.status = ReceiverStatus()
        self._sender, self._connect, self._answer_s = sender, connect, answer_s
        self._link: Link | None = None
        self._position: tuple[int, int] | None = None  # version and digest that the server has
        self._table: Table = ()  # of the server that has greeted
        self._wants_all = False
        self._calls = Calls()
        self._newest: Future[None] = Future()  # the call for the version that was announced last
        self._ends = False
        self._ledger: Ledger | None = None

    def greet(self) -> Welcome:
        """Return what the server serves. Raises WeightsError when it refuses or cannot be reached."""
        try:
            self._link = self._link or self._make_link()
            self._link.send(frames.pack_frame(Kind.HELLO, self._sender), self._answer_s)
            welcome = frames.read_welcome(self._await(Kind.WELCOME, 0))
        except TimeoutError as error:
            self._drop_link()
            raise WeightsError(Reason.TRANSPORT, self._silence) from error
        except LinkClosedError:
            self._drop_link()
            raise
        self._position, self._table = (welcome.version, welcome.digest), welcome.table
        self.status = replace(self.status, version=welcome.version)
        return welcome

    def start(self, ledger: Ledger) -> None:
        """Begin to bring the server up to date."""
        self._ledger = ledger
        self._calls.start(f"weights {self.name}")
        self.wake()

    def wake(self) -> None:
        """Announce a new version."""
        self._newest.cancel()  # unless it has begun: the next call sends what it would have sent
        self._newest = self._calls.submit(self._catch_up)

    def wait(self, end_s: float) -> bool:
        """Wait until every version announced so far is sent or has failed; return whether it is in time."""
        return not wait([self._newest], max(end_s - time.monotonic(), 0.0)).not_done

    def close(self, timeout_s: float) -> None:
        """Release the server for another trainer, and end the thread."""
        self._ends = True
        self._newest.cancel()
        if self._ledger is not None:
            wait([self._calls.submit(self._release_server)], timeout_s)
        self._drop_link()
        self._calls.close()

    def _catch_up(self) -> None:
        """Send what the server lacks. An error becomes the status; the next sync begins with a greeting."""
        try:
            self._send_what_lacks()
        except WeightsError as error:
            self._fail(error.reason, str(error), is_refusal=isinstance(error, _RefusedError))
        except TimeoutError:
            self._fail(Reason.TRANSPORT, self._silence)
        except MemoryError:
            self._fail(Reason.MEMORY, f"{self.name}: found no memory to send the update")
        except Exception as error:  # unexpected: the thread goes on, and the status has the reason
            _LOG.exception("weights: failed to bring %s up to date", self.name)
            self._fail(Reason.FAILED, f"{self.name}: the trainer failed: {type(error).__name__}: {error}")

    def _fail(self, reason: Reason, text: str, *, is_refusal: bool = False) -> None:
        self.status = replace(self.status, is_current=False, reason=reason, text=text)
        self._position, self._wants_all = None, is_refusal
        if not is_refusal:
            self._drop_link()

    def _send_what_lacks(self) -> None:
        ledger = self._ledger
        assert ledger is not None  # start
        self.status = replace(self.status, is_current=False)
        if self._position is None:
            self.greet()
        if difference := find_difference(self._table, ledger.table):
            raise WeightsError(Reason.ARCHITECTURE, f"{self.name}: {difference}")
        while not self._ends:
            assert self._position is not None
            update = ledger.find_update(*self._position, self._wants_all)
            if update is None:
                self.status = replace(self.status, is_current=True, reason=None, text="")
                return
            self._send(update)
            self._wants_all = False

    def _send(self, update: Update) -> None:
        link, header, size = self._require_link(), update.header, 0
        link.send(frames.pack_message(self._sender, header), self._answer_s)
        for index, part in enumerate(update.parts()):
            with suppress(TimeoutError):  # what is refused by now need not be sent to its end
                self._raise_refusal(frames.read_frame(link.receive(0.0)), header.version)
            link.send(frames.pack_part(self._sender, header.version, index, part), self._answer_s)
            size += len(part)
        applied = frames.read_applied(self._await(Kind.APPLIED, header.version))
        if (applied.version, applied.digest) != (header.version, header.digest):
            raise WeightsError(Reason.DIGEST, f"{self.name}: serves {applied.version} now, or other weights")
        self._position = applied.version, applied.digest
        self.status = replace(
            self.status,
            version=applied.version,
            updates=self.status.updates + 1,
            full_updates=self.status.full_updates + (header.base is None),
            size=self.status.size + size,
            apply_s=applied.seconds,
        )

    def _await(self, kind: Kind, version: int) -> Frame:
        """Return the server's answer of a kind. Raises WeightsError for a refusal, TimeoutError."""
        end_s = time.monotonic() + self._answer_s
        while True:
            frame = frames.read_frame(self._require_link().receive(max(end_s - time.monotonic(), 0.0)))
            self._raise_refusal(frame, version)
            if frame.sender == self._sender and frame.kind is kind:
                return frame

    def _raise_refusal(self, frame: Frame, version: int) -> None:
        if frame.sender == self._sender and frame.kind is Kind.REFUSED:
            refused = frames.read_refused(frame)
            if refused.version in {0, version}:
                raise _RefusedError(refused.reason, f"{self.name}: {refused.text}")

    @property
    def _silence(self) -> str:
        return f"{self.name}: no answer in {self._answer_s:g} s"

    def _release_server(self) -> None:
        with suppress(WeightsError, TimeoutError):  # the server has gone
            self._require_link().send(frames.pack_frame(Kind.RELEASE, self._sender), self._answer_s)

    def _make_link(self) -> Link:
        try:
            return self._connect()
        except TimeoutError as error:  # it has waited for a time of its own, and names it
            raise LinkClosedError(f"{self.name}: {str(error) or 'no link in time'}") from error

    def _require_link(self) -> Link:
        if self._link is None:
            raise LinkClosedError(f"{self.name}: there is no link")
        return self._link

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class _RefusedError(WeightsError):
    """The server refused an update."""


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
        answer_s = self._config.answer_s
        feeds = {name: Feed(name, self._sender, receivers[name], answer_s) for name in receivers}
        try:
            welcomes = _greet(list(feeds.values()))
            begin = max(welcome.highest for welcome in welcomes) + 1 if version is None else version
            self._ledger = Ledger(welcomes[0].table, self._read(), begin, self._config)
        except WeightsError:
            for feed in feeds.values():
                feed.close(0.0)
            raise
        self._feeds |= feeds
        for feed in feeds.values():
            feed.start(self._ledger)

    def add_receiver(self, name: str, connect: Connect) -> None:
        """Bring one more server up to date from now on. Raises WeightsError for a name that is taken."""
        if name in self._feeds:
            raise WeightsError(Reason.ORDER, f"receivers: {name!r} is there already, expected another name")
        ledger = self._require_ledger()
        self._feeds[name] = Feed(name, self._sender, connect, self._config.answer_s)
        self._feeds[name].start(ledger)

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
        end_s, text = time.monotonic() + timeout_s, f"not served within {timeout_s:g} s"
        statuses = {}
        for name, feed in self._feeds.items():
            in_time, status = feed.wait(end_s), feed.status
            if not in_time:  # it may still be the status of the sync before
                status = replace(status, is_current=False, reason=Reason.TRANSPORT, text=text)
            statuses[name] = status
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
        """Release the servers for another trainer. They keep their weights."""
        for feed in self._feeds.values():
            feed.close(timeout_s)
        self._feeds.clear()

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
