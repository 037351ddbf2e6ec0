# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reaches the services of an environment_pool: rollouts in simulators of another machine.

async with RolloutPool(connect_to_pool("/environment_pool"), 8) as pool:
    group = await pool.run_group(policy, seed=7)
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.context import Context
from rclpy.exceptions import NameValidationException

from remote_inference.base.clients.operator_client import deferred_signals
from remote_inference.base.nodes.executors import add_node, make_executor
from remote_inference.base.nodes.runtime import end_client
from remote_inference.learn.environment import EnvError
from remote_inference.learn.rollouts.ros_transport import RosTransport
from remote_inference.srv import LeaseEnvironments, ReleaseLease, RenewLease, TouchSlot

SERVICES = {
    "lease_environments": LeaseEnvironments,
    "release_lease": ReleaseLease,
    "renew_lease": RenewLease,
    "touch_slot": TouchSlot,
}
SPIN_S = 0.1  # longest time until `close` is noticed
JOIN_S = 10.0  # until a thread that does not end is given up


class PoolClient:
    """A node with its own context and thread, for one pool. See PoolServices."""

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
        if self._stop.is_set():
            raise EnvError(f"{self.pool}: the connection is closed")
        return self._clients[service].service_is_ready()

    def send(self, service: str, request: Any, on_response: Callable[[Any], None]) -> Callable[[], None]:
        client = self._clients[service]
        future = client.call_async(request)
        future.add_done_callback(lambda answered: on_response(answered.result()))
        return partial(client.remove_pending_request, future)

    def warn(self, text: str) -> None:
        self._node.get_logger().warning(text)

    def close(self) -> None:
        self._stop.set()
        self._thread.join(JOIN_S)
        if self._thread.is_alive():  # its entities are in use
            raise EnvError(f"{self.pool}: its client did not end within {JOIN_S:g} s")
        end_client(self._node, self._executor, self._context)

    def _spin(self) -> None:
        while not self._stop.is_set():
            self._executor.spin_once(timeout_sec=SPIN_S)


def connect_to_pool(pool: str) -> RosTransport:
    """Return a transport to the slots of an environment_pool, by the full name of its node.

    The client's node is started by the first lease and ends with the transport.
    """
    return RosTransport(partial(PoolClient, pool))
