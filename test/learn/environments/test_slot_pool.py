# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots are leased together or not at all; whatever fails while they connect, none is lost."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError, EnvironmentObservation
from remote_inference.learn.environments.process_environment import ProcessEnvironment
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.environments.slot_pool import Grant, SlotPool
from remote_inference.learn.leases import LeaseError, SlotState
from support.environments.drawer import STATE
from support.environments.fragile_drawer import Fragile, Injector
from support.importable import python_path
from support.waiting import wait_until

WAIT_S = 60.0


@contextmanager
def open_pool(*arguments: object, **options: object) -> Iterator[SlotPool]:
    pool = SlotPool(*arguments, **options)  # type: ignore[arg-type]
    try:
        yield pool
    finally:
        pool.close()


def lease(pool: SlotPool, count: int, holder: str = "trainer") -> Grant:
    return pool.lease(holder, count)[1].result(WAIT_S)


def release(pool: SlotPool, grant: Grant) -> None:
    pool.release(grant.lease_id).result(WAIT_S)


def reset(pool: SlotPool, grant: Grant, slot: int, seed: int) -> EnvironmentObservation:
    return pool.call(grant.lease_id, slot, lambda one: one.reset(seed, "open", [STATE])).result(WAIT_S)


def is_running(process_id: int | None) -> bool:
    try:
        os.kill(process_id or -1, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_thousand_failures_while_connecting_leak_no_slot_and_the_next_group_works() -> None:
    """The kinds of failure, their places and how many come at once are drawn at random."""
    slots, injector, rng = 4, Injector(), random.Random(7)
    kinds = (EnvError, RuntimeError, OSError, MemoryError)
    injected = 0
    with open_pool(lambda: Fragile(injector), slots) as pool:
        while injected < 1000:
            count = rng.randint(1, slots)
            places = {
                (rng.choice(["make", "start", "reset"]), rng.randint(1, count))
                for _ in range(rng.randint(1, 3))
            }
            errors = {place: rng.choice(kinds)(f"injected {place}") for place in places}
            if rng.random() < 0.3:
                errors["close", 1] = RuntimeError("closing fails, too")
            injector.arm(errors)
            _, whole = pool.lease("trainer", count)
            error = whole.exception(WAIT_S)
            if not injector.raised:  # a slot kept its environment, so that a `make` was not reached
                assert error is None
                release(pool, whole.result())
                continue
            injected += len(injector.raised)
            assert isinstance(error, LeaseError)
            assert any(str(one) in str(error) for one in injector.raised)
            assert set(pool.states) == {SlotState.FREE}
            injector.arm({})
            whole_group = lease(pool, slots)
            assert reset(pool, whole_group, slots - 1, 3).values[STATE][0] == pytest.approx(0.03)
            release(pool, whole_group)
        assert injector.open == slots
    assert injector.open == 0
    assert injected >= 1000


def test_the_first_of_several_errors_is_told_when_the_last_slot_is_free() -> None:
    failed = threading.Event()

    class Ordered(Fragile):
        def abort(self) -> None:
            failed.set()

    injector = Injector()
    made: list[Ordered] = []

    def make() -> Ordered:
        made.append(Ordered(injector))
        made[-1].start = partial(fail, len(made))  # type: ignore[method-assign]
        return made[-1]

    def fail(number: int) -> None:
        if number == 2:
            assert failed.wait(WAIT_S)
        raise EnvError(f"failure {number}")

    with open_pool(make, 2) as pool:
        error = pool.lease("trainer", 2)[1].exception(WAIT_S)
        assert "failure 1" in str(error)
        assert set(pool.states) == {SlotState.FREE}


def test_a_group_that_exceeds_what_is_free_is_refused_with_the_load() -> None:
    with open_pool(lambda: Fragile(Injector()), 3) as pool:
        grant = lease(pool, 2)
        with pytest.raises(LeaseError, match="found 2 slots asked for; 1 of 3 are free, 2 held by trainer"):
            pool.lease("other", 2)
        release(pool, grant)
        lease(pool, 3, "other")


def test_a_holder_that_vanishes_frees_its_slots_and_can_touch_them_no_more() -> None:
    now_s = [0.0]
    with open_pool(lambda: Fragile(Injector()), 2, lease_s=5.0, now_s=lambda: now_s[0]) as pool:
        lost = lease(pool, 2, "vanished")
        now_s[0] = 4.0
        pool.renew(lost.lease_id)
        now_s[0] = 8.9
        assert pool.expire() == []
        now_s[0] = 9.0
        assert pool.expire() == ["vanished has not renewed it for 5 s"]
        with pytest.raises(LeaseError, match="vanished has not renewed it"):
            reset(pool, lost, 0, 1)
        with pytest.raises(LeaseError, match="vanished has not renewed it"):
            pool.renew(lost.lease_id)
        wait_until(lambda: set(pool.states) == {SlotState.FREE}, "the slots are free")
        now_s[0] = 30.0
        lease(pool, 2)
        now_s[0] = 60.0
        with pytest.raises(LeaseError, match="0 of 2 are free, 2 being freed"):
            pool.lease("next", 2)
        wait_until(lambda: set(pool.states) == {SlotState.FREE}, "asking has freed what nobody renews")


def test_a_lease_released_twice_or_before_it_is_whole_is_over() -> None:
    gate = threading.Event()

    class Slow(Fragile):
        def start(self) -> None:
            gate.wait(WAIT_S)
            super().start()

        def abort(self) -> None:
            gate.set()

    with open_pool(lambda: Slow(Injector()), 2) as pool:
        lease_id, whole = pool.lease("impatient", 2)
        wait_until(lambda: all(slot.is_touched for slot in pool._slots), "both are starting")
        pool.release(lease_id).result(WAIT_S)
        with pytest.raises(LeaseError, match="it was released before it was whole"):
            whole.result(WAIT_S)
        grant = lease(pool, 2)
        release(pool, grant)
        release(pool, grant)
        assert set(pool.states) == {SlotState.FREE}


def test_nobody_touches_a_slot_of_another_lease() -> None:
    with open_pool(lambda: Fragile(Injector()), 2) as pool:
        mine, other = lease(pool, 1), lease(pool, 1, "other")
        with pytest.raises(LeaseError, match="found slot 1, expected one of its own: 0"):
            reset(pool, mine, other.slots[0], 1)


def test_an_environment_is_kept_between_leases_and_made_anew_after_a_failure() -> None:
    injector = Injector()
    with open_pool(lambda: Fragile(injector), 2) as pool:
        release(pool, lease(pool, 2))
        release(pool, lease(pool, 2))
        assert injector.made == 2
        injector.arm({("reset", 1): EnvError("no roof")})
        with pytest.raises(LeaseError, match="no roof"):
            lease(pool, 1)
        lease(pool, 2)
        assert injector.made == 3


def test_a_closed_pool_ends_its_leases_and_refuses_others() -> None:
    injector = Injector()
    pool = SlotPool(lambda: Fragile(injector), 2)
    grant = lease(pool, 2)
    pool.close()
    pool.close()
    assert injector.open == 0
    with pytest.raises(LeaseError, match="the pool was closed"):
        pool.call(grant.lease_id, 0, lambda one: one.metrics())
    with pytest.raises(LeaseError, match="the pool is closed"):
        pool.lease("late", 1)


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())


def make_process(**options: float) -> ProcessEnvironment:
    return ProcessEnvironment(
        "support.environments.drawer:Drawer", options, Timeouts(60.0, 60.0, 600.0, 60.0)
    )


@pytest.mark.usefixtures("_importable")
def test_each_slot_is_a_process_of_its_own_and_a_touch_that_hangs_ends_with_its_lease() -> None:
    with open_pool(lambda: make_process(step_s=600.0), 2) as pool:
        grant = lease(pool, 2)
        one, other = grant.process_ids
        assert len({one, other, os.getpid()}) == 3
        reset(pool, grant, 0, 1)
        hung = pool.call(grant.lease_id, 0, lambda drawer: drawer.step(np.zeros(2)))
        wait_until(lambda: pool._slots[0].is_touched, "the step runs")
        release(pool, grant)
        with pytest.raises(EnvError, match="its process has ended"):
            hung.result(WAIT_S)
        assert not is_running(one)
        again = lease(pool, 2)
        assert again.process_ids[0] != one
        assert again.process_ids[1] == other, "what was idle is kept"
    assert not is_running(again.process_ids[0])
    assert not is_running(other)


@pytest.mark.usefixtures("_importable")
def test_an_environment_that_hangs_while_it_starts_does_not_keep_the_others() -> None:
    made: list[ProcessEnvironment] = []

    def make() -> ProcessEnvironment:
        name = "support.environments.drawer:Drawer" if made else "support.environments.hung_start:Hung"
        made.append(ProcessEnvironment(name, {}, Timeouts()))
        return made[-1]

    with open_pool(make, 2) as pool:
        lease_id, whole = pool.lease("trainer", 2)
        wait_until(lambda: any(one.process_id for one in made), "its process has started")
        pool.release(lease_id).result(WAIT_S)
        assert isinstance(whole.exception(WAIT_S), LeaseError)
        assert set(pool.states) == {SlotState.FREE}
