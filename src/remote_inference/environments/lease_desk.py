# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Answers the calls on a pool of slots that come over a network: repeated, late, or in another order.

Who calls chooses the ids, so that a call whose answer was lost can be repeated: it is carried out once, and
its repetitions get the same answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from remote_inference.core.environment import EnvError, Environment
from remote_inference.core.leases import REMEMBERED, LeaseError
from remote_inference.environments.policy_view import Actions
from remote_inference.environments.process_frames import (
    MAX_FRAME_BYTES,
    metrics_to_map,
    observation_to_map,
    step_to_map,
)
from remote_inference.environments.slot_pool import Grant, SlotPool
from remote_inference.environments.stepped_episode import step_rows
from remote_inference.wire.frameworks.openpi import pack

SHORTEST_ID = 32  # characters of a lease's id, which is all that keeps others from its slots


@dataclass(frozen=True)
class Touch:
    """What is done with a slot's environment. kind: one of KINDS, which says which fields it takes.

    actions: rows of the environment's `[A]`, one after another.
    """

    kind: str
    seed: int = 0
    task: str = ""
    wanted: Sequence[str] = ()
    actions: Actions = field(default_factory=lambda: np.empty(0))

    def carry_out(self, environment: Environment) -> bytes:
        """Do it; return the frame of what the environment shows. Raises EnvError."""
        if self.kind not in KINDS:
            raise EnvError(f"touch: found {self.kind!r}, expected one of {', '.join(KINDS)}")
        frame = pack(KINDS[self.kind](environment, self))
        if len(frame) > MAX_FRAME_BYTES:
            raise EnvError(
                f"{environment.spec.name}: {self.kind}: found an answer of {len(frame)} bytes, expected "
                f"{MAX_FRAME_BYTES} at most: execute fewer rows at a time"
            )
        return frame


def _reset(environment: Environment, touch: Touch) -> dict[str, Any]:
    return observation_to_map(environment.reset(touch.seed, touch.task, touch.wanted))


def _execute(environment: Environment, touch: Touch) -> dict[str, Any]:
    columns = len(environment.spec.actions.names)
    if touch.actions.size % columns:
        found = touch.actions.size
        raise EnvError(f"{environment.spec.name}: found {found} actions, expected rows of {columns}")
    rows = touch.actions.reshape(-1, columns)
    return {"steps": [step_to_map(step) for step in step_rows(environment, rows)]}


def _metrics(environment: Environment, _: Touch) -> dict[str, Any]:
    return metrics_to_map(environment.metrics())


def _render(environment: Environment, _: Touch) -> dict[str, Any]:
    return {"picture": environment.render()}


KINDS: Mapping[str, Callable[[Environment, Touch], dict[str, Any]]] = {
    "reset": _reset,
    "execute": _execute,
    "metrics": _metrics,
    "render": _render,
}


@dataclass(frozen=True)
class _Touched:
    lease_id: str
    number: int
    answer: Future[bytes]


class LeaseDesk:
    """The calls of all holders on one SlotPool. For any thread; futures end on the slots' threads."""

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

    def renew(self, lease_id: str) -> None:
        """Let a lease last on. Raises LeaseError when it has ended."""
        self._pool.renew(lease_id)

    def release(self, lease_id: str) -> Future[None]:
        """End a lease, also one whose request has not arrived yet; answered when its slots are free."""
        with self._lock:
            if lease_id not in self._leases:
                self._remember(
                    lease_id, _failed(LeaseError("lease: it was released before it was asked for"))
                )
        return self._pool.release(lease_id)

    def touch(self, lease_id: str, slot: int, number: int, touch: Touch) -> Future[bytes]:
        """Touch a slot's environment after its earlier touches, or return the answer of this number.

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
            answer = self._pool.call(lease_id, slot, touch.carry_out)
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
