# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots of a pool elsewhere are leased, touched and freed as local ones, whatever the network loses."""

from __future__ import annotations

import asyncio
import math
import random
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import pytest
from lossy_pool import LossyPool

from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.slot_pool import SlotPool
from remote_inference.learn.leases import LeaseError, SlotState
from remote_inference.learn.rollouts import (
    BlockingRolloutPool,
    Group,
    LocalPolicy,
    RolloutPool,
    Transport,
    pool_client,
)
from remote_inference.learn.rollouts.pool_client import Patience, RosTransport
from remote_inference.srv import LeaseEnvironments, TouchSlot
from support.environments.drawer import STATE, PullPolicy
from support.environments.drawer_pool import Drawers
from support.environments.fragile_drawer import Fragile, Injector

WAIT_S = 60.0
PATIENT = Patience(repeat_s=0.05, silent_s=30.0)
HASTY = Patience(repeat_s=0.05, silent_s=2.0)
BAD = {"loss": 0.2, "delay_s": 0.01}
Result = TypeVar("Result")


def run(work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run(asyncio.wait_for(work, WAIT_S))


@contextmanager
def reached(
    pool: SlotPool, patience: Patience = PATIENT, **network: Any
) -> Iterator[tuple[LossyPool, RosTransport]]:
    services = LossyPool(pool, **network)
    try:
        yield services, RosTransport(lambda: services, patience)
    finally:
        services.close()
        pool.close()


def is_free(pool: SlotPool) -> bool:
    return set(pool.states) == {SlotState.FREE}


def play(transport: Transport, count: int = 3, **options: Any) -> Group:
    with BlockingRolloutPool(transport, count) as pool:
        return pool.run_group(LocalPolicy(PullPolicy()), seed=10, keep_observations=True, **options)


def test_a_group_over_a_bad_network_is_the_local_one_bit_for_bit() -> None:
    local = play(Drawers(3).transport)
    drawers = Drawers(3)
    with reached(drawers.pool, **BAD) as (services, transport):
        remote = play(transport)
        assert is_free(drawers.pool)
    assert [one.digest() for one in remote.trajectories] == [one.digest() for one in local.trajectories]
    assert [one.metrics for one in remote.trajectories] == [one.metrics for one in local.trajectories]
    assert remote.environment == local.environment
    assert services.warnings[0].startswith("/pool/")
    assert services.warnings[0].endswith("no answer, asked again"), "nothing is repeated in silence"


def test_rows_whose_steps_would_fill_a_large_answer_are_executed_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = play(Drawers(2).transport, 2)
    monkeypatch.setattr(pool_client, "ANSWER_BYTES", 500)  # two steps of the drawer
    with reached(Drawers(2).pool, Patience(repeat_s=WAIT_S, silent_s=WAIT_S)) as (services, transport):
        remote = play(transport, 2)
    assert [one.digest() for one in remote.trajectories] == [one.digest() for one in local.trajectories]
    parts = sum(math.ceil(chunk.steps / 2) for one in remote.trajectories for chunk in one.chunks)
    assert services.carried.count("touch_slot") == parts + 2 * len(remote), "with a reset and the metrics"


def test_an_asyncio_pool_plays_groups_and_renders() -> None:
    drawers = Drawers(2)

    async def work(transport: RosTransport) -> None:
        async with RolloutPool(transport, 2, holder="trainer") as pool:
            assert drawers.pool.describe_load() == "0 of 2 are free, 2 held by trainer"
            groups = [await pool.run_group(LocalPolicy(PullPolicy()), seed=10) for _ in range(2)]
            assert [len(group) for group in groups] == [2, 2]
            assert (await pool.slots.render(1)).shape == (4, 6, 3)
            assert pool.slots.process_ids == (None, None)

    with reached(drawers.pool) as (_, transport):
        run(work(transport))
        assert is_free(drawers.pool)


def test_a_hundred_failures_while_connecting_leak_no_slot_and_the_next_group_works() -> None:
    """Environments fail, messages are lost and callers give up, at random places and all at once."""
    slots, injector, rng = 3, Injector(), random.Random(11)
    pool = SlotPool(lambda: Fragile(injector), slots)
    counts = {"failed": 0, "cancelled": 0}
    told: list[tuple[str, list[str]]] = []  # errors, and those that had been injected

    async def fail(transport: RosTransport) -> None:
        count = rng.randint(1, slots)
        places = {(rng.choice(["make", "start", "reset"]), rng.randint(1, count)) for _ in range(2)}
        injector.arm({place: EnvError(f"injected {place}") for place in places})
        leasing = asyncio.ensure_future(transport.lease("trainer", count))
        if rng.random() < 0.25:
            await asyncio.sleep(0.02 * rng.random())
            leasing.cancel()
        try:
            leased = await leasing
        except LeaseError as error:
            told.append((str(error), [str(one) for one in injector.raised]))
            counts["failed"] += len(injector.raised)
        except asyncio.CancelledError:
            counts["cancelled"] += 1
        else:
            await leased.release()

    async def work(transport: RosTransport) -> None:
        while counts["failed"] < 100 or counts["cancelled"] < 10:
            await fail(transport)
            while transport._releases or not is_free(pool):  # what a cancelled caller had, if anything
                await asyncio.sleep(0.005)
            injector.arm({})
            whole = await transport.lease("trainer", slots)
            shown = await whole.reset(slots - 1, 3, "open", [STATE])
            assert shown.values[STATE][0] == pytest.approx(0.03)
            await whole.release()
            assert is_free(pool)
        await transport.close()

    with reached(pool, loss=0.05, delay_s=0.002) as (_, transport):
        asyncio.run(asyncio.wait_for(work(transport), 5 * WAIT_S))
    assert injector.open == 0
    assert [error for error, injected in told if not any(one in error for one in injected)] == []


def test_more_than_is_free_is_refused_with_the_load() -> None:
    drawers = Drawers(3)
    drawers.pool.lease("somebody", 2)[1].result(WAIT_S)
    with (
        reached(drawers.pool) as (services, transport),
        pytest.raises(LeaseError, match="found 2 slots asked for; 1 of 3 are free, 2 held by somebody"),
    ):
        play(transport, 2)
    assert "release_lease" not in services.carried, "a refusal holds nothing"


def test_an_error_of_an_environment_is_told_and_the_pool_plays_on() -> None:
    drawers = Drawers(2, broken_after=7)

    async def work(transport: RosTransport) -> Group:
        async with RolloutPool(transport, 2) as pool:
            with pytest.raises(EnvError, match=r"^drawer: it is stuck$"):
                await pool.run_group(LocalPolicy(PullPolicy()), seed=10)
            return await pool.run_group(LocalPolicy(PullPolicy()), seed=10, max_steps=6)

    with reached(drawers.pool) as (_, transport):
        assert [len(one) for one in run(work(transport)).trajectories] == [6, 6]


def test_a_pool_that_dies_while_a_group_is_played_is_an_error_and_closing_ends() -> None:
    drawers = Drawers(2)

    class Fatal(PullPolicy):
        def predict_with_log_probabilities(self, batch: Any) -> Any:
            services.die()
            return super().predict_with_log_probabilities(batch)

    with (
        reached(drawers.pool, HASTY) as (services, transport),
        pytest.raises(EnvError, match=r"^/pool/touch_slot: found no answer within 2 s$"),
        BlockingRolloutPool(transport, 2) as pool,
    ):
        pool.run_group(LocalPolicy(Fatal()), seed=10)


def test_a_pool_that_dies_before_it_is_closed_is_told_when_nothing_else_was_wrong() -> None:
    with (
        reached(Drawers(1).pool, HASTY) as (services, transport),
        pytest.raises(EnvError, match="/pool/release_lease: found no answer"),
        BlockingRolloutPool(transport, 1),
    ):
        services.die()


def test_a_pool_that_is_not_there_is_told() -> None:
    with reached(Drawers(1).pool, HASTY) as (services, transport):
        services.is_there = False
        with pytest.raises(EnvError, match=r"/pool/lease_environments: found no such service within 2 s"):
            play(transport, 1)


def test_a_pool_that_is_known_late_has_its_whole_time_for_the_answer() -> None:
    silent_s = 2.0

    class Late(LossyPool):
        def is_ready(self, service: str) -> bool:
            was_there, self.is_there = self.is_there, True
            if not was_there:
                time.sleep(0.6 * silent_s)  # until discovery is so far
            return was_there

        def send(self, service: str, request: Any, take: Any) -> Any:
            threading.Timer(0.6 * silent_s, super().send, (service, request, take)).start()
            return lambda: None

    async def work(services: Late) -> None:
        services.is_there = False
        calls = pool_client.PoolCalls(services, Patience(repeat_s=WAIT_S, silent_s=silent_s))
        request = LeaseEnvironments.Request(lease_id="a" * 32, holder="trainer", count=1)
        assert (await calls.ask("lease_environments", request)).success

    services = Late(Drawers(1).pool)
    try:
        run(work(services))
    finally:
        services.close()


def test_a_touch_that_takes_longer_than_a_pool_may_be_silent_is_waited_for() -> None:
    drawers = Drawers(1, step_s=0.1)
    patience = Patience(repeat_s=1.5, silent_s=3.0)

    async def work(transport: RosTransport) -> float:
        async with RolloutPool(transport, 1) as pool:
            await pool.slots.reset(0, 1, "open", [STATE])
            begin_s = time.monotonic()
            assert len(await pool.slots.execute(0, np.zeros((40, 2)))) == 40
            return time.monotonic() - begin_s

    with reached(drawers.pool, patience) as (_, transport):
        assert run(work(transport)) > patience.silent_s


def test_a_call_that_is_pending_for_ever_is_given_up() -> None:
    drawers = Drawers(1, step_s=0.1)

    async def work(transport: RosTransport) -> None:
        slots = await transport.lease("trainer", 1)
        await slots.reset(0, 1, "open", [STATE])
        with pytest.raises(EnvError, match=r"/pool/touch_slot: was pending for 0\.2 s"):
            await slots.execute(0, np.zeros((20, 2)))

    with reached(drawers.pool, Patience(longest_s=0.2)) as (_, transport):
        run(work(transport))


def test_a_caller_that_is_cancelled_while_slots_connect_holds_nothing() -> None:
    drawers = Drawers(2)

    async def work(transport: RosTransport) -> None:
        leasing = asyncio.ensure_future(transport.lease("trainer", 2))
        while is_free(drawers.pool):
            await asyncio.sleep(0)
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing
        await transport.close()
        assert is_free(drawers.pool)

    with reached(drawers.pool, delay_s=0.05) as (_, transport):
        run(work(transport))


def test_who_is_cancelled_in_a_touch_can_touch_on() -> None:
    drawers = Drawers(1, step_s=0.02)

    async def work(transport: RosTransport) -> None:
        async with RolloutPool(transport, 1) as pool:
            slots = pool.slots
            await slots.reset(0, 1, "open", [STATE])
            stepping = asyncio.ensure_future(slots.execute(0, np.zeros((20, 2))))
            while not drawers.pool._slots[0].is_touched:
                await asyncio.sleep(0)
            stepping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stepping
            assert (await slots.reset(0, 2, "open", [STATE])).time_s == 0.0

    with reached(drawers.pool) as (_, transport):
        run(work(transport))


def test_touches_of_one_slot_are_made_one_after_another() -> None:
    async def work(transport: RosTransport) -> list[float]:
        async with RolloutPool(transport, 1) as pool:
            await pool.slots.reset(0, 1, "open", [STATE])
            calls = (pool.slots.execute(0, np.zeros((1, 2))) for _ in range(5))
            return [steps[0].observation.time_s for steps in await asyncio.gather(*calls)]

    with reached(Drawers(1).pool, **BAD) as (_, transport):
        assert run(work(transport)) == [0.1, 0.2, 0.3, 0.4, 0.5]


def test_an_open_pool_renews_its_lease_and_one_that_does_not_loses_it() -> None:
    drawers = Drawers(1, lease_s=2.0)

    async def work(transport: RosTransport) -> None:
        async with RolloutPool(transport, 1) as pool:
            end_s = time.monotonic() + 2 * 2.0
            while time.monotonic() < end_s:
                await asyncio.sleep(0.05)
            await pool.slots.metrics(0)
            renewal = pool._renewal
            assert renewal is not None
            renewal.cancel()
            while not is_free(drawers.pool):
                await asyncio.sleep(0.05)
            for call in (pool.slots.metrics(0), pool.slots.renew()):
                with pytest.raises(LeaseError, match=r"has not renewed it for 2 s"):
                    await call

    with reached(drawers.pool) as (_, transport):
        run(work(transport))


def test_a_seed_that_no_message_can_hold_and_an_answer_that_cannot_be_read_are_errors() -> None:
    class Garbled(LossyPool):
        def _arrive(self, service: str, request: Any, take: Any) -> None:
            if service == "touch_slot":
                take(TouchSlot.Response(result=b"\x80"))  # an empty map
            else:
                super()._arrive(service, request, take)

    async def work() -> None:
        async with RolloutPool(RosTransport(lambda: Garbled(Drawers(1).pool), PATIENT), 1) as pool:
            with pytest.raises(EnvError, match=r"drawer: found seed -1, expected 0 to 2\*\*64 - 1"):
                await pool.slots.reset(0, -1, "open", [STATE])
            with pytest.raises(EnvError, match="/pool: its answer cannot be read: KeyError: 'values'"):
                await pool.slots.reset(0, 1, "open", [STATE])

    run(work())


def test_a_connection_that_cannot_be_made_is_told() -> None:
    def connect() -> LossyPool:
        raise EnvError("/pool: cannot be reached: no middleware")

    with pytest.raises(EnvError, match="no middleware"):
        play(RosTransport(connect), 1)
