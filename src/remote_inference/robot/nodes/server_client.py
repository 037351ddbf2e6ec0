# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's client of its policy servers: calls their services, and receives their status.

Answers and status go to the engine, on the worker's thread. A call whose answer never comes, which rmw_zenoh
allows, is cancelled after the deadline; the engine keeps a deadline of its own.
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

from remote_inference.base.exchange import LOADING, SessionOffer
from remote_inference.base.nodes.executors import as_task
from remote_inference.base.wire.qos import LATCHED_QOS
from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.base.wire.session import offer_to_request, reply_from_response, status_from_response
from remote_inference.msg import ServerStatus
from remote_inference.robot.engine import Engine
from remote_inference.robot.nodes.operator import Submit
from remote_inference.robot.safety.effects import Effect
from remote_inference.srv import CloseSession, GetStatus, OpenSession, ResetSession

SERVICES = {
    "get_status": GetStatus,
    "open_session": OpenSession,
    "close_session": CloseSession,
    "reset_session": ResetSession,
}
# rmw_zenoh may deliver what was published before we came after what came since. What is older by more tells
# of a clock that was set.
LATE_NS = 5_000_000_000

Take = Callable[[Any], list[Effect]]  # hands the engine an answer, or None without an answer


class ServerClient:
    """Service clients and status subscriptions for every server of the list.

    The methods are called on the worker's thread.
    """

    def __init__(
        self, node: Node, engine: Engine, servers: Sequence[str], timeout_s: float, submit: Submit
    ) -> None:
        self._node = node
        self._engine = engine
        self._timeout_s = timeout_s
        self._submit = submit
        self._clients: dict[tuple[str, str], Client] = {
            (server, service): node.create_client(service_type, f"{server}/{service}")
            for server in servers
            for service, service_type in SERVICES.items()
        }
        for server in servers:
            take = partial(self._on_status, server)
            node.create_subscription(ServerStatus, f"{server}/status", take, LATCHED_QOS)
        self._newest: dict[str, tuple[str, int]] = {}  # by server: its instance, and the stamp of its status
        self._pending: dict[Future, tuple[Client, float]] = {}
        self._lock = threading.Lock()

    def get_status(self, server: str) -> None:
        def take(answer: GetStatus.Response | None) -> list[Effect]:
            reply = None if answer is None else status_from_response(answer)
            return self._engine.take_status_reply(server, reply, time.monotonic_ns())

        self._call(server, "get_status", GetStatus.Request(), take)

    def open_session(self, server: str, offer: SessionOffer) -> None:
        def take(answer: OpenSession.Response | None) -> list[Effect]:
            reply = None if answer is None else reply_from_response(answer)
            return self._engine.take_session_reply(server, offer.session_epoch, reply, time.monotonic_ns())

        self._call(server, "open_session", offer_to_request(offer), take)

    def close_session(self, server: str, session_id: str, session_token: str) -> None:
        request = CloseSession.Request(session_id=session_id, session_token=session_token)
        self._call(server, "close_session", request, lambda _: [])

    def reset_session(self, server: str, session_id: str, episode_id: int, session_token: str) -> None:
        def take(answer: ResetSession.Response | None) -> list[Effect]:
            acknowledged = answer is not None and answer.reset
            message = "no answer" if answer is None else answer.message
            return self._engine.take_reset_reply(episode_id, acknowledged, message)

        request = ResetSession.Request(
            session_id=session_id, episode_id=episode_id, session_token=session_token
        )
        self._call(server, "reset_session", request, take)

    @property
    def waiting(self) -> bool:
        """True while an answer is outstanding."""
        return bool(self._pending)

    def _call(self, server: str, service: str, request: Any, take: Take) -> None:
        """Call a service; the answer is None at once when no server of this name is known."""
        client = self._clients[server, service]
        if not client.service_is_ready():
            self._submit(lambda: take(None))
            return
        future = client.call_async(request)
        with self._lock:
            self._pending[future] = (client, time.monotonic() + self._timeout_s)
        future.add_done_callback(as_task(self._node, lambda done: self._finish(done, take)))

    def _on_status(self, server: str, status: ServerStatus) -> None:
        stamp = stamp_ns(status)
        instance, newest = self._newest.get(server, ("", 0))
        if status.instance_id == instance and newest - LATE_NS <= stamp < newest:
            return
        self._newest[server] = status.instance_id, stamp
        instance, accepting, loading = status.instance_id, status.accepting, status.lifecycle_state == LOADING
        sessions = tuple(status.sessions)
        policy = (status.policy_name, *status.tags) if status.policy_name else ()
        self._submit(
            lambda: self._engine.take_server_status(
                server,
                instance,
                sessions,
                time.monotonic_ns(),
                accepting=accepting,
                loading=loading,
                policy=policy,
            )
        )

    def _finish(self, future: Future, take: Take) -> None:
        with self._lock:
            self._pending.pop(future, None)
        if not future.cancelled():
            answer = future.result()
            self._submit(lambda: take(answer))

    def cancel_overdue(self) -> None:
        """Give up the calls whose answers did not come in time; to be called about every `timeout_s`."""
        now_s = time.monotonic()
        with self._lock:
            late = [future for future, (_, deadline_s) in self._pending.items() if now_s >= deadline_s]
            overdue = [(future, self._pending.pop(future)[0]) for future in late]
        for future, client in overdue:
            client.remove_pending_request(future)
            future.cancel()
