# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an environment_pool answers: requests become calls on its slots, outcomes become responses. No ROS."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from remote_inference.core.environment import EnvError
from remote_inference.core.leases import LeaseError
from remote_inference.environments.lease_desk import LeaseDesk, Touch
from remote_inference.environments.process_frames import spec_to_map
from remote_inference.environments.slot_pool import Grant, SlotPool
from remote_inference.srv import LeaseEnvironments, ReleaseLease, RenewLease, TouchSlot
from remote_inference.wire import bytes_field
from remote_inference.wire.frameworks.openpi import pack

Response = TypeVar("Response")
Result = TypeVar("Result")

HOLD_S = 0.5  # until a call that is not done yet is answered with "pending"


class _Held(Generic[Response]):
    """One call. Its answer is given once, by whoever comes first."""

    def __init__(self, give: Callable[[Response], None], pending: Response, until_s: float) -> None:
        self.until_s = until_s
        self._give, self._pending = give, pending
        self._lock = threading.Lock()
        self._is_given = False

    @property
    def is_given(self) -> bool:
        return self._is_given

    def give(self, response: Response) -> None:
        with self._lock:
            was_given, self._is_given = self._is_given, True
        if not was_given:
            self._give(response)

    def give_up(self) -> None:
        self.give(self._pending)


class HeldAnswers:
    """The calls that are not answered yet. `hold` and `answer_late` are for one thread."""

    def __init__(self, hold_s: float = HOLD_S, now_s: Callable[[], float] = time.monotonic) -> None:
        """Begin with no calls. hold_s: until one is answered "pending". now_s: a monotonic clock [s]."""
        self._hold_s = hold_s
        self._now_s = now_s
        self._held: list[_Held[Any]] = []

    def hold(
        self,
        outcome: Future[Result],
        make: Callable[[Future[Result]], Response],
        pending: Response,
        give: Callable[[Response], None],
    ) -> None:
        """Answer when the outcome is there, on its thread, or with `pending` by `answer_late`.

        make: returns the response to a future that is done. give: sends a response; from any thread.
        """
        held = _Held(give, pending, self._now_s() + self._hold_s)
        outcome.add_done_callback(partial(_answer, held, make))
        if not held.is_given:
            self._held.append(held)

    def answer_late(self) -> None:
        """Answer the calls that have waited long enough."""
        now_s = self._now_s()
        for held in self._held:
            if held.until_s <= now_s:
                held.give_up()
        self._held = [held for held in self._held if not held.is_given]


def _answer(
    held: _Held[Response], make: Callable[[Future[Result]], Response], outcome: Future[Result]
) -> None:
    if not held.is_given:  # else it was pending, and was asked for again
        held.give(make(outcome))


class PoolAnswers:
    """Answers requests for one pool. For one thread; `give`, which sends a response, is called on any."""

    def __init__(self, pool: SlotPool) -> None:
        self._desk = LeaseDesk(pool)
        self._held = HeldAnswers()

    def answer_late(self) -> None:
        """Answer those that have waited for a while; to be called several times a second."""
        self._held.answer_late()

    def lease(
        self, request: LeaseEnvironments.Request, give: Callable[[LeaseEnvironments.Response], None]
    ) -> None:
        whole = self._desk.lease(request.lease_id, request.holder, request.count)
        self._held.hold(whole, _describe_lease, LeaseEnvironments.Response(pending=True), give)

    def renew(self, request: RenewLease.Request, give: Callable[[RenewLease.Response], None]) -> None:
        try:
            self._desk.renew(request.lease_id)
        except LeaseError as error:
            give(RenewLease.Response(message=str(error)))
        else:
            give(RenewLease.Response(success=True))

    def release(self, request: ReleaseLease.Request, give: Callable[[ReleaseLease.Response], None]) -> None:
        over = self._desk.release(request.lease_id)
        released = ReleaseLease.Response(success=True, message="released")
        self._held.hold(over, lambda _: released, ReleaseLease.Response(pending=True), give)

    def touch(self, request: TouchSlot.Request, give: Callable[[TouchSlot.Response], None]) -> None:
        touch = Touch(
            request.touch,
            request.seed,
            request.task,
            tuple(request.wanted),
            np.frombuffer(request.actions, np.float64),
        )
        try:
            outcome = self._desk.touch(request.lease_id, request.slot, request.number, touch)
        except LeaseError as error:
            give(TouchSlot.Response(error="lease", message=str(error)))
            return
        describe = partial(_describe_touch, request.slot)
        self._held.hold(outcome, describe, TouchSlot.Response(pending=True), give)


def _describe_lease(whole: Future[Grant]) -> LeaseEnvironments.Response:
    """Return the response to a lease that is whole, or could not be had."""
    if (error := whole.exception()) is not None:
        return LeaseEnvironments.Response(message=str(error))
    grant = whole.result()
    return LeaseEnvironments.Response(
        success=True,
        slots=grant.slots,
        process_ids=[process_id or 0 for process_id in grant.process_ids],
        lease_s=grant.lease_s,
        spec=bytes_field(pack(spec_to_map(grant.spec))),
    )


def _describe_touch(slot: int, outcome: Future[bytes]) -> TouchSlot.Response:
    """Return the response to a touch that was carried out, or failed."""
    error = outcome.exception()
    if error is None:
        return TouchSlot.Response(result=bytes_field(outcome.result()))
    if isinstance(error, LeaseError):
        return TouchSlot.Response(error="lease", message=str(error))
    kind = "" if isinstance(error, EnvError) else f"slot {slot}: {type(error).__name__}: "
    return TouchSlot.Response(error="environment", message=f"{kind}{error}")
