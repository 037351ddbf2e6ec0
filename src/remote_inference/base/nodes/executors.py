# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The executor that spins a node: rclpy's events executor where it works, its plain one elsewhere.

The plain executor builds its wait set anew after every callback and holds the interpreter meanwhile. The
events executor does not; what it lacks is added here.
"""

from __future__ import annotations

import inspect
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial, wraps
from typing import Any
from weakref import WeakKeyDictionary

import rclpy
from rcl_interfaces.msg import ParameterDescriptor, ParameterType, SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy._rclpy_pybind11 import InvalidHandle, RCLError
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.service import Service
from rclpy.time_source import USE_SIM_TIME_NAME
from rclpy.utilities import get_default_context
from std_msgs.msg import Empty

from remote_inference.base.nodes.robot_logger import calm

SELF_TEST_S = 2.0  # a message within a process takes a millisecond; on a busy machine, much longer
SELF_TEST_PERIOD_S = 0.02
REST_S = 0.1
MAX_WAITING = 1000  # messages of one topic that may wait when one cannot be read
RCL_PLACE = re.compile(r"\s*,? at /?[\w./-]+\.c:\d+")  # of its own source, which rcl puts in its messages


class _TolerantExecutor(SingleThreadedExecutor):
    """Skips and logs messages, requests, goals and responses that cannot be deserialized.

    rmw_zenoh reports such a sample as an error, which rclpy raises out of `spin_once` with the callback group
    still locked. Fast DDS drops it by itself.
    """

    def _take_subscription(self, sub: Any) -> Any:
        return self._take_or_skip(super()._take_subscription, sub, sub.topic_name)

    def _take_service(self, srv: Any) -> Any:
        return self._take_or_skip(super()._take_service, srv, srv.srv_name)

    def _take_client(self, client: Any) -> Any:
        return self._take_or_skip(super()._take_client, client, client.srv_name)

    def _take_waitable(self, waitable: Any) -> Any:
        return self._take_or_skip(super()._take_waitable, waitable, "action")

    def _take_or_skip(self, take: Callable[[Any], Any], entity: Any, name: str) -> Any:
        try:
            return take(entity)
        except RCLError as error:
            _log_skipped(self.get_nodes()[0], name, error)
            return None


def make_executor(name: str, context: Context | None = None) -> tuple[Executor, str]:
    """Return an executor, and why it is not the named one; empty when it is.

    name: "events" or "single". The events executor is tested first: some middlewares do not notify it.
    """
    context = context or get_default_context()
    reason = ""
    if name == "events":
        try:
            from rclpy.experimental.events_executor import EventsExecutor  # noqa: PLC0415  # not everywhere
        except ImportError:
            reason = "this rclpy has none"
        else:
            reason = find_fault(EventsExecutor, context)
        if not reason:
            return EventsExecutor(context=context), ""
    return _TolerantExecutor(context=context), reason


def find_fault(make: Callable[..., Executor], context: Context) -> str:
    """Try an executor with a message; return what is wrong, empty when it runs the callback."""
    name = f"_executor_test_{os.getpid()}"
    node = rclpy.create_node(
        name,
        context=context,
        use_global_arguments=False,  # a name given on the command line is for the node itself
        enable_rosout=False,
        start_parameter_services=False,
    )
    received: list[Empty] = []
    executor: Executor | None = None
    try:
        publisher = node.create_publisher(Empty, name, QoSProfile(depth=1))
        node.create_subscription(Empty, name, received.append, QoSProfile(depth=1))
        executor = make(context=context)
        executor.add_node(node)
        end_s = time.monotonic() + SELF_TEST_S
        while not received and time.monotonic() < end_s:
            publisher.publish(Empty())
            executor.spin_once(timeout_sec=SELF_TEST_PERIOD_S)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if executor is not None:
            executor.shutdown(1.0)
        node.destroy_node()
    return "" if received else f"it ran no callback of a message within {SELF_TEST_S:g} s"


def add_node(executor: Executor, node: Node) -> None:
    """Add a node to an executor, and protect it against requests that rclpy's own callbacks cannot handle.

    Callbacks of parameters and transitions, for example, raise what they do not expect: that is logged and
    refused, and the node goes on. Errors of the node's own callbacks are raised. use_sim_time is read-only.
    """
    node.set_descriptor(
        USE_SIM_TIME_NAME,
        ParameterDescriptor(
            type=ParameterType.PARAMETER_BOOL, description="whether stamps are /clock's", read_only=True
        ),
    )
    for service in node.services:
        _guard_callback(node, service, service.service_name)
    for subscription in node.subscriptions:
        _guard_callback(node, subscription, subscription.topic_name)
    executor.add_node(node)


def _guard_callback(node: Node, entity: Any, name: str) -> None:
    """Make a callback of rclpy's own log its errors, and refuse the request."""
    callback = entity.callback
    if not str(getattr(callback, "__module__", "")).startswith("rclpy."):
        return

    @wraps(callback)
    def call(*arguments: Any) -> Any:
        try:
            return callback(*arguments)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(RCL_PLACE.sub('', str(error)).split())}"
            node.get_logger().error(f"{name}: cannot be handled: {reason}")
            return _refusal(reason, *arguments)

    entity.callback = call


def _refusal(reason: str, request: Any, response: Any = None) -> Any:
    """Return the response that refuses a request; of other types the default one does."""
    refused = SetParametersResult(successful=False, reason=reason)
    if isinstance(response, SetParameters.Response):
        left = len(request.parameters) - len(response.results)
        response.results = [*response.results, *[refused] * left]
    elif isinstance(response, SetParametersAtomically.Response):
        response.result = refused
    return response


_escaped: WeakKeyDictionary[Node, Exception] = WeakKeyDictionary()


def as_task(node: Node, callback: Callable[..., Any], failed: Any = None) -> Callable[..., Any]:
    """Return a callback for what rclpy runs as a task: those of actions, and of futures that are done.

    An error of one would end the process at once with the events executor, and no controller would get its
    stop. `spin_once` raises it instead, as that of any other callback. failed: the return value in that case.
    """

    def call(*arguments: Any) -> Any:
        try:
            return callback(*arguments)
        except Exception as error:
            _escaped.setdefault(node, error)
            return failed

    return call


def skip_errors(node: Node, action: Any, name: str) -> None:
    """Log and skip what rclpy cannot handle in an action's client or server.

    rclpy raises, in a task of its own (`as_task`), where two servers of one name accept a goal, or where the
    client is gone.
    """
    execute = action.execute

    async def execute_or_skip(taken: Any) -> None:
        try:
            await execute(taken)
        except Exception as error:
            problem = f"{name}: skipped a message, is there a second server? {error}"
            calm(node).error(problem)

    action.execute = execute_or_skip


def spin_once(node: Node, timeout_s: float) -> None:
    """Run a callback of a node that is ready, and skip what cannot be read.

    Raises what callbacks raise.
    """
    executor = node.executor
    assert executor is not None, "run_node spins this node until it closes it"
    try:
        executor.spin_once(timeout_s)
    except RCLError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # a callback's own: it has a frame
        # The events executor forgets what arrived together with a sample that cannot be read.
        _log_skipped(node, node.get_fully_qualified_name(), error)
        _catch_up(node)
    if escaped := _escaped.pop(node, None):
        raise escaped


def rest(node: Node) -> None:
    """Spin a node for a moment before its clients are destroyed.

    rmw_zenoh blocks the process for ever when a reply arrives at that very moment. Does nothing for a node
    without an executor.
    """
    end_s = time.monotonic() + REST_S
    while node.executor is not None and (left_s := end_s - time.monotonic()) > 0.0:
        spin_once(node, left_s)


def with_info(callback: Callable[[Any, dict[str, Any]], None]) -> Callable[..., None]:
    """Return a subscription's callback for a message and its info, with any executor.

    The events executor passes both as one tuple.
    """

    def take(*arrived: Any) -> None:
        callback(*(arrived[0] if len(arrived) == 1 else arrived))

    two = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("message", "info")]
    take.__signature__ = inspect.Signature(two)  # type: ignore[attr-defined]  # by which rclpy passes the info
    return take


def answer_waiting(node: Node, service: Service) -> None:
    """Answer the waiting requests of a service. For long work on the executor's thread."""
    service_type: Any = service.srv_type
    take = partial(service.handle.service_take_request, service_type.Request)
    for request, header in _take_all(node, service.srv_name, take):
        service.send_response(service.callback(request, service_type.Response()), header)


def _catch_up(node: Node) -> None:
    """Run the callbacks of all messages, requests and responses that wait."""
    for subscription in list(node.subscriptions):
        take = partial(subscription.handle.take_message, subscription.msg_type, subscription.raw)
        for taken in _take_all(node, subscription.topic_name, take):
            informed = subscription._callback_type is subscription.CallbackType.WithMessageInfo
            subscription.callback(*(taken if informed else taken[:1]))
    for service in list(node.services):
        answer_waiting(node, service)
    for client in list(node.clients):
        service_type: Any = client.srv_type
        take = partial(client.handle.take_response, service_type.Response)
        for header, response in _take_all(node, client.srv_name, take):
            with suppress(KeyError):  # nobody waits for it any more
                client.get_pending_request(header.request_id.sequence_number).set_result(response)


def _take_all(node: Node, name: str, take: Callable[[], Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the pairs that `take` returns until it has none; skip what cannot be read."""
    for _ in range(MAX_WAITING):
        try:
            taken = take()
        except InvalidHandle:  # a callback has destroyed the entity
            return
        except RCLError as error:
            _log_skipped(node, name, error)
            continue
        if taken is None or taken[0] is None:
            return
        yield taken


def _log_skipped(node: Node, name: str, error: RCLError) -> None:
    calm(node).error(f"{name}: skipped what cannot be read: {error}")
