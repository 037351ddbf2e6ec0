# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots, each with an environment of its own, that are leased together: all that were asked for, or none.

Each slot has a thread, on which all calls on its environment run in order. Between leases an
environment stays as it is: the next lease begins with a reset. One that was broken off is made anew.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from remote_inference.base.calls import Calls
from remote_inference.learn.environment import EnvError, Environment, EnvironmentSpec
from remote_inference.learn.leases import REMEMBERED, Lease, LeaseError, LeaseTable, SlotState

if TYPE_CHECKING:  # it loads rclpy, which the command line must not yet
    from remote_inference.learn.environments.process_environment import Touch

Result = TypeVar("Result")

LEASE_S = 10.0  # from one renewal to the latest next one
CLOSE_S = 30.0  # until a slot that does not close is given up
FIRST_SEED = 0  # of the reset by which a slot is connected


class SlotEnvironment(Environment, Protocol):
    """The environment of a slot, which another thread can end during a call."""

    @property
    def process_id(self) -> int | None: ...

    def start(self) -> None:
        """Make the environment unless it is there. Raises EnvError."""

    def abort(self) -> None:
        """End the call under way and refuse all later ones; from any thread, without waiting."""


@dataclass(frozen=True)
class Grant:
    """A whole lease. process_ids: of the slots' environments, in the order of the slots."""

    lease_id: str
    slots: tuple[int, ...]
    process_ids: tuple[int | None, ...]
    spec: EnvironmentSpec
    lease_s: float


class _Slot:
    def __init__(self, index: int) -> None:
        self.environment: SlotEnvironment | None = None
        self.is_touched = self.is_broken = False  # whether now; whether a call was aborted
        self.touches = Calls()
        self.touches.start(f"slot_{index}")


class SlotPool:
    """N slots and their leases. For any thread; futures are answered on the slots' threads."""

    def __init__(
        self,
        make: Callable[[], SlotEnvironment],
        slots: int,
        *,
        lease_s: float = LEASE_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """make: returns an environment that is not started. lease_s: after which an unrenewed lease ends."""
        self._make = make
        self._now_s = now_s
        self._lock = threading.Lock()
        self._table = LeaseTable(slots, lease_s, lambda: secrets.token_hex(16))
        self._slots = [_Slot(index) for index in range(slots)]
        self._whole: dict[str, Future[Grant]] = {}  # of leases that are being connected
        self._over: dict[str, Future[None]] = {}  # of all leases, until their slots are free
        self._is_closed = False

    @property
    def states(self) -> tuple[SlotState, ...]:
        with self._lock:
            return self._table.states

    def describe_load(self) -> str:
        """Return how many slots are free, and who has the others."""
        with self._lock:
            return self._table.describe_load()

    def lease(self, holder: str, count: int, lease_id: str = "") -> tuple[str, Future[Grant]]:
        """Begin a lease; return its id, and the lease once every slot is connected and reset.

        lease_id: a secret that the holder has drawn; empty: the pool draws one.
        The future raises the first error, when all slots are free again. Raises LeaseError beyond what is
        free.
        """
        self.expire()
        with self._lock:
            if self._is_closed:
                raise LeaseError("lease: the pool is closed")
            lease = self._table.reserve(holder, count, lease_id)
            whole: Future[Grant] = Future()
            over: Future[None] = Future()
            for future in (whole, over):
                future.set_running_or_notify_cancel()  # who waits no longer cannot cancel it
            self._whole[lease.lease_id] = whole
            self._over[lease.lease_id] = over
        for slot in lease.slots:
            self._slots[slot].touches.submit(partial(self._connect, lease, slot))
        return lease.lease_id, whole

    def call(self, lease_id: str, slot: int, touch: Callable[[Environment], Result]) -> Future[Result]:
        """Run a call on a slot's environment after its earlier ones.

        The future raises what the touch raises. Raises LeaseError, now or later, when the lease has ended.
        """
        with self._lock:
            self._table.require(lease_id, slot)
            return self._slots[slot].touches.submit(partial(self._touch, lease_id, slot, touch))

    def renew(self, lease_id: str) -> None:
        """Extend a lease from now. Raises LeaseError when it has ended."""
        with self._lock:
            self._table.renew(lease_id, self._now_s())

    def release(self, lease_id: str) -> Future[None]:
        """End a lease, whole or not, and what runs in its slots; answered when they are free."""
        with self._lock:
            over = self._over.get(lease_id)
        if over is None:  # it has ended before
            over = Future()
            over.set_result(None)
        self._drop(lease_id, "")
        return over

    def expire(self) -> list[str]:
        """End the leases that were not renewed in time; return why, one line each."""
        with self._lock:
            late = self._table.expire(self._now_s())
        for lease in late:
            self._break_off(lease)
        return [lease.error for lease in late]

    def close(self) -> None:
        """End all leases and environments; safe to call again. Raises EnvError when one cannot be closed."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            held = dict(self._over)
        if was_closed:
            return
        for lease_id in held:
            self._drop(lease_id, "the pool was closed")
        closed = [slot.touches.submit(partial(self._discard, slot)) for slot in self._slots]
        done, late = wait([*held.values(), *closed], CLOSE_S)
        for slot in self._slots:
            slot.touches.close()
        if late:
            raise EnvError(f"pool: found slots that did not close within {CLOSE_S:g} s")
        for future in done:
            future.result()

    # -- on the slots' threads -----------------------------------------------------------------------------

    def _connect(self, lease: Lease, index: int) -> None:
        try:
            with self._touched(lease.lease_id, index) as environment:
                environment.start()
                environment.reset(FIRST_SEED, environment.spec.tasks[0], ())
            with self._lock:
                if not self._table.note_connected(lease.lease_id, index, self._now_s()):
                    return
                whole = self._whole.pop(lease.lease_id)
                environments = [self._slots[slot].environment for slot in lease.slots]
            process_ids = tuple(each.process_id for each in environments if each is not None)
            spec, lease_s = environment.spec, self._table.lease_s
            whole.set_result(Grant(lease.lease_id, lease.slots, process_ids, spec, lease_s))
        except LeaseError:
            pass  # it was dropped meanwhile, and its slots are being freed
        except Exception as error:  # a simulator may raise anything
            self._slots[index].is_broken = True
            kind = "" if isinstance(error, EnvError) else f"{type(error).__name__}: "
            self._drop(lease.lease_id, f"slot {index}: {kind}{error}")

    def _touch(self, lease_id: str, index: int, touch: Callable[[Environment], Result]) -> Result:
        with self._touched(lease_id, index) as environment:
            return touch(environment)

    @contextmanager
    def _touched(self, lease_id: str, index: int) -> Iterator[SlotEnvironment]:
        """Yield the slot's environment for a call that the end of the lease aborts."""
        slot = self._slots[index]
        with self._lock:
            self._table.require(lease_id, index)
            environment = slot.environment = slot.environment or self._make()
            slot.is_touched = True
        try:
            yield environment
        finally:
            with self._lock:
                slot.is_touched = False

    def _free(self, lease: Lease, index: int) -> None:
        slot = self._slots[index]
        if slot.is_broken:
            with suppress(Exception):  # the error that broke it off was reported
                self._discard(slot)
        with self._lock:
            if not self._table.note_freed(lease.lease_id, index):
                return
            over = self._over.pop(lease.lease_id)
            whole = self._whole.pop(lease.lease_id, None)
        if whole is not None:
            whole.set_exception(LeaseError(lease.error or "lease: it was released before it was whole"))
        over.set_result(None)

    @staticmethod
    def _discard(slot: _Slot) -> None:
        environment, slot.environment, slot.is_broken = slot.environment, None, False
        if environment is not None:
            environment.close()

    # -- the end of a lease --------------------------------------------------------------------------------

    def _drop(self, lease_id: str, error: str) -> None:
        with self._lock:
            lease = self._table.drop(lease_id, error)
        if lease is not None:
            self._break_off(lease)

    def _break_off(self, lease: Lease) -> None:
        """End what runs in the slots of a dropped lease; free each on its thread."""
        for index in lease.slots:
            slot = self._slots[index]
            with self._lock:
                if slot.is_touched and slot.environment is not None:
                    slot.is_broken = True
                    slot.environment.abort()
            slot.touches.submit(partial(self._free, lease, index))


# -- Requests that come over a network: repeated, late, or in another order ------------------------------
#
# The holder chooses the ids, so that a request whose answer was lost can be repeated: it is carried out once,
# and its repetitions get the same answer.

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
            if lease_id not in self._leases:
                self._remember(lease_id, self._begin(lease_id, holder, count))
            return self._leases[lease_id]

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
