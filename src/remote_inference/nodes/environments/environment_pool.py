# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `environment_pool`: simulators of one kind, each in a process, that trainers elsewhere lease.

    environment_pool --ros-args -p environment:=belt_arm -p slots:=8

All slots are started before anybody is served: a mistake in the parameters ends the node at once, and a lease
takes no longer than a reset.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import wait
from typing import Annotated, Any

from pydantic import Field
from rclpy.node import Node

from remote_inference.core.environment import EnvError
from remote_inference.core.leases import LeaseError
from remote_inference.environments.process_environment import ProcessEnvironment
from remote_inference.environments.slot_pool import CLOSE_S, LEASE_S, SlotPool
from remote_inference.nodes.environments.environment_options import (
    EnvironmentName,
    EnvironmentOptions,
    read_options,
)
from remote_inference.nodes.environments.pool_answers import PoolAnswers
from remote_inference.nodes.later_service import create_later_service
from remote_inference.nodes.parameters import NodeParameters, declare_parameters
from remote_inference.nodes.runtime import STOP_POLL_S, StartupError, is_stopping, run_node
from remote_inference.nodes.schedule import Schedule
from remote_inference.srv import LeaseEnvironments, ReleaseLease, RenewLease, TouchSlot

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
        self.schedule = Schedule()
        config = declare_parameters(self, PoolConfig)
        options = read_options(config.options)
        self._pool = SlotPool(
            lambda: ProcessEnvironment(config.environment, options, starts_now=False),
            config.slots,
            lease_s=config.lease_s,
        )
        self._answers = PoolAnswers(self._pool)
        self._load = ""
        try:
            self._start_slots()
        except BaseException:
            self.close()
            raise
        self._serve(LeaseEnvironments, "lease_environments", self._answers.lease)
        self._serve(RenewLease, "renew_lease", self._answers.renew)
        self._serve(ReleaseLease, "release_lease", self._answers.release)
        self._serve(TouchSlot, "touch_slot", self._answers.touch)
        self.schedule.every(CHECK_PERIOD_S, self._look_at_the_clock)
        self.schedule.every(LOAD_PERIOD_S, self._tell_load)
        self.get_logger().info(f"{config.environment}: {config.slots} slots are ready")

    def close(self) -> None:
        """End all leases and simulators; who waits is answered."""
        try:
            self._pool.close()
        except EnvError as error:
            self.get_logger().error(str(error))

    def _start_slots(self) -> None:
        lease_id, whole = self._pool.lease("the node itself", self._pool.slots)
        while not whole.done():
            if is_stopping():
                raise StartupError("it was told to end")
            wait([whole], STOP_POLL_S)
        try:
            whole.result()
        except LeaseError as error:
            raise StartupError(str(error)) from error
        released = self._pool.release(lease_id)
        if not wait([released], CLOSE_S).done:
            raise StartupError(f"{self._pool.describe_load()}: not free again within {CLOSE_S:g} s")
        released.result()

    def _serve(self, kind: Any, name: str, take: Callable[[Any, Callable[[Any], None]], None]) -> None:
        create_later_service(self, kind, f"~/{name}", lambda request, answer: take(request, answer.give))

    def _look_at_the_clock(self) -> None:
        self._answers.answer_late()
        for reason in self._pool.expire():
            self.get_logger().warning(f"a lease has ended: {reason}")

    def _tell_load(self) -> None:
        before, self._load = self._load, self._pool.describe_load()
        if self._load != before:
            self.get_logger().info(f"slots: {self._load}")


def main(args: list[str] | None = None) -> int:
    """Serve until a signal; return the exit code."""
    return run_node(EnvironmentPool, args)
