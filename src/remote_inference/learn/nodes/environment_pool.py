# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `environment_pool`: simulators of one kind, each in a process, that trainers elsewhere lease.

    environment_pool --ros-args -p environment:=belt_arm -p slots:=8

All slots are started before anybody is served: a mistake in the parameters ends the node at once, and a lease
takes no longer than a reset.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import Annotated, Any, Generic, TypeVar

import numpy as np
from pydantic import Field
from rclpy.node import Node

from remote_inference.base.nodes.deferred_service import create_deferred_service
from remote_inference.base.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.base.nodes.runtime import STOP_POLL_S, StartupError, is_stopping, run_node
from remote_inference.base.nodes.timers import TimerSchedule
from remote_inference.base.wire.arrays import bytes_field
from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments.process_environment import ProcessEnvironment, Touch, spec_to_map
from remote_inference.learn.environments.slot_pool import CLOSE_S, LEASE_S, Grant, LeaseDesk, SlotPool
from remote_inference.learn.leases import LeaseError
from remote_inference.learn.nodes.environment import EnvironmentName, EnvironmentOptions, read_options
from remote_inference.server.frameworks.openpi import pack
from remote_inference.srv import LeaseEnvironments, ReleaseLease, RenewLease, TouchSlot

# -- What an environment_pool answers: requests become calls on its slots, outcomes responses; no node here

Response = TypeVar("Response")
Result = TypeVar("Result")

HOLD_S = 0.5  # until a call that is not done yet is answered with "pending"


class _Held(Generic[Response]):
    """One request. It is answered once, by whichever thread comes first."""

    def __init__(self, give: Callable[[Response], None], pending: Response, until_s: float) -> None:
        self.pending, self.until_s = pending, until_s
        self._give = give
        self._given = threading.Lock()

    @property
    def is_given(self) -> bool:
        return self._given.locked()

    def give(self, response: Response) -> None:
        if self._given.acquire(blocking=False):
            self._give(response)


class PoolAnswers:
    """Answers requests for one pool. For one thread; `give`, which sends a response, is called on any."""

    def __init__(
        self, pool: SlotPool, hold_s: float = HOLD_S, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin without requests. hold_s: until one is answered "pending". now_s: a monotonic clock [s]."""
        self._pool, self._desk = pool, LeaseDesk(pool)
        self._hold_s, self._now_s = hold_s, now_s
        self._held: list[_Held[Any]] = []  # not answered yet

    def lease(
        self, request: LeaseEnvironments.Request, give: Callable[[LeaseEnvironments.Response], None]
    ) -> None:
        whole = self._desk.lease(request.lease_id, request.holder, request.count)
        self.hold(whole, _describe_lease, LeaseEnvironments.Response(pending=True), give)

    def renew(self, request: RenewLease.Request, give: Callable[[RenewLease.Response], None]) -> None:
        try:
            self._pool.renew(request.lease_id)
        except LeaseError as error:
            give(RenewLease.Response(message=str(error)))
        else:
            give(RenewLease.Response(success=True))

    def release(self, request: ReleaseLease.Request, give: Callable[[ReleaseLease.Response], None]) -> None:
        over = self._desk.release(request.lease_id)
        released = ReleaseLease.Response(success=True, message="released")
        self.hold(over, lambda _: released, ReleaseLease.Response(pending=True), give)

    def touch(self, request: TouchSlot.Request, give: Callable[[TouchSlot.Response], None]) -> None:
        touch = Touch(
            request.touch,
            request.seed,
            request.task,
            tuple(request.wanted),
            np.frombuffer(request.actions, np.float64),
        )
        try:
            outcome = self._desk.touch(request.lease_id, request.slot, request.number, touch)
        except LeaseError as error:
            give(TouchSlot.Response(error="lease", message=str(error)))
            return
        describe = partial(_describe_touch, request.slot)
        self.hold(outcome, describe, TouchSlot.Response(pending=True), give)

    def hold(
        self,
        outcome: Future[Result],
        make: Callable[[Future[Result]], Response],
        pending: Response,
        give: Callable[[Response], None],
    ) -> None:
        """Answer when the outcome is there, on its thread, or with `pending` by `answer_late`.

        make: returns the response to a future that is done. give: sends a response; from any thread.
        """
        held = _Held(give, pending, self._now_s() + self._hold_s)

        def answer(done: Future[Result]) -> None:
            if not held.is_given:  # else it was answered "pending", and its client repeats it
                held.give(make(done))

        outcome.add_done_callback(answer)
        if not held.is_given:
            self._held.append(held)

    def answer_late(self) -> None:
        """Answer the requests that have waited long enough; to be called several times a second."""
        now_s = self._now_s()
        for held in self._held:
            if held.until_s <= now_s:
                held.give(held.pending)
        self._held = [held for held in self._held if not held.is_given]


def _describe_lease(whole: Future[Grant]) -> LeaseEnvironments.Response:
    if (error := whole.exception()) is not None:
        return LeaseEnvironments.Response(message=str(error))
    grant = whole.result()
    return LeaseEnvironments.Response(
        success=True,
        slots=grant.slots,
        process_ids=[process_id or 0 for process_id in grant.process_ids],
        lease_s=grant.lease_s,
        spec=bytes_field(pack(spec_to_map(grant.spec))),
    )


def _describe_touch(slot: int, outcome: Future[bytes]) -> TouchSlot.Response:
    error = outcome.exception()
    if error is None:
        return TouchSlot.Response(result=bytes_field(outcome.result()))
    if isinstance(error, LeaseError):
        return TouchSlot.Response(error="lease", message=str(error))
    kind = "" if isinstance(error, EnvError) else f"slot {slot}: {type(error).__name__}: "
    return TouchSlot.Response(error="environment", message=f"{kind}{error}")


CHECK_PERIOD_S = 0.1
LOAD_PERIOD_S = 1.0
MOST_SLOTS = 256


class PoolConfig(NodeParameters):
    """The pool's parameters."""

    environment: EnvironmentName
    options: EnvironmentOptions = "{}"
    slots: Annotated[
        int, Field(ge=1, le=MOST_SLOTS, description="simulators, each in a process of its own")
    ] = 8
    lease_s: Annotated[
        float, Field(ge=1.0, le=3600.0, description="time after which a lease ends that nobody renews [s]")
    ] = LEASE_S


class EnvironmentPool(Node):
    """The node around SlotPool. Raises StartupError when a slot cannot be started."""

    def __init__(self) -> None:
        super().__init__("environment_pool")
        self.exit_code: int | None = None
        self.schedule = TimerSchedule()
        config = declare_parameters(self, PoolConfig)
        options = read_options(config.options)
        self._pool = SlotPool(
            lambda: ProcessEnvironment(config.environment, options), config.slots, lease_s=config.lease_s
        )
        self._answers = PoolAnswers(self._pool)
        self._load = ""
        try:
            self._start_slots(config.slots)
        except BaseException:
            self.close()
            raise
        self._serve(LeaseEnvironments, "lease_environments", self._answers.lease)
        self._serve(RenewLease, "renew_lease", self._answers.renew)
        self._serve(ReleaseLease, "release_lease", self._answers.release)
        self._serve(TouchSlot, "touch_slot", self._answers.touch)
        self.schedule.every(CHECK_PERIOD_S, self._check_time)
        self.schedule.every(LOAD_PERIOD_S, self._log_load)
        self.get_logger().info(f"{config.environment}: {config.slots} slots are ready")

    def close(self) -> None:
        """End all leases and simulators; waiting clients get an answer."""
        try:
            self._pool.close()
        except EnvError as error:
            self.get_logger().error(str(error))

    def _start_slots(self, count: int) -> None:
        lease_id, whole = self._pool.lease("the node itself", count)
        while not whole.done():
            if is_stopping():
                raise StartupError("it was asked to end")
            wait([whole], STOP_POLL_S)
        try:
            whole.result()
        except LeaseError as error:
            raise StartupError(str(error)) from error
        released = self._pool.release(lease_id)
        if not wait([released], CLOSE_S).done:
            raise StartupError(f"{self._pool.describe_load()}: not free again within {CLOSE_S:g} s")
        released.result()

    def _serve(self, kind: Any, name: str, respond: Callable[[Any, Callable[[Any], None]], None]) -> None:
        create_deferred_service(
            self, kind, f"~/{name}", lambda request, answer: respond(request, answer.send)
        )

    def _check_time(self) -> None:
        self._answers.answer_late()
        for reason in self._pool.expire():
            self.get_logger().warning(f"a lease has ended: {reason}")

    def _log_load(self) -> None:
        before, self._load = self._load, self._pool.describe_load()
        if self._load != before:
            self.get_logger().info(f"slots: {self._load}")


def main(args: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    return run_node(EnvironmentPool, args)
