# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers requests to a pool of slots that come over a network: repeated, late, or in another order.

The holder chooses the ids, so that a request whose answer was lost can be repeated: it is carried out once,
and its repetitions get the same answer.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass

from remote_inference.learn.environments.slot_pool import Grant, SlotPool
from remote_inference.learn.environments.slot_touch import Touch
from remote_inference.learn.leases import REMEMBERED, LeaseError

SHORTEST_ID = 32  # characters of a lease's id, which is all that keeps others from its slots


@dataclass(frozen=True)
class _Touched:
    lease_id: str
    number: int
    answer: Future[bytes]


class LeaseDesk:
    """The requests of all holders to one SlotPool. For any thread; futures end on the slots' threads."""

    def __init__(self, pool: SlotPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._leases: dict[str, Future[Grant]] = {}  # the last ones asked for, refused ones among them
        self._touched: dict[int, _Touched] = {}  # the last touch of each slot

    def lease(self, lease_id: str, holder: str, count: int) -> Future[Grant]:
        """Begin a lease, or return the one of this id. The future raises all errors of `SlotPool.lease`."""
        with self._lock:
            whole = self._leases.get(lease_id)
            if whole is None:
                whole = self._begin(lease_id, holder, count)
                self._remember(lease_id, whole)
            return whole

    def release(self, lease_id: str) -> Future[None]:
        """End a lease, also one whose request has not arrived yet; answered when its slots are free."""
        with self._lock:
            if lease_id not in self._leases:
                self._remember(
                    lease_id, _failed(LeaseError("lease: it was released before it was asked for"))
                )
        return self._pool.release(lease_id)

    def touch(self, lease_id: str, slot: int, number: int, touch: Touch) -> Future[bytes]:
        """Run a touch on a slot's environment after its earlier ones, or return the answer of this number.

        number: counts a lease's touches of one slot. The future raises EnvError for the environment. Raises
        LeaseError, now or later, when the lease has ended, and for a number before the last one.
        """
        with self._lock:
            last = self._touched.get(slot)
            if last is not None and last.lease_id == lease_id:
                if number == last.number:
                    return last.answer
                if number < last.number:
                    raise LeaseError(f"slot {slot}: found touch {number}, expected {last.number} or later")
            answer = self._pool.call(lease_id, slot, touch.run_packed)
            self._touched[slot] = _Touched(lease_id, number, answer)
            return answer

    def _begin(self, lease_id: str, holder: str, count: int) -> Future[Grant]:
        try:
            if len(lease_id) < SHORTEST_ID:
                raise LeaseError(
                    f"lease: found an id of {len(lease_id)} characters, expected {SHORTEST_ID} or more"
                )
            return self._pool.lease(holder, count, lease_id)[1]
        except LeaseError as error:
            return _failed(error)

    def _remember(self, lease_id: str, whole: Future[Grant]) -> None:
        self._leases[lease_id] = whole
        if len(self._leases) > REMEMBERED:
            del self._leases[next(iter(self._leases))]


def _failed(error: LeaseError) -> Future[Grant]:
    whole: Future[Grant] = Future()
    whole.set_exception(error)
    return whole
