# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A RolloutPool for programs that block, such as a trainer: it runs on a thread with an event loop.

with BlockingRolloutPool(LocalTransport.of("belt_arm", {}, 8), 8) as pool:
    group = pool.run_group(policy, seed=7)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from typing_extensions import Self

from remote_inference.learn.environment import EnvironmentSpec
from remote_inference.learn.rollouts.group import Group, GroupPolicy
from remote_inference.learn.rollouts.pool import RolloutError, RolloutPool
from remote_inference.learn.rollouts.slots import Slots
from remote_inference.learn.rollouts.transport import Transport

Result = TypeVar("Result")

JOIN_S = 10.0  # until a loop that does not end is given up


class BlockingRolloutPool:
    """A RolloutPool whose methods block. Its thread lives from `open` to `close`."""

    def __init__(self, transport: Transport, count: int, *, holder: str = "") -> None:
        """Make the RolloutPool; see there for the arguments."""
        self._pool = RolloutPool(transport, count, holder=holder)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._begin(self._pool.__aenter__())
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise

    @property
    def slots(self) -> Slots:
        """The leased slots, to be called on the pool's loop. Raises RolloutError while there are none."""
        return self._pool.slots

    @property
    def spec(self) -> EnvironmentSpec:
        """Of the environments."""
        return self._pool.spec

    def open(self) -> None:
        """Do as `RolloutPool.open`."""
        self._begin(self._pool.open())

    def run_group(self, policy: GroupPolicy, **options: Any) -> Group:
        """Do as `RolloutPool.run_group`, with its options. What interrupts the caller ends the group."""
        return self._run(self._pool.run_group(policy, **options))

    def close(self) -> None:
        """Do as `RolloutPool.close`, and end the thread."""
        if self._loop is None:
            return
        try:
            self._run(self._pool.close())
        finally:
            self._stop()

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start the thread and run the pool's opening there; end the thread when that fails."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run_until_stopped, args=(self._loop,), name="rollout_pool", daemon=True
            )
            self._thread.start()
        try:
            self._run(work)
        except BaseException:
            self._stop()
            raise

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        if self._loop is None:
            work.close()
            raise RolloutError("rollouts: the pool is not open")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()  # everything that it waits for has a deadline
        except BaseException:
            future.cancel()
            raise

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        thread, self._thread = self._thread, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(JOIN_S)
        if thread.is_alive():
            raise RolloutError(f"rollouts: the pool's loop is stuck: no end within {JOIN_S:g} s")


def _run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
    finally:
        loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=JOIN_S / 2)
