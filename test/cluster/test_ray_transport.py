# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Rollouts on a Ray cluster of three nodes: the same as on this machine, whole or refused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.rollouts import (
    BlockingRolloutPool,
    Group,
    LocalPolicy,
    LocalTransport,
    RayTransport,
    RolloutPool,
    ray_transport,
)
from remote_inference.learn.rollouts.slots import LeaseError
from support.environments.drawer import PullPolicy

DRAWER = "support.environments.drawer:Drawer"
TRYING = "support.evaluation.trying_drawer:TryingDrawer"
NODES, CPUS_OF_A_NODE = 3, 3
CPUS = NODES * CPUS_OF_A_NODE
WAIT_S = 120.0
MEMORY_BYTES = 80 << 20  # of the objects on each node, the least


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for _ in range(NODES):
        made.add_node(num_cpus=CPUS_OF_A_NODE, object_store_memory=MEMORY_BYTES, include_dashboard=False)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(autouse=True)
def nothing_is_left(cluster: Cluster) -> Iterator[None]:
    """After each test all CPUs are free again."""
    yield
    ray.init(cluster.address, log_to_driver=False, ignore_reinit_error=True)

    async def wait() -> None:
        while ray.available_resources().get("CPU", 0.0) < ray.cluster_resources()["CPU"]:
            await asyncio.sleep(0.1)

    asyncio.run(asyncio.wait_for(wait(), WAIT_S))  # and stay connected, which takes seconds each time


def reach(
    cluster: Cluster, environment: str = DRAWER, reserve_s: float = 30.0, **options: Any
) -> RayTransport:
    timeouts = Timeouts(step_s=options.pop("timeout_s", 10.0))
    return RayTransport(cluster.address, environment, options, reserve_s=reserve_s, timeouts=timeouts)


def play(transport: Any, count: int) -> Group:
    with BlockingRolloutPool(transport, count) as pool:
        return pool.run_group(LocalPolicy(PullPolicy()), seed=10, keep_observations=True)


def run(script: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(script(), WAIT_S))


def test_rollouts_of_a_cluster_equal_those_of_this_machine(cluster: Cluster):
    there, here = play(reach(cluster), 4), play(LocalTransport.of(DRAWER, {}, 4), 4)
    assert [one.digest() for one in there.trajectories] == [one.digest() for one in here.trajectories]
    assert len({one.process_id for one in there.trajectories}) == 4


def test_a_group_is_reserved_as_a_whole_or_refused_with_what_is_free(cluster: Cluster):
    async def script() -> None:
        first = reach(cluster)
        held = await first.lease("somebody", 2)
        for _ in range(5):
            with pytest.raises(
                LeaseError, match=f"found 8 slots asked for; 7 of {CPUS} CPUs are free within 1 s"
            ):
                await reach(cluster, reserve_s=1.0).lease("another", 8)
        others = reach(cluster)
        rest = await others.lease("another", 7)
        assert len(rest) == 7
        await others.close()
        await held.release()
        await first.close()

    run(script)


def test_one_that_cannot_be_made_leaves_nothing_of_the_others(cluster: Cluster):
    with pytest.raises(LeaseError, match=r"slot \d: .*did you mean"):
        play(reach(cluster, "belt_harm"), 3)


def test_a_simulator_that_hangs_is_ended_by_its_deadline_and_the_pool_plays_on(cluster: Cluster):
    async def script() -> None:
        async with RolloutPool(reach(cluster, step_s=2 * WAIT_S, timeout_s=0.5), 2) as pool:
            for _ in range(2):
                with pytest.raises(EnvError, match=r"node \S+: step took longer than 0\.5 s"):
                    await pool.run_group(LocalPolicy(PullPolicy()), seed=1)

    run(script)


def test_a_worker_that_is_killed_is_named_with_its_node_and_replaced(cluster: Cluster):
    async def script() -> None:
        async with RolloutPool(reach(cluster, step_s=0.02), 2) as pool:
            before = pool.slots.process_ids
            playing = asyncio.ensure_future(pool.run_group(LocalPolicy(PullPolicy(step=0.0)), seed=1))
            await asyncio.sleep(0.1)
            assert before[0] is not None
            os.kill(before[0], signal.SIGKILL)
            with pytest.raises(EnvError, match=r"node \S+: \w+: its process has ended"):
                await playing
            assert len(await pool.run_group(LocalPolicy(PullPolicy()), seed=10)) == 2
            assert pool.slots.process_ids[0] != before[0]

    run(script)


def test_a_caller_that_is_cancelled_holds_nothing(cluster: Cluster):
    async def script() -> None:
        transport = reach(cluster)
        leasing = asyncio.ensure_future(transport.lease("somebody", 3))
        await asyncio.sleep(1.0)
        leasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leasing
        await transport.close()

    run(script)


def test_a_node_with_another_version_is_refused_by_what_differs(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ray_transport, "describe_host", lambda: {"Python": "2.7.18"})
    with pytest.raises(
        LeaseError, match=r"slot \d: .*node \S+: found Python 3\.\S+, expected 2\.7\.18 as here"
    ):
        play(reach(cluster), 2)


def test_no_cluster_is_said_in_a_line():
    ray.shutdown()
    with pytest.raises(LeaseError, match=r"127\.0\.0\.1:1: found no Ray cluster"):
        play(RayTransport("127.0.0.1:1", DRAWER, {}), 1)


def test_a_node_that_dies_costs_its_rollouts_and_no_more(cluster: Cluster):
    """The last test: its node is gone."""

    async def script() -> None:
        async with RolloutPool(reach(cluster, step_s=0.02), 6) as pool:
            playing = asyncio.ensure_future(pool.run_group(LocalPolicy(PullPolicy(step=0.0)), seed=1))
            await asyncio.sleep(0.2)
            await asyncio.to_thread(cluster.remove_node, cluster.worker_nodes.copy().pop(), False)
            with pytest.raises(EnvError, match=r"node \S+: \w+: its process has ended"):
                await playing
        assert len(await asyncio.to_thread(play, reach(cluster), 6)) == 6

    run(script)
