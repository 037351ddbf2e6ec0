# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Slots on the machines of a Ray cluster: an actor each, in a placement group that is reserved as a whole.

Ray moves Python objects as pickles between its processes: a cluster is one program on several machines, and
who may join it may run code on all of them.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Any

from remote_inference.learn.environments.process_environment import Host, HostedEnvironment
from remote_inference.learn.environments.runners import Timeouts
from remote_inference.learn.rollouts.slots import LeaseError, Slots

DISTRIBUTION = "ros-remote-inference"
RESERVE_S = 30.0  # for the cluster to reserve a whole group
CLUSTER_S = 60.0  # for the cluster to answer at all
REACH_S = 5.0  # for its port


def describe_host() -> dict[str, str]:
    """Return what must be the same where a policy and its environments run."""
    return {"Python": platform.python_version(), DISTRIBUTION: version(DISTRIBUTION)}


class RayHost:
    """The actor of a slot."""

    def __init__(self) -> None:
        self._host = Host()

    def introduce(self) -> dict[str, Any]:
        return {"node": platform.node(), "process_id": os.getpid(), "versions": describe_host()}

    def answer(self, method: str, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._host.answer(method, call)


class RayEnvironment(HostedEnvironment):
    """The environment of an actor in one place of a placement group."""

    def __init__(
        self, group: Any, place: int, name: str, options: Mapping[str, Any], timeouts: Timeouts | None
    ) -> None:
        super().__init__(name, options, timeouts)
        self._ray = import_module("ray")
        scheduling = import_module("ray.util.scheduling_strategies")
        strategy = scheduling.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=place)
        self._actors = self._ray.remote(RayHost).options(
            num_cpus=1, max_restarts=0, scheduling_strategy=strategy
        )
        self._actor: Any = None
        self._process_id: int | None = None
        self._node = "no node"

    @property
    def process_id(self) -> int | None:
        return self._process_id

    def _launch(self) -> None:
        self._actor = self._actors.remote()
        said = self._wait("start", self._timeouts.make_s, self._actor.introduce.remote())
        self._node, self._process_id = said["node"], said["process_id"]
        for what, expected in describe_host().items():
            if (found := said["versions"].get(what)) != expected:
                raise self._lose(f"found {what} {found}, expected {expected} as here")

    def _exchange(self, method: str, timeout_s: float, call: Mapping[str, Any]) -> dict[str, Any]:
        return self._wait(method, timeout_s, self._actor.answer.remote(method, dict(call)))

    def _wait(self, method: str, timeout_s: float, result: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._ray.get(result, timeout=timeout_s)
        except self._ray.exceptions.GetTimeoutError as error:
            raise self._lose(f"{method} took longer than {timeout_s:g} s") from error
        except self._ray.exceptions.RayError as error:  # the actor or its node has died, or cannot be made
            reason = str(error).strip().splitlines()[0]
            raise self._lose(f"{method}: its process has ended ({type(error).__name__}: {reason})") from error
        return answer

    def _lose(self, reason: str) -> Any:
        return super()._lose(f"node {self._node}: {reason}")

    def _kill(self) -> None:
        if (actor := self._actor) is not None:
            self._ray.kill(actor)

    def _end(self, grace_s: float) -> None:  # noqa: ARG002  an actor has nothing to say at its end
        self._kill()
        self._actor, self._process_id = None, None


class RayTransport:
    """Slots of a cluster: one CPU each, wherever they are free, reserved together or not at all."""

    def __init__(
        self,
        address: str,
        environment: str,
        options: Mapping[str, Any],
        *,
        reserve_s: float = RESERVE_S,
        timeouts: Timeouts | None = None,
    ) -> None:
        """address: `ray://HOST:PORT`, or `auto` for this machine's cluster. reserve_s: waits for slots."""
        self._address, self._environment, self._options = address, environment, dict(options)
        self._reserve_s, self._timeouts = reserve_s, timeouts
        self._has_connected = False
        self._held: list[Slots] = []

    async def lease(self, holder: str, count: int) -> Slots:  # noqa: ARG002  Ray's dashboard tells the holder
        await self._connect()
        reserving = asyncio.create_task(asyncio.to_thread(self._reserve, count))
        try:
            group = await asyncio.shield(reserving)
        except asyncio.CancelledError:
            reserving.add_done_callback(self._give_back)
            raise
        environments = [
            RayEnvironment(group, place, self._environment, self._options, self._timeouts)
            for place in range(count)
        ]
        slots = Slots(environments, lambda: self._remove(group))
        self._held.append(slots)
        await slots.connect()
        return slots

    async def close(self) -> None:
        held, self._held = self._held, []
        for slots in held:
            await slots.release()
        if self._has_connected:
            self._has_connected = False
            await asyncio.to_thread(import_module("ray").shutdown)

    async def _connect(self) -> None:
        try:
            ray = import_module("ray")
        except ImportError as error:
            expected = f"it installed: pip install '{DISTRIBUTION}[cluster]'"
            raise LeaseError(f"ray: found none, expected {expected}") from error
        if ray.is_initialized():  # by the program itself, which ends it, too
            return
        try:
            await self._reach()  # Ray itself tries for a minute
            joining = asyncio.to_thread(ray.init, address=self._address, log_to_driver=False)
            await asyncio.wait_for(joining, CLUSTER_S)
        except (asyncio.TimeoutError, OSError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split()) or f"no answer in {CLUSTER_S:g} s"
            raise LeaseError(f"{self._address}: found no Ray cluster ({reason})") from error
        self._has_connected = True

    async def _reach(self) -> None:
        """Raise OSError when nobody listens at the address."""
        host, _, port = self._address.removeprefix("ray://").rpartition(":")
        if host and port.isdecimal():
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), REACH_S)
            writer.close()

    def _reserve(self, count: int) -> Any:
        ray, groups = import_module("ray"), import_module("ray.util.placement_group")
        group = groups.placement_group([{"CPU": 1.0}] * count, strategy="SPREAD")
        try:
            ray.get(group.ready(), timeout=self._reserve_s)
        except ray.exceptions.GetTimeoutError as error:
            groups.remove_placement_group(group)
            free, most = (each().get("CPU", 0.0) for each in (ray.available_resources, ray.cluster_resources))
            found = f"lease: found {count} slots asked for; {free:g} of {most:g} CPUs are free"
            raise LeaseError(f"{found} within {self._reserve_s:g} s on {self._address}") from error
        return group

    def _give_back(self, reserving: asyncio.Task[Any]) -> None:
        if not reserving.cancelled() and reserving.exception() is None:
            self._remove(reserving.result())

    @staticmethod
    def _remove(group: Any) -> None:
        if sys.is_finalizing() or not import_module("ray").is_initialized():
            return
        import_module("ray.util.placement_group").remove_placement_group(group)
