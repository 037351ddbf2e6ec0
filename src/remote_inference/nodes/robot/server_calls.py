# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's calls to its policy servers and the watch on their presence.

A call's answer is handed to a callback on the executor's thread. An answer that never comes, which rmw_zenoh
allows, is cancelled after the deadline; the engine keeps its own and does not depend on this one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from rclpy.task import Future

from remote_inference.msg import ServerStatus
from remote_inference.nodes.graph import identify_endpoints
from remote_inference.nodes.runtime import STEADY_CLOCK
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession
from remote_inference.wire.qos import CHUNK_TOPIC, LATCHED_QOS, OBSERVATION_TOPIC

SERVICES = {
    "get_status": GetStatus,
    "open_session": OpenSession,
    "close_session": CloseSession,
    "reset_session": ResetSession,
}


class ServerCalls:
    """Service clients and status subscriptions for every server of the list."""

    def __init__(
        self,
        node: Node,
        servers: Sequence[str],
        timeout_s: float,
        on_status: Callable[[str, ServerStatus], None],
    ) -> None:
        """on_status: called on the executor's thread with the server's name and its status."""
        self._timeout_s = timeout_s
        self._clients: dict[tuple[str, str], Client] = {
            (server, service): node.create_client(service_type, f"{server}/{service}")
            for server in servers
            for service, service_type in SERVICES.items()
        }
        for server in servers:
            node.create_subscription(
                ServerStatus,
                f"{server}/status",
                partial(on_status, server),
                LATCHED_QOS,
            )
        self._pending: dict[Future, tuple[Client, float]] = {}
        self._lock = threading.Lock()
        node.create_timer(timeout_s, self._cancel_overdue, clock=STEADY_CLOCK)

    def call(self, server: str, service: str, request: Any, on_answer: Callable[[Any | None], None]) -> None:
        """Call a service. `on_answer` gets the response, or None at once when no such server is known."""
        client = self._clients[server, service]
        if not client.service_is_ready():
            on_answer(None)
            return
        future = client.call_async(request)
        with self._lock:
            self._pending[future] = (client, time.monotonic() + self._timeout_s)
        future.add_done_callback(lambda done: self._finish(done, on_answer))

    @property
    def waiting(self) -> bool:
        """True while an answer is outstanding."""
        return bool(self._pending)

    def _finish(self, future: Future, on_answer: Callable[[Any | None], None]) -> None:
        with self._lock:
            self._pending.pop(future, None)
        if not future.cancelled():
            on_answer(future.result())

    def _cancel_overdue(self) -> None:
        now_s = time.monotonic()
        with self._lock:
            overdue = [
                (f, client) for f, (client, deadline_s) in self._pending.items() if now_s >= deadline_s
            ]
        for future, client in overdue:
            client.remove_pending_request(future)
            future.cancel()
            with self._lock:
                self._pending.pop(future, None)


class Presence:
    """Whether the server's endpoints for this robot are there, both ways.

    A killed server's endpoints may linger in the graph; only those that appeared after `expect` count.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._own_name = node.get_fully_qualified_name()
        self._chunk_topic = node.resolve_topic_name(CHUNK_TOPIC)
        self._observation_topic = node.resolve_topic_name(OBSERVATION_TOPIC)
        self._old: frozenset[bytes] = frozenset()

    def expect(self) -> None:
        """Let only endpoints count that are not there yet."""
        self._old = frozenset(gid for _, gid in self._publishers() | self._subscribers())

    def check(self, server: str) -> bool:
        """Tell whether `server` publishes chunks for this robot and subscribes to its observations."""
        return all(
            any(name == server and gid not in self._old for name, gid in endpoints)
            for endpoints in (self._publishers(), self._subscribers())
        )

    def has_rival(self) -> bool:
        """Tell whether another node of our name publishes this robot's observations."""
        publishers = self._node.get_publishers_info_by_topic(self._observation_topic)
        return sum(name == self._own_name for name, _ in identify_endpoints(publishers)) > 1

    def _publishers(self) -> set[tuple[str, bytes]]:
        return identify_endpoints(self._node.get_publishers_info_by_topic(self._chunk_topic))

    def _subscribers(self) -> set[tuple[str, bytes]]:
        return identify_endpoints(self._node.get_subscriptions_info_by_topic(self._observation_topic))
