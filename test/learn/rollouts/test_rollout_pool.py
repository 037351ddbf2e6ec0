# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A pool is whole or nothing, its groups are repeatable bit for bit, and no error hides the first one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation
from remote_inference.learn.environment import EnvError
from remote_inference.learn.rollouts import (
    BlockingRolloutPool,
    Group,
    LocalPolicy,
    LocalTransport,
    RolloutError,
    RolloutPool,
    Sampling,
    blocking_pool,
    pool as pool_module,
)
from remote_inference.learn.rollouts.slots import LeaseError
from support.environments.drawer import CHUNK, STATE, PullPolicy
from support.environments.drawer_pool import Drawers
from support.importable import python_path

WAIT_S = 60.0


class Played:
    """Runs groups of either pool in the same words."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def groups(self, drawers: Drawers, count: int, policy: Any, *options: dict[str, Any]) -> list[Group]:
        """Play a group for each of the options, one after another, in one pool."""
        asked = LocalPolicy(policy)
        if self.kind == "blocking":
            with BlockingRolloutPool(drawers.transport, count) as pool:
                return [pool.run_group(asked, **each) for each in options]

        async def play() -> list[Group]:
            async with RolloutPool(drawers.transport, count) as pool:
                return [await pool.run_group(asked, **each) for each in options]

        return asyncio.run(play())


@pytest.fixture(params=["asyncio", "blocking"])
def played(request: pytest.FixtureRequest) -> Played:
    return Played(request.param)


def test_a_group_has_all_that_was_played(played: Played) -> None:
    policy = PullPolicy()
    (group,) = played.groups(Drawers(4), 4, policy, {"seed": 10, "keep_observations": True})
    assert (group.task, group.seed, len(group)) == ("open", 10, 4)
    for one in group.trajectories:
        assert one.is_success
        assert one.is_terminated
        assert one.actions.shape == (len(one), 2)
        assert one.rewards.shape == (len(one),)
        assert one.observations is not None
        assert len(one.observations) == len(one) + 1
        shown = [observation.values[STATE][0] for observation in one.observations]
        assert shown == pytest.approx([0.1, *one.actions[:, 1]], abs=1e-6), "what was executed is what moved"
        assert one.log_probabilities is not None
        assert one.log_probabilities.shape == (len(one),)
        assert sum(chunk.steps for chunk in one.chunks) == len(one)
        assert {chunk.policy_version for chunk in one.chunks} == {"first"}
    assert not group.is_mixed
    assert group.distinct == 4
    assert sorted(one.slot for one in group.trajectories) == [0, 1, 2, 3]
    assert len({chunk.chunk_id for one in group.trajectories for chunk in one.chunks}) == len(
        policy.observations
    )


def test_the_model_is_called_once_for_all_rollouts_that_still_run() -> None:
    policy = PullPolicy()
    (group,) = Played("asyncio").groups(Drawers(4), 4, policy, {"seed": 10})
    chunks = [len(one.chunks) for one in group.trajectories]
    assert policy.batches == [sum(number > call for number in chunks) for call in range(max(chunks))]
    assert policy.batches[0] == 4


def test_a_batch_that_is_too_large_for_the_policy_is_split() -> None:
    policy = PullPolicy(max_batch=3)
    Played("asyncio").groups(Drawers(4), 4, policy, {"seed": 10, "max_steps": CHUNK})
    assert policy.batches == [3, 1]


def test_the_same_seed_and_version_give_the_same_group_bit_for_bit(played: Played) -> None:
    keep = {"keep_observations": True}
    first, again = played.groups(Drawers(4), 4, PullPolicy(), {"seed": 10, **keep}, {"seed": 10, **keep})
    (elsewhere,) = Played("asyncio").groups(Drawers(4), 4, PullPolicy(), {"seed": 10, **keep})
    digests = [one.digest() for one in first.trajectories]
    assert digests == [one.digest() for one in again.trajectories]
    assert digests == [one.digest() for one in elsewhere.trajectories]
    assert len(set(digests)) == 4, "differences come from sampling alone"


def test_samplings_and_temperature_decide_what_differs() -> None:
    drawers, policy = Drawers(3), PullPolicy()
    same = [Sampling(5), Sampling(5), Sampling(6)]
    cold = {"seed": 10, "temperature": 0.0}
    one, two = Played("asyncio").groups(drawers, 3, policy, {"seed": 10, "samplings": same}, cold)
    first, second, third = (each.digest() for each in one.trajectories)
    assert first == second != third
    assert two.distinct == 1


def test_rollouts_share_nothing() -> None:
    """A rollout beside others is the one that it would be alone."""
    drawn = Sampling.spread(10, 4)
    (together,) = Played("asyncio").groups(Drawers(4), 4, PullPolicy(), {"seed": 10, "samplings": drawn})
    for number, sampling in enumerate(drawn):
        (alone,) = Played("asyncio").groups(
            Drawers(1), 1, PullPolicy(), {"seed": 10, "samplings": [sampling]}
        )
        assert alone.trajectories[0].digest() == together.trajectories[number].digest()


def test_versions_of_a_policy_that_changes_while_a_group_is_played_are_told() -> None:
    class Learning(PullPolicy):
        def pre(self, observation: PolicyObservation) -> PolicyObservation:
            if len(self.batches) == 1:
                self.version = "second"
            return observation

    (group,) = Played("asyncio").groups(Drawers(2), 2, Learning(), {"seed": 10})
    assert group.is_mixed
    assert group.policy_versions == ("first", "second")
    for one in group.trajectories:
        assert [chunk.policy_version for chunk in one.chunks][:2] == ["first", "second"]


def test_a_policy_without_log_probabilities_has_none() -> None:
    class Silent(PullPolicy):
        predict_with_log_probabilities = None  # type: ignore[assignment]

        def predict(self, batch: Sequence[PolicyObservation]) -> list[Float32Array]:
            return PullPolicy.predict_with_log_probabilities(self, batch)[0]

    (group,) = Played("asyncio").groups(Drawers(2), 2, Silent(), {"seed": 10})
    assert all(one.log_probabilities is None for one in group.trajectories)
    assert all(one.observations is None for one in group.trajectories)


def test_a_pool_that_cannot_open_holds_nothing_and_says_the_first_error(played: Played) -> None:
    drawers = Drawers(3, broken_start=RuntimeError("no rails"))
    with pytest.raises(LeaseError, match=r"slot \d: RuntimeError: no rails"):
        played.groups(drawers, 3, PullPolicy(), {"seed": 1})
    assert drawers.transport.free == 3


def test_a_pool_larger_than_what_is_free_is_refused_with_the_load(played: Played) -> None:
    drawers = Drawers(3)
    asyncio.run(drawers.transport.lease("somebody", 2))
    with pytest.raises(LeaseError, match="found 2 slots asked for; 1 of 3 are free, 2 held by somebody"):
        played.groups(drawers, 2, PullPolicy(), {"seed": 1})


def test_an_error_in_a_rollout_ends_the_group_and_the_pool_plays_on() -> None:
    drawers = Drawers(2, broken_after=7)

    async def play() -> Group:
        async with RolloutPool(drawers.transport, 2) as pool:
            with pytest.raises(EnvError, match="it is stuck"):
                await pool.run_group(LocalPolicy(PullPolicy()), seed=10)
            return await pool.run_group(LocalPolicy(PullPolicy()), seed=10, max_steps=6)

    assert [len(one) for one in asyncio.run(play()).trajectories] == [6, 6]


def test_a_reward_that_is_not_finite_ends_the_group_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", python_path())
    options = {"unknown_seed": 10, "unknown": "reward"}
    transport = LocalTransport.of("support.evaluation.trying_drawer:TryingDrawer", options, 2)

    async def play() -> Group:
        async with RolloutPool(transport, 2) as pool:
            with pytest.raises(EnvError, match=r"drawer: reward at 0\.3 s: found nan, expected finite"):
                await pool.run_group(LocalPolicy(PullPolicy()), seed=10)
            return await pool.run_group(LocalPolicy(PullPolicy()), seed=11)

    assert np.isfinite(asyncio.run(play()).advantages).all()


def test_an_error_of_the_policy_and_one_of_the_arguments_are_told_as_they_are() -> None:
    class Broken(PullPolicy):
        def predict_with_log_probabilities(self, batch: object) -> Any:
            return [np.full((CHUNK, 2), np.nan, np.float32)] * 2, [np.zeros(CHUNK)] * 2

    drawers = Drawers(2)

    async def play() -> None:
        async with RolloutPool(drawers.transport, 2) as pool:
            with pytest.raises(PolicyError, match="pull: chunk_model: found non-finite values"):
                await pool.run_group(LocalPolicy(Broken()), seed=1)
            with pytest.raises(EnvError, match="found task 'fly', expected 'open' or 'look'"):
                await pool.run_group(LocalPolicy(PullPolicy()), seed=1, task="fly")
            with pytest.raises(RolloutError, match="found 1 samplings, expected 2"):
                await pool.run_group(LocalPolicy(PullPolicy()), seed=1, samplings=[Sampling(1)])
            with pytest.raises(RolloutError, match="a group is being played"):
                await asyncio.gather(*(pool.run_group(LocalPolicy(PullPolicy()), seed=1) for _ in range(2)))

    asyncio.run(play())


def test_a_closed_pool_and_one_that_is_not_open_refuse(played: Played) -> None:
    pool = BlockingRolloutPool(Drawers(1).transport, 1)
    with pytest.raises(RolloutError, match="the pool is not open"):
        pool.run_group(LocalPolicy(PullPolicy()), seed=1)
    with pool:
        assert pool.spec.name == "drawer"
    with pytest.raises(RolloutError, match="the pool is not open"):
        pool.run_group(LocalPolicy(PullPolicy()), seed=1)
    pool.close()


def test_a_caller_that_is_cancelled_while_slots_connect_or_a_group_is_played_holds_nothing() -> None:
    drawers = Drawers(2, step_s=0.01)

    async def play() -> None:
        async with RolloutPool(drawers.transport, 2) as pool:
            group = asyncio.create_task(pool.run_group(LocalPolicy(PullPolicy(step=0.0)), seed=0))
            while not drawers.made[0].is_stepped.is_set():
                await asyncio.sleep(0)
            group.cancel()
            with pytest.raises(asyncio.CancelledError):
                await group
            assert len(await pool.run_group(LocalPolicy(PullPolicy()), seed=10, max_steps=5)) == 2
        assert drawers.transport.free == 2

    asyncio.run(play())

    async def connect() -> None:
        free = Drawers(2)
        opening = asyncio.create_task(RolloutPool(free.transport, 2).open())
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert free.transport.free == 2
        await free.transport.close()

    asyncio.run(asyncio.wait_for(connect(), WAIT_S))


class Reluctant(LocalTransport):
    """Cannot be closed without an error."""

    async def close(self) -> None:
        await super().close()
        raise EnvError("the door jams")


def test_an_error_while_closing_is_told_unless_there_was_one_before() -> None:
    async def close(error: Exception | None) -> None:
        async with RolloutPool(Reluctant(Drawers(1).make, 1), 1):
            if error is not None:
                raise error

    with pytest.raises(EnvError, match="the door jams"):
        asyncio.run(close(None))
    with pytest.raises(ZeroDivisionError, match="the first"):
        asyncio.run(close(ZeroDivisionError("the first")))
    with (
        pytest.raises(ZeroDivisionError, match="the first"),
        BlockingRolloutPool(Reluctant(Drawers(1).make, 1), 1),
    ):
        raise ZeroDivisionError("the first")
    broken = Drawers(1, broken_start=RuntimeError("no rails"))
    with pytest.raises(LeaseError, match="no rails"), BlockingRolloutPool(Reluctant(broken.make, 1), 1):
        pass


class Hung(LocalTransport):
    """Neither releases nor closes."""

    async def close(self) -> None:
        await asyncio.Event().wait()


def test_closing_never_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "CLOSE_S", 0.2)
    with (
        pytest.raises(RolloutError, match=r"not released within 0\.2 s"),
        BlockingRolloutPool(Hung(Drawers(1).make, 1), 1),
    ):
        pass
    with (
        pytest.raises(ZeroDivisionError, match="the first"),
        BlockingRolloutPool(Hung(Drawers(1).make, 1), 1),
    ):
        raise ZeroDivisionError("the first")


def test_a_policy_that_hangs_is_an_error() -> None:
    asleep = threading.Event()

    class Asleep(PullPolicy):
        def predict_with_log_probabilities(self, batch: object) -> Any:
            asleep.wait(WAIT_S)
            raise AssertionError

    with (
        pytest.raises(PolicyError, match=r"pull: it has not answered for 0\.1 s"),
        BlockingRolloutPool(Drawers(1).transport, 1) as pool,
    ):
        pool.run_group(LocalPolicy(Asleep(), 0.1), seed=1)
    asleep.set()


def test_a_group_takes_hardly_longer_than_one_rollout() -> None:
    """The simulator sleeps, so that cores do not matter; one after another they took eight times as long.

    `make bench-rollouts` measures it.
    """

    def play(count: int) -> float:
        drawers = Drawers(count, step_s=0.02)
        with BlockingRolloutPool(drawers.transport, count) as pool:
            begin_s = time.monotonic()
            pool.run_group(LocalPolicy(PullPolicy(step=0.0)), seed=0)
            return time.monotonic() - begin_s

    assert play(8) < 3 * play(1)


def test_a_loop_that_is_stuck_at_the_end_is_told_and_its_thread_ends_when_it_can(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocking_pool, "JOIN_S", 0.05)
    freed = threading.Event()
    pool = BlockingRolloutPool(Drawers(1).transport, 1)
    pool.open()
    thread, loop = pool._thread, pool._loop
    assert thread is not None
    assert loop is not None
    loop.call_soon_threadsafe(freed.wait, WAIT_S)
    with pytest.raises(RolloutError, match=r"loop is stuck: no end within 0\.05 s"):
        pool._stop()
    freed.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert loop.is_closed()
