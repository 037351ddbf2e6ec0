# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots are all there or none: whatever fails, hangs or is cancelled, nothing of a lease is left."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.process_environment import ProcessEnvironment
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.rollouts import LocalTransport, slots as slots_module
from remote_inference.learn.rollouts.slots import LeaseError, Slots
from support.environments.drawer_pool import SlotDrawer
from support.importable import python_path
from support.waiting import wait_until

WAIT_S = 60.0
TASK = "open"


class Noted(SlotDrawer):
    """A drawer that notes its calls, and fails, or waits until it is aborted, in one of them."""

    def __init__(self, fails: str = "", waits: str = "", error: Exception | None = None) -> None:
        super().__init__()
        self.calls: list[tuple[str, str]] = []
        self._fails, self._waits, self._error = fails, waits, error or EnvError("it is stuck")
        self._aborted = threading.Event()
        self.is_waiting = threading.Event()

    def _note(self, call: str) -> None:
        self.calls.append((call, threading.current_thread().name))
        if call == self._fails:
            raise self._error
        if call == self._waits:
            self.is_waiting.set()
            assert self._aborted.wait(WAIT_S)
            raise EnvError("it was aborted")

    def start(self) -> None:
        self._note("start")

    def reset(self, seed: int, task: str, wanted: Any) -> Any:
        self._note("reset")
        return super().reset(seed, task, wanted)

    def step(self, action: Any) -> Any:
        self._note("step")
        return super().step(action)

    def close(self) -> None:
        self._note("close")

    def abort(self) -> None:
        self._aborted.set()


def run(play: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(play(), WAIT_S))


def test_each_environment_has_a_thread_of_its_own_on_which_its_calls_run_in_order():
    made = [Noted(), Noted()]

    async def play() -> None:
        slots = Slots(made)
        await slots.connect()
        for index in range(2):
            await slots.reset(index, 3, TASK, ())
            assert len(await slots.execute(index, np.zeros((2, 2)))) == 2
        await slots.release()
        await slots.release()

    run(play)
    order = ["start", "reset", "reset", "step", "step", "close"]
    for index, one in enumerate(made):
        assert one.calls == [(call, f"slot_{index}") for call in order]


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("call", ["start", "reset"])
def test_one_that_cannot_be_connected_ends_all_and_says_the_first_error(broken: int, call: str):
    made = [Noted(waits=call) for _ in range(3)]
    made[broken] = Noted(fails=call, error=RuntimeError("no rails"))
    before = set(threading.enumerate())
    released: list[int] = []

    async def play() -> None:
        with pytest.raises(LeaseError, match=f"slot {broken}: RuntimeError: no rails"):
            await Slots(made, lambda: released.append(1)).connect()

    run(play)
    assert released == [1]
    assert all(one.calls[-1][0] == "close" for one in made)
    wait_until(lambda: set(threading.enumerate()) <= before, "their threads' end")


def test_a_release_ends_the_call_under_way_and_refuses_later_ones():
    made = [Noted(waits="step"), Noted()]

    async def play() -> None:
        slots = Slots(made)
        await slots.connect()
        stepping = asyncio.ensure_future(slots.execute(0, np.zeros((1, 2))))
        await asyncio.to_thread(made[0].is_waiting.wait, WAIT_S)
        await slots.release()
        with pytest.raises(EnvError, match="it was aborted"):
            await stepping
        with pytest.raises(LeaseError, match="the slots were released"):
            await slots.reset(1, 0, TASK, ())

    run(play)


def test_one_that_does_not_close_is_given_up_and_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(slots_module, "CLOSE_S", 0.2)
    made, released = [Noted(waits="close"), Noted(fails="close")], []

    async def play() -> None:
        slots = Slots(made, lambda: released.append(1))
        await slots.connect()
        with pytest.raises(EnvError, match=r"found 1 that did not close within 0\.2 s"):
            await slots.release()

    run(play)
    assert released == [1]
    made[0].abort()


def test_pools_share_a_transport_up_to_its_slots():
    transport = LocalTransport(Noted, 3)

    async def play() -> None:
        first = await transport.lease("first", 2)
        with pytest.raises(LeaseError, match="found 2 slots asked for; 1 of 3 are free, 2 held by first"):
            await transport.lease("second", 2)
        await transport.lease("second", 1)
        await first.release()
        assert transport.free == 2
        for count in (0, 4):
            with pytest.raises(LeaseError, match=f"found {count} slots asked for, expected 1 to 3"):
                await transport.lease("third", count)
        await transport.close()
        assert transport.free == 3

    run(play)


def test_processes_end_with_their_lease_whatever_they_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", python_path())
    name = "support.evaluation.trying_drawer:TryingDrawer"

    def make() -> ProcessEnvironment:
        return ProcessEnvironment(name, {"step_s": 2 * WAIT_S}, Timeouts(step_s=WAIT_S))

    async def play() -> tuple[int | None, ...]:
        slots = await LocalTransport(make, 2).lease("somebody", 2)
        ids = slots.process_ids
        await slots.reset(0, 7, TASK, ())
        hanging = asyncio.ensure_future(slots.execute(0, np.zeros((30, 2))))
        await asyncio.sleep(0.2)  # in its first step
        begin_s = time.monotonic()
        await slots.release()
        assert time.monotonic() - begin_s < WAIT_S / 2
        with pytest.raises(EnvError):
            await hanging
        return ids

    ids = asyncio.run(asyncio.wait_for(play(), WAIT_S))
    assert len(set(ids)) == 2
    for process_id in ids:
        assert process_id is not None
        with pytest.raises(ProcessLookupError):
            os.kill(process_id, 0)
