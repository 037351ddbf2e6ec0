# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""HUD's own endpoint and client, unmodified, with our simulated arm. Run by `make test-hud`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

pytest.importorskip("hud.capabilities.robot")

from hud.capabilities.robot import RobotClient
from hud.environment.robot.endpoint import RobotEndpoint

DEADLINE_S = 120.0
PROGRAM = os.environ.get("REMOTE_INFERENCE", "")  # of the environment that holds our package
EPISODES = int(os.environ.get("HUD_EPISODES", "3"))
LIMIT_STEPS = 150  # of the belt arm's episodes: 5 s at 30 Hz
STATE = "observation.state"
JOINTS = 6


@asynccontextmanager
async def endpoint(*options: str) -> AsyncIterator[RobotEndpoint]:
    started = RobotEndpoint.spawn([PROGRAM, "hud", "belt_arm", *options], connect_timeout_s=DEADLINE_S)
    await started.start()
    try:
        yield started
    finally:
        await started.stop()


def play(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), DEADLINE_S))


async def connect(started: RobotEndpoint, **task: Any) -> RobotClient:
    (capability,) = await started.capabilities()
    episode = await started.reset(**task)
    return await RobotClient.connect(capability, token=episode["token"])


def test_the_contract_reaches_the_stock_client() -> None:
    async def work() -> None:
        async with endpoint() as started:
            client = await connect(started)
            action, observations = client.spaces()
            assert len(action["names"]) == JOINTS
            assert set(observations) == {STATE, "observation.images.front", "observation.images.wrist"}
            assert client.get_control_rate() == 30
            await client.close()

    play(work)


def test_a_stock_client_steps_the_arm_and_the_endpoint_reads_the_score() -> None:
    async def work() -> None:
        async with endpoint() as started:
            client = await connect(started, seed=11)
            first = await client.get_observation()
            assert first["data"]["observation.images.front"].shape == (240, 320, 3)
            target = first["data"][STATE] + np.array([0.3, 0, 0, 0, 0, 0], np.float32)
            for _ in range(30):
                await client.send_action(target)
                shown = await client.get_observation()
            assert shown["data"][STATE][0] == pytest.approx(target[0], abs=0.02)
            assert shown["reward"] == 0.0
            await client.close()
            assert (await started.result())["success"] is False
            again = await connect(started, seed=11)
            assert np.array_equal((await again.get_observation())["data"][STATE], first["data"][STATE])
            await again.close()

    play(work)


def test_a_stock_client_plays_one_episode_after_the_other() -> None:
    async def work() -> None:
        async with endpoint() as started:
            for seed in range(EPISODES):
                client = await connect(started, seed=seed)
                shown = await client.get_observation()
                target, steps = shown["data"][STATE], 0
                while not shown["terminated"]:
                    await client.send_action(target)
                    shown = await client.get_observation()
                    steps += 1
                await client.close()
                assert steps == LIMIT_STEPS
                assert (await started.result())["success"] is False, "an arm that stands picks nothing"

    asyncio.run(asyncio.wait_for(work(), EPISODES * DEADLINE_S))


def test_a_stock_client_sends_chunks_in_real_time() -> None:
    async def work() -> None:
        async with endpoint("--real-time") as started:
            client = await connect(started, seed=3)
            shown = await client.get_observation()
            target = shown["data"][STATE] + np.array([0.3, 0, 0, 0, 0, 0], np.float32)
            indices = []
            while not shown["terminated"]:
                indices.append(shown["meta"]["obs_index"])
                if shown["meta"]["queue_remaining"] < 10:
                    await client.send_chunk(np.tile(target, (30, 1)), obs_index=indices[-1], delay_used=0)
                newest, shown = shown, await client.get_observation()
            assert indices == sorted(set(indices))
            assert newest["data"][STATE][0] == pytest.approx(target[0], abs=0.02)
            assert newest["meta"]["unexecuted_chunk"].shape[1] == JOINTS
            await client.close()

    play(work)


def test_an_unknown_task_is_an_error_of_the_endpoint() -> None:
    async def work() -> None:
        async with endpoint() as started:
            with pytest.raises(RuntimeError, match="found task 'fly', expected 'pick up the red cube'"):
                await started.reset(task="fly")

    play(work)
