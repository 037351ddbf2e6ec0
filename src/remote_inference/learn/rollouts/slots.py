# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The environments of one lease, each with a thread of its own, on which its calls run in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from remote_inference.base.calls import Calls
from remote_inference.base.errors import UserError
from remote_inference.learn.environment import (
    EnvError,
    Environment,
    EnvironmentObservation,
    EnvironmentSpec,
    Metrics,
    Step,
)
from remote_inference.learn.environments.policy_view import Actions, execute_actions

Result = TypeVar("Result")

CLOSE_S = 30.0  # until an environment that does not close is given up
FIRST_SEED = 0  # of the reset by which a slot is connected


class LeaseError(UserError):
    """Slots are refused, cannot be connected, or are leased no more; the message has the reason."""


class SlotEnvironment(Environment, Protocol):
    """The environment of a slot, which another thread can end during a call."""

    @property
    def process_id(self) -> int | None: ...

    def start(self) -> None:
        """Make the environment unless it is there. Raises EnvError."""

    def abort(self) -> None:
        """End the call under way and refuse all later ones; from any thread, without waiting."""


class Slots:
    """`index` counts the environments, from 0. Each call raises EnvError, or LeaseError after the release.

    Every call has the environment's own deadline.
    """

    def __init__(
        self, environments: Sequence[SlotEnvironment], on_release: Callable[[], object] = lambda: None
    ) -> None:
        """on_release: called once, when all environments are closed or given up."""
        self._environments = tuple(environments)
        self._on_release = on_release
        self._calls = [Calls() for _ in environments]
        self._last: list[Future[Any] | None] = [None for _ in environments]  # the last call of each
        self._is_released = False
        for index, calls in enumerate(self._calls):
            calls.start(f"slot_{index}")

    def __len__(self) -> int:
        return len(self._environments)

    @property
    def spec(self) -> EnvironmentSpec:
        """Of the environments, once they are connected."""
        return self._environments[0].spec

    @property
    def process_ids(self) -> tuple[int | None, ...]:
        return tuple(environment.process_id for environment in self._environments)

    async def connect(self) -> None:
        """Start and reset all environments, or none: after an error, all are ended. Raises the first."""
        starts = {asyncio.ensure_future(self._run(index, _start)): index for index in range(len(self))}
        try:
            done, _ = await asyncio.wait(starts, return_when=asyncio.FIRST_EXCEPTION)
            for start in done:
                if (error := start.exception()) is not None:
                    kind = "" if isinstance(error, EnvError) else f"{type(error).__name__}: "
                    raise LeaseError(f"slot {starts[start]}: {kind}{error}") from error
        except BaseException:
            with suppress(Exception):  # the first error matters
                await asyncio.shield(self.release())
            await asyncio.wait(starts)
            for start in starts:
                start.cancelled() or start.exception()  # marks the others as retrieved
            raise

    async def reset(self, index: int, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        """Begin an episode."""
        return await self._run(index, lambda environment: environment.reset(seed, task, wanted))

    async def execute(self, index: int, actions: Actions) -> Sequence[Step]:
        """Execute actions `[n, A]` until the episode ends; return the outcome of each executed one."""
        return await self._run(index, lambda environment: execute_actions(environment.step, actions))

    async def metrics(self, index: int) -> Metrics:
        """Return what the environment has computed about the episode."""
        return await self._run(index, lambda environment: environment.metrics())

    async def render(self, index: int) -> NDArray[np.uint8]:
        """Return a picture of the present, RGB `[height, width, 3]`."""
        return await self._run(index, lambda environment: environment.render())

    async def release(self) -> None:
        """End what runs and close all environments; safe to call again. Raises the first error."""
        if self._is_released:
            return
        self._is_released = True
        for environment, last in zip(self._environments, self._last, strict=True):
            if last is not None and not last.done():
                environment.abort()
        try:
            closing = [
                calls.submit(environment.close)
                for calls, environment in zip(self._calls, self._environments, strict=True)
            ]
            tasks = [asyncio.wrap_future(each) for each in closing]
            done, late = await asyncio.wait(tasks, timeout=CLOSE_S)
            errors = [error for task in done if (error := task.exception()) is not None]
            if late:
                raise EnvError(f"slots: found {len(late)} that did not close within {CLOSE_S:g} s")
            for error in errors:
                raise error
        finally:
            for calls in self._calls:
                calls.close()
            self._on_release()

    async def _run(self, index: int, call: Callable[[SlotEnvironment], Result]) -> Result:
        if self._is_released:
            raise LeaseError("lease: the slots were released")
        future = self._calls[index].submit(partial(call, self._environments[index]))
        self._last[index] = future
        return await asyncio.wrap_future(future)


def _start(environment: SlotEnvironment) -> None:
    environment.start()
    environment.reset(FIRST_SEED, environment.spec.tasks[0], ())
