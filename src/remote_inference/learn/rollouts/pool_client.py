# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reaches the slots of an environment_pool by its services: rollouts in simulators of another machine.

async with RolloutPool(connect_to_pool("/environment_pool"), 8) as pool:
    group = await pool.run_group(policy, seed=7)

Requests and answers may be lost, and a service that has died never answers. So each call has an id and is
repeated until it is answered; the pool carries it out once. A pool that works answers that the call is
pending: one that is silent for a while is gone.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, TypeVar

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.context import Context
from rclpy.exceptions import NameValidationException

from remote_inference.base.clients.operator_client import deferred_signals
from remote_inference.base.nodes.executors import add_node, make_executor
from remote_inference.base.nodes.runtime import end_client
from remote_inference.base.wire.arrays import ByteBuffer, WireError, float64_field
from remote_inference.learn.environment import EnvError, EnvironmentObservation, Step
from remote_inference.learn.environments.policy_view import Actions
from remote_inference.learn.environments.process_environment import MAX_FRAME_BYTES, Touch, spec_from_map
from remote_inference.learn.leases import LeaseError
from remote_inference.learn.rollouts.transport import LeasedSlots
from remote_inference.server.frameworks.openpi import unpack_map
from remote_inference.srv import LeaseEnvironments, ReleaseLease, RenewLease, TouchSlot

Result = TypeVar("Result")

ANSWER_BYTES = 8_000_000  # of one answer, or one step: a larger one would come late, and be sent again
POLL_S = 0.05  # between checks for a service that is not known yet

SERVICES = {
    "lease_environments": LeaseEnvironments,
    "release_lease": ReleaseLease,
    "renew_lease": RenewLease,
    "touch_slot": TouchSlot,
}
SPIN_S = 0.1  # longest time until `close` is noticed
JOIN_S = 10.0  # until a thread that does not end is given up


class PoolClient:
    """A node with its own context and thread, for the services of one pool. For any thread."""

    def __init__(self, pool: str) -> None:
        """Start the node. pool: full name of the pool's node. Raises EnvError when that is impossible."""
        self.pool = f"/{pool.strip('/')}"
        self._context = Context()
        try:
            with deferred_signals():
                rclpy.init(context=self._context)
                self._node = rclpy.create_node(f"rollouts_{secrets.token_hex(4)}", context=self._context)
                self._clients = {
                    name: self._node.create_client(kind, f"{self.pool}/{name}")
                    for name, kind in SERVICES.items()
                }
                self._executor, _ = make_executor("single", self._context)
                add_node(self._executor, self._node)
        except (RCLError, NameValidationException) as error:
            raise EnvError(f"{self.pool}: cannot be reached: {error}") from error
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._spin, name="pool_client", daemon=True)
        self._thread.start()

    def is_ready(self, service: str) -> bool:
        """Return whether a service is known, by its name relative to the pool."""
        if self._stop.is_set():
            raise EnvError(f"{self.pool}: the connection is closed")
        return self._clients[service].service_is_ready()

    def send(self, service: str, request: Any, on_response: Callable[[Any], None]) -> Callable[[], None]:
        """Send a request; return what forgets it. on_response: called on another thread, or never."""
        client = self._clients[service]
        future = client.call_async(request)
        future.add_done_callback(lambda answered: on_response(answered.result()))
        return partial(client.remove_pending_request, future)

    def warn(self, text: str) -> None:
        self._node.get_logger().warning(text)

    def close(self) -> None:
        """End the node; may block. Raises EnvError when that fails."""
        self._stop.set()
        self._thread.join(JOIN_S)
        if self._thread.is_alive():  # its entities are in use
            raise EnvError(f"{self.pool}: its client did not end within {JOIN_S:g} s")
        end_client(self._node, self._executor, self._context)

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=SPIN_S)


@dataclass(frozen=True)
class Patience:
    """How long a pool is waited for [s].

    repeat_s: until a request that nobody answers is sent again. silent_s: until a service that is not known
    is given up, and from the first request on a silent pool. longest_s: until a call is given up
    that the pool calls pending; its own limits are far lower.
    """

    repeat_s: float = 1.5
    silent_s: float = 10.0
    longest_s: float = 3600.0


class RosTransport:
    """Leases slots of an environment_pool. See Transport."""

    def __init__(self, connect: Callable[[], PoolClient], patience: Patience | None = None) -> None:
        """connect: called by the first lease; raises EnvError."""
        self._connect = connect
        self._patience = patience or Patience()
        self._services: PoolClient | None = None
        self._releases: set[asyncio.Task[None]] = set()  # of leases that nobody took

    async def lease(self, holder: str, count: int) -> RosSlots:
        if self._services is None:
            self._services = self._connect()
        calls = PoolCalls(self._services, self._patience)
        lease_id = secrets.token_hex(16)
        request = LeaseEnvironments.Request(lease_id=lease_id, holder=holder, count=count)
        try:
            response = await calls.ask("lease_environments", request)
            slots = RosSlots(calls, lease_id, response) if response.success else None
        except BaseException:  # it may have been granted, and the answer lost
            self._release_later(calls, lease_id)
            raise
        if slots is None:
            raise LeaseError(response.message)
        return slots

    async def close(self) -> None:
        services, self._services = self._services, None
        if self._releases:
            _, late = await asyncio.wait(self._releases, timeout=2 * self._patience.silent_s)
            for task in late:
                task.cancel()
        if services is not None:
            await asyncio.to_thread(services.close)

    def _release_later(self, calls: PoolCalls, lease_id: str) -> None:
        async def release() -> None:
            with suppress(EnvError):  # the first error matters, and the lease expires by itself
                await calls.ask("release_lease", ReleaseLease.Request(lease_id=lease_id))

        task = asyncio.get_running_loop().create_task(release())
        self._releases.add(task)
        task.add_done_callback(self._releases.discard)


class RosSlots(LeasedSlots):
    """The slots of a lease of an environment_pool."""

    def __init__(self, calls: PoolCalls, lease_id: str, granted: Any) -> None:
        """granted: the response to the lease. Raises EnvError when it cannot be read."""
        self.spec = calls.read(granted.spec, lambda data: spec_from_map(unpack_map(data, MAX_FRAME_BYTES)))
        self.slots = tuple(granted.slots)
        self.process_ids = tuple(process_id or None for process_id in granted.process_ids)
        self.lease_s = granted.lease_s
        self._calls = calls
        self._lease_id = lease_id
        self._numbers = [count(1) for _ in self.slots]
        self._most = [1 for _ in self.slots]  # actions of one touch; more when observations are small
        self._locks = [asyncio.Lock() for _ in self.slots]  # a pool answers the last touch of a slot alone

    async def reset(self, index: int, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        if not 0 <= seed < 2**64:
            raise EnvError(f"{self.spec.name}: found seed {seed}, expected 0 to 2**64 - 1")
        return await super().reset(index, seed, task, wanted)

    async def execute(self, index: int, actions: Actions) -> Sequence[Step]:
        steps: list[Step] = []
        async with self._locks[index]:
            most = self._most[index]
            for first in range(0, len(actions), most):
                steps += await self._touch(index, Touch("execute", actions=actions[first : first + most]))
                if steps[-1].ended:
                    break
        return steps

    async def touch(self, index: int, touch: Touch) -> Any:
        async with self._locks[index]:
            return await self._touch(index, touch)

    async def renew(self) -> None:
        response = await self._calls.ask("renew_lease", RenewLease.Request(lease_id=self._lease_id))
        if not response.success:
            raise LeaseError(response.message)

    async def release(self) -> None:
        await self._calls.ask("release_lease", ReleaseLease.Request(lease_id=self._lease_id))

    async def _touch(self, index: int, touch: Touch) -> Any:
        """Return what a touch shows; its slot's lock is held. Raises EnvError or LeaseError."""
        request = TouchSlot.Request(
            lease_id=self._lease_id,
            slot=self.slots[index],
            number=next(self._numbers[index]),
            touch=touch.kind,
            seed=touch.seed,
            task=touch.task,
            wanted=list(touch.wanted),
            actions=float64_field(touch.actions),
        )
        response = await self._calls.ask("touch_slot", request)
        if response.error:
            raise (LeaseError if response.error == "lease" else EnvError)(response.message)
        if touch.kind == "reset":
            self._most[index] = max(1, ANSWER_BYTES // len(response.result))
        return self._calls.read(response.result, touch.read)


class PoolCalls:
    """Calls that are repeated until they are answered, or the pool is silent for too long."""

    def __init__(self, services: PoolClient, patience: Patience) -> None:
        self._services = services
        self._patience = patience

    async def ask(self, service: str, request: Any) -> Any:
        """Return the final answer to a call that carries an id. Raises EnvError when there is none."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._patience.longest_s
        while True:
            response = await self._ask(service, request)
            if not getattr(response, "pending", False):
                return response
            if loop.time() > end_s:
                raise self._error(service, f"was pending for {self._patience.longest_s:g} s")

    def read(self, result: ByteBuffer, read: Callable[[bytes], Result]) -> Result:
        """Return what a pool has packed. Raises EnvError when it cannot be read."""
        try:
            return read(bytes(result))
        except (WireError, KeyError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise EnvError(f"{self._services.pool}: its answer cannot be read: {reason}") from error

    async def _ask(self, service: str, request: Any) -> Any:
        """Return the next answer, to whichever of the requests it is."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Any] = loop.create_future()
        end_s = loop.time() + self._patience.silent_s
        sent: list[Callable[[], None]] = []
        try:
            while loop.time() < end_s:
                wait_s = POLL_S
                if self._services.is_ready(service):
                    if not sent:
                        end_s = loop.time() + self._patience.silent_s  # the answer has a time of its own
                    else:
                        self._services.warn(f"{self._services.pool}/{service}: no answer, asked again")
                    sent.append(self._services.send(service, request, partial(_hand_over, loop, answered)))
                    wait_s = self._patience.repeat_s
                await asyncio.wait({answered}, timeout=min(wait_s, end_s - loop.time()))
                if answered.done():
                    return answered.result()
            await asyncio.sleep(0)  # where others kept the loop, an answer may have come meanwhile
            if answered.done():
                return answered.result()
        finally:
            for forget in sent:
                forget()
        found = "no answer" if sent else "no such service"
        raise self._error(service, f"found {found} within {self._patience.silent_s:g} s")

    def _error(self, service: str, what: str) -> EnvError:
        return EnvError(f"{self._services.pool}/{service}: {what}")


def _hand_over(loop: asyncio.AbstractEventLoop, answered: asyncio.Future[Any], response: Any) -> None:
    def give() -> None:
        if not answered.done():
            answered.set_result(response)

    with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
        loop.call_soon_threadsafe(give)


def connect_to_pool(pool: str) -> RosTransport:
    """Return a transport to the slots of an environment_pool, by the full name of its node.

    The client's node is started by the first lease and ends with the transport.
    """
    return RosTransport(partial(PoolClient, pool))
