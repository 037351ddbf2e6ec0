# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The sending end for one server, in a thread of its own: a slow server keeps nobody else waiting."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from remote_inference.weights.frames import Frame, Kind, pack_frame, pack_part, read_frame
from remote_inference.weights.header import Welcome, pack_header, read_applied, read_refused, read_welcome
from remote_inference.weights.ledger import Ledger, Update
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.tensors import Table, find_difference
from remote_inference.weights.transports.transport import Link, LinkClosedError

_LOG = logging.getLogger(__name__)
_WAKE_S = 1.0  # a wake-up can be lost: no thread waits without an end


@dataclass(frozen=True)
class ReceiverStatus:
    """What a server has. version: it serves, -1 when it never said. reason: why it has not the newest.

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
    """Brings one server up to date whenever there is something new. `ledger` is set before it is started.

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
        self._changed = threading.Condition()
        self._wanted = self._reached = 0  # syncs: announced, and dealt with
        self._ends = False
        self._thread = threading.Thread(target=self._run, name=f"weights {name}", daemon=True)
        self._ledger: Ledger | None = None

    def greet(self) -> Welcome:
        """Return what the server serves. Raises WeightsError when it refuses or cannot be reached."""
        try:
            self._link = self._link or self._make_link()
            self._link.send(pack_frame(Kind.HELLO, self._sender), self._answer_s)
            welcome = read_welcome(self._await(Kind.WELCOME, 0))
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
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something new."""
        with self._changed:
            self._wanted += 1
            self._changed.notify_all()

    def wait(self, end_s: float) -> bool:
        """Wait until what was new has been dealt with, at most until an instant. Return whether it has."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._reached == self._wanted, max(end_s - time.monotonic(), 0.0)
            )

    def late_status(self, waited_s: float) -> ReceiverStatus:
        """Return the status for who has waited in vain: until then it may be that of the sync before."""
        text = f"not served within {waited_s:g} s"
        return replace(self.status, is_current=False, reason=Reason.TRANSPORT, text=text)

    def close(self, timeout_s: float) -> None:
        """Let the server take another trainer, and end."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        self._drop_link()

    def _run(self) -> None:
        while not self._ends:
            with self._changed:
                self._changed.wait_for(lambda: self._ends or self._reached != self._wanted, _WAKE_S)
                wanted = self._wanted
            if not self._ends and wanted != self._reached:
                self._catch_up()
                with self._changed:
                    self._reached = wanted
                    self._changed.notify_all()
        self._say_goodbye()

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
        except Exception as error:  # foreseen by nobody: the thread goes on, and the status says why
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
        link.send(pack_header(self._sender, header), self._answer_s)
        for index, part in enumerate(update.parts()):
            self._look_for_refusal(header.version)
            link.send(pack_part(self._sender, header.version, index, part), self._answer_s)
            size += len(part)
        applied = read_applied(self._await(Kind.APPLIED, header.version))
        if (applied.version, applied.digest) != (header.version, header.digest):
            raise WeightsError(Reason.DIGEST, f"{self.name}: serves {applied.version} now, or other weights")
        self._position = applied.version, applied.digest
        done = self.status
        self.status = replace(
            done,
            version=applied.version,
            updates=done.updates + 1,
            full_updates=done.full_updates + (header.base_digest is None),
            size=done.size + size,
            apply_s=applied.seconds,
        )

    def _look_for_refusal(self, version: int) -> None:
        """Raise what the server has refused already: the rest need not be sent."""
        try:
            self._judge(read_frame(self._require_link().receive(0.0)), version)
        except TimeoutError:
            return

    def _await(self, kind: Kind, version: int) -> Frame:
        """Return the server's answer of a kind. Raises WeightsError for a refusal, TimeoutError."""
        end_s = time.monotonic() + self._answer_s
        while True:
            frame = read_frame(self._require_link().receive(max(end_s - time.monotonic(), 0.0)))
            self._judge(frame, version)
            if frame.sender == self._sender and frame.kind is kind:
                return frame

    def _judge(self, frame: Frame, version: int) -> None:
        """Raise what the frame refuses, unless it is for another trainer or update."""
        if frame.sender == self._sender and frame.kind is Kind.REFUSED:
            refused = read_refused(frame)
            if refused.version in {0, version}:
                raise _RefusedError(refused.reason, f"{self.name}: {refused.text}")

    @property
    def _silence(self) -> str:
        return f"{self.name}: no answer in {self._answer_s:g} s"

    def _make_link(self) -> Link:
        try:
            return self._connect()
        except TimeoutError as error:  # it has waited for a time of its own, and names it
            raise LinkClosedError(f"{self.name}: {str(error) or 'no link in time'}") from error

    def _require_link(self) -> Link:
        if self._link is None:
            raise LinkClosedError(f"{self.name}: there is no link")
        return self._link

    def _say_goodbye(self) -> None:
        try:
            self._require_link().send(pack_frame(Kind.RELEASE, self._sender), self._answer_s)
        except (WeightsError, TimeoutError):
            return  # a server that has gone needs no goodbye

    def _drop_link(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


class _RefusedError(WeightsError):
    """The server has said no."""
