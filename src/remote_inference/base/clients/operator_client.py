# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A short-lived node that reads the graph and latched states, and calls services, with deadlines."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy._rclpy_pybind11 import RCLError
from rclpy.client import Client
from rclpy.context import Context
from rclpy.qos import QoSProfile
from rclpy.task import Future
from typing_extensions import Self

from remote_inference.base import fast_dds
from remote_inference.base.errors import UserError
from remote_inference.base.exchange import in_namespace
from remote_inference.base.limits import visible
from remote_inference.base.nodes.executors import add_node, make_executor
from remote_inference.base.nodes.graph import UNKNOWN_NODE, full_name
from remote_inference.base.nodes.runtime import end_client
from remote_inference.base.stop_signals import common_signals, handle

ROBOT_NODE = "remote_inference"  # in the robot's namespace
STATUS_TYPE = "remote_inference/msg/ServerStatus"
POLL_S = 0.05
RETRY_S = 1.0  # after this time a request that only reads is sent again
SETTLE_S = 1.0  # discovery ends when no name was new for this time


class OperatorError(UserError):
    """A service did not answer or refused, or a condition did not come true in time."""


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Handle signals after the block: an exception within rclpy leaves half-made objects behind."""
    if threading.current_thread() is not threading.main_thread():  # signals are handled there alone
        yield
        return
    arrived: list[int] = []
    handlers = {number: signal.getsignal(number) for number in common_signals()}
    handle(handlers, lambda number, _frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for caught in arrived[:1]:
        signal.raise_signal(caught)


def visible_message(message: Any, *, in_lines: bool = False) -> Any:
    """Return a message of this package with its texts as `visible` shows them; others stay as they are."""
    if isinstance(message, str):
        return visible(message, in_lines=in_lines)
    if isinstance(message, list):
        return [visible_message(one, in_lines=in_lines) for one in message]
    if type(message).__module__.startswith("remote_inference."):
        for name in message.get_fields_and_field_types():
            setattr(message, name, visible_message(getattr(message, name), in_lines=in_lines))
    return message


class OperatorClient:
    """An rclpy node with its own context; a context manager. It receives messages only while it waits."""

    def __init__(self, name: str, namespace: str = "/") -> None:
        """Start the node. Raises OperatorError when the middleware does not start."""
        self._begun_s = time.monotonic()
        self._context = Context()
        try:
            with fast_dds.without_shared_memory():  # a client must delay no robot
                rclpy.init(context=self._context)
                self.node = rclpy.create_node(name, namespace=namespace, context=self._context)
        except RCLError as error:
            raise OperatorError(f"the middleware does not start: {error}") from None
        self._executor, _ = make_executor("single", self._context)
        add_node(self._executor, self.node)
        self._clients: dict[str, tuple[Client, Client]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the node. A middleware that fails to is no failure of what was done before: it is a warning."""
        try:
            print(end="", flush=True)  # rmw_zenoh may hang in what follows, and the answer must not be lost
        finally:
            try:
                with deferred_signals():
                    end_client(self.node, self._executor, self._context)
            except (RCLError, RuntimeError) as error:  # RuntimeError: of rclpy, for a context that is invalid
                print(f"warning: the middleware did not end in order: {error}", file=sys.stderr)

    # -- the graph -------------------------------------------------------------------------------------------

    @property
    def domain_id(self) -> int:
        """The ROS domain whose graph this client sees."""
        return int(self._context.get_domain_id())

    def find_nodes(self) -> list[str]:
        """Return the full names of the nodes that the graph shows now."""
        return [
            in_namespace(namespace, name) for name, namespace in self.node.get_node_names_and_namespaces()
        ]

    def find_robots(self) -> list[str]:
        """Return the namespaces of the robots that the graph shows now, one for each node."""
        nodes = self.node.get_node_names_and_namespaces()
        return sorted(namespace for name, namespace in nodes if name == ROBOT_NODE)

    def find_servers(self) -> list[str]:
        """Return the full names of the servers that the graph shows now, one for each node."""
        return sorted(
            full_name(endpoint)
            for topic, types in self.node.get_topic_names_and_types()
            if STATUS_TYPE in types
            for endpoint in self.node.get_publishers_info_by_topic(topic)
            if endpoint.node_name != UNKNOWN_NODE
        )

    @property
    def discovery_s(self) -> float:
        """Return for how long this client has discovered the graph [s]."""
        return time.monotonic() - self._begun_s

    def settle(self, timeout_s: float) -> None:
        """Wait until the graph shows robots and servers, or until the timeout, and no new ones for a while.

        One kind may be known seconds before the other, and nothing shows that all are known: a report of what
        was found also says for how long was looked.
        """
        self._settle(timeout_s, self.find_robots, self.find_servers)

    def _settle(self, timeout_s: float, *finders: Callable[[], list[str]]) -> None:
        end_s = time.monotonic() + timeout_s
        seen: list[list[str]] = [[] for _ in finders]
        changed_s = -math.inf
        while True:
            now_s = time.monotonic()
            found = [find() for find in finders]
            if found != seen:
                seen, changed_s = found, now_s
            if now_s - changed_s >= SETTLE_S and (all(found) or now_s >= end_s):
                return
            self.spin(POLL_S)

    def find_robot(self, name: str | None, timeout_s: float) -> str:
        """Return a robot's namespace; without a name, that of the only robot that is seen.

        Another robot may become known later: none may be moved that was not named. Raises
        OperatorError when no such robot appears in time, or when there are several to choose from.
        """
        return self._find_one("robot", self.find_robots, name, timeout_s)

    def find_server(self, name: str | None, timeout_s: float) -> str:
        """Return a server's full name, as `find_robot` does a robot's."""
        return self._find_one("server", self.find_servers, name, timeout_s)

    def watch_robots(self, name: str | None) -> Callable[[], None]:
        """Return a watch for `read_one` of a robot that `find_robot` has found by this name.

        It raises OperatorError when a robot that was not named turns out to be one of several.
        """
        return lambda: self._refuse_choice("robot", self.find_robots, name)

    def watch_servers(self, name: str | None) -> Callable[[], None]:
        """Return a watch as `watch_robots` does, for a server that `find_server` has found."""
        return lambda: self._refuse_choice("server", self.find_servers, name)

    def _refuse_choice(self, kind: str, find: Callable[[], list[str]], name: str | None) -> None:
        if name is None and len(known := sorted(set(find()))) > 1:
            expected = f"the name of one of them as {kind.upper()}"
            raise OperatorError(f"found {kind}s {', '.join(known)}, expected {expected}")

    def _find_one(self, kind: str, find: Callable[[], list[str]], name: str | None, timeout_s: float) -> str:
        begun_s = time.monotonic()
        if name is None:
            self._settle(timeout_s, find)
            self._refuse_choice(kind, find, name)
            if known := find():
                return known[0]
            wanted, others = kind, ""
        else:
            wanted = f"/{name.strip('/')}"
            if self.spin_until(lambda: wanted in find(), timeout_s):
                return wanted
            wanted, others = f"{kind} {wanted}", f", found {', '.join(sorted(set(find()))) or f'no {kind}'}"
        waited_s = time.monotonic() - begun_s
        raise OperatorError(
            f"no {wanted} within {waited_s:.1f} s{others}; 'remote-inference doctor' looks for why"
        )

    # -- messages and services -------------------------------------------------------------------------------

    def subscribe(self, kind: Any, topic: str, callback: Callable[[Any], None], qos: QoSProfile) -> Any:
        """Subscribe to a topic. The callback runs while this client waits or spins."""
        return self.node.create_subscription(
            kind, topic, lambda message: callback(visible_message(message)), qos
        )

    def read_one(
        self,
        kind: Any,
        topic: str,
        qos: QoSProfile,
        timeout_s: float,
        watch: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return the first message of a topic. `watch` is called meanwhile and may raise.

        Raises OperatorError after the timeout.
        """
        received: list[Any] = []
        subscription = self.subscribe(kind, topic, received.append, qos)
        try:
            self.wait_for(lambda: bool(received), f"a message on {topic}", timeout_s, watch)
        finally:
            self.node.destroy_subscription(subscription)
        return received[0]

    def wait_for(
        self,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Spin until a condition holds. `watch` is called meanwhile and may raise.

        Raises OperatorError after the timeout.
        """
        if not self.spin_until(condition, timeout_s, watch):
            raise OperatorError(f"{what}: did not happen within {timeout_s:g} s")

    def spin_until(
        self, condition: Callable[[], bool], timeout_s: float, watch: Callable[[], None] = lambda: None
    ) -> bool:
        """Return whether a condition came true in time; it is checked after every message.

        `watch` is called meanwhile and may raise.
        """
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            watch()
            if (left_s := deadline_s - time.monotonic()) <= 0:
                return False
            with deferred_signals():
                self._executor.spin_once(timeout_sec=min(left_s, POLL_S))
        return True

    def call(self, kind: Any, name: str, request: Any, timeout_s: float) -> Any:
        """Call a service whose node may not know this client yet; return the response.

        A request that leaves before its service is known is lost. A node that was just discovered may answer
        before it knows the client, and the answer is lost. So the service is awaited, and then another client
        repeats a request that only reads until an answer comes. timeout_s: of both, and then of the response.
        Raises OperatorError.
        """
        end_s = time.monotonic() + timeout_s
        if (path := self.node.resolve_service_name(name)) not in self._clients:
            make, parameters = self.node.create_client, f"{path.rpartition('/')[0]}/get_parameters"
            self._clients[path] = make(kind, path), make(GetParameters, parameters)
        client, witness = self._clients[path]
        if not self.spin_until(lambda: client.service_is_ready() and witness.service_is_ready(), timeout_s):
            raise OperatorError(f"{client.srv_name}: no such service within {timeout_s:g} s")
        asked: list[Future] = []
        try:
            while not any(future.done() for future in asked):
                if (left_s := end_s - time.monotonic()) <= 0.0:
                    raise OperatorError(f"{client.srv_name}: its node did not answer within {timeout_s:g} s")
                asked.append(witness.call_async(GetParameters.Request()))
                self.spin_until(lambda: any(future.done() for future in asked), min(RETRY_S, left_s))
        finally:
            for future in asked:
                witness.remove_pending_request(future)
        return self.ask(client, request, timeout_s)

    def ask(
        self, client: Client, request: Any, timeout_s: float, watch: Callable[[], None] = lambda: None
    ) -> Any:
        """Send one request and return the response. `watch` is called meanwhile and may raise.

        Raises OperatorError after the timeout: the service may carry the request out all the same.
        """
        future = client.call_async(request)
        if not self.spin_until(future.done, timeout_s, watch):
            client.remove_pending_request(future)
            raise OperatorError(f"{client.srv_name}: no answer within {timeout_s:g} s; it may still act")
        return visible_message(future.result(), in_lines=True)

    def spin(self, duration_s: float) -> None:
        """Receive messages for a time."""
        self.spin_until(lambda: False, duration_s)
