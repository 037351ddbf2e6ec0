# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each executor runs what a node needs, also after a sample that cannot be read."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import rclpy
from builtin_interfaces.msg import Time
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy._rclpy_pybind11 import RCLError
from rclpy.action.client import ActionClient
from rclpy.action.server import ActionServer
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node
from rclpy.task import Future
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Int32
from std_srvs.srv import SetBool

from remote_inference.action import RunPolicy
from remote_inference.base.nodes import executors
from remote_inference.base.nodes.executors import add_node, as_task, make_executor, skip_errors, spin_once

DEADLINE_S = 30.0
NAMES = ("events", "single")


@pytest.fixture
def context() -> Iterator[Context]:
    made = Context()
    rclpy.init(context=made)
    yield made
    rclpy.shutdown(context=made)


@pytest.fixture
def node(context: Context) -> Iterator[Node]:
    made = rclpy.create_node("spun", context=context)
    yield made
    made.destroy_node()


class _Deaf(SingleThreadedExecutor):
    """Never runs anything, as the events executor on a middleware that does not tell it of messages."""

    def spin_once(self, timeout_sec: float | None = None) -> None:
        pass


class _Unreadable(SingleThreadedExecutor):
    """Raises what rclpy raises for a sample that it cannot deserialize: without a frame of Python."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.forgotten = 0

    @property
    def spin_once(self) -> Callable[..., Any]:  # type: ignore[override]
        if self.forgotten == 0:
            return super().spin_once
        self.forgotten -= 1
        sample: asyncio.Future[None] = asyncio.Future(loop=asyncio.new_event_loop())
        sample.set_exception(RCLError("deserialization failed"))
        return partial(next, map(asyncio.Future.result, [sample]))


def spin_until(node: Node, condition: Callable[[], Any]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        spin_once(node, 0.02)


def add(executor: Executor, node: Node) -> None:
    add_node(executor, node)
    assert node.executor is not None


@pytest.mark.parametrize("name", NAMES)
def test_an_executor_runs_messages_services_and_what_is_created_by_a_callback(
    context: Context, node: Node, name: str
) -> None:
    executor, reason = make_executor(name, context)
    assert reason == ""
    received: list[int] = []
    late: list[int] = []

    def hear(message: Int32) -> None:
        received.append(message.data)
        if message.data == 1:
            node.create_subscription(Int32, "late", lambda other: late.append(other.data), 10)

    def switch(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        response.success = request.data
        return response

    publisher = node.create_publisher(Int32, "numbers", 10)
    later_publisher = node.create_publisher(Int32, "late", 10)
    node.create_subscription(Int32, "numbers", hear, 10)
    node.create_service(SetBool, "switch", switch)
    client = node.create_client(SetBool, "switch")
    add(executor, node)
    spin_until(node, client.service_is_ready)
    future = client.call_async(SetBool.Request(data=True))
    publisher.publish(Int32(data=1))
    spin_until(node, lambda: future.done() and received == [1] and later_publisher.get_subscription_count())
    later_publisher.publish(Int32(data=2))
    spin_until(node, lambda: late == [2])
    assert future.result().success
    executor.shutdown(1.0)


def test_an_executor_that_misses_messages_is_not_used(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rclpy.experimental.events_executor.EventsExecutor", _Deaf)
    monkeypatch.setattr(executors, "SELF_TEST_S", 0.1)
    executor, reason = make_executor("events", context)
    assert isinstance(executor, SingleThreadedExecutor)
    assert not isinstance(executor, _Deaf)
    assert reason == "it ran no callback of a message within 0.1 s"


def test_an_executor_that_cannot_be_made_is_not_used(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**_: Any) -> Executor:
        raise RuntimeError("Guard conditions not supported")

    monkeypatch.setattr("rclpy.experimental.events_executor.EventsExecutor", fail)
    assert make_executor("events", context)[1] == "RuntimeError: Guard conditions not supported"


def test_without_an_events_executor_the_plain_one_is_used(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rclpy.experimental.events_executor", None)
    executor, reason = make_executor("events", context)
    assert isinstance(executor, SingleThreadedExecutor)
    assert reason == "this rclpy has none"


@pytest.mark.parametrize("name", NAMES)
def test_the_exception_of_a_callback_is_not_taken_for_a_sample_that_cannot_be_read(
    context: Context, node: Node, name: str
) -> None:
    def fail() -> None:
        raise RCLError("publisher is invalid")

    executor, _ = make_executor(name, context)
    node.create_timer(0.01, fail)
    add(executor, node)
    with pytest.raises(RCLError, match="publisher is invalid"):
        spin_until(node, lambda: False)
    executor.shutdown(1.0)


def test_what_arrived_together_with_a_sample_that_cannot_be_read_is_not_lost(
    context: Context, node: Node
) -> None:
    """The events executor forgets the rest of what it was told of."""
    received: list[int] = []
    answers: list[bool] = []

    def switch(request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        answers.append(request.data)
        return response

    publisher = node.create_publisher(Int32, "numbers", 10)
    subscription = node.create_subscription(Int32, "numbers", lambda m: received.append(m.data), 10)
    node.create_service(SetBool, "switch", switch)
    client = node.create_client(SetBool, "switch")
    executor = _Unreadable(context=context)
    add(executor, node)
    spin_until(node, lambda: client.service_is_ready() and publisher.get_subscription_count())
    for number in range(3):
        publisher.publish(Int32(data=number))
    future = client.call_async(SetBool.Request(data=True))

    def caught_up() -> bool:
        executor.forgotten = 1
        return received == [0, 1, 2] and answers == [True] and future.done()

    spin_until(node, caught_up)
    assert subscription.handle is not None
    executor.shutdown(1.0)


@pytest.mark.parametrize("kind", ["single", "events"])
def test_the_exception_of_a_task_is_raised_like_any_other_callback_s(kind: str, node: Node) -> None:
    """The events executor would end the process at once, and no controller would get its stop."""
    executor, why_not = make_executor(kind, node.context)
    assert not why_not
    executor.add_node(node)
    future = Future(executor=executor)
    future.add_done_callback(as_task(node, lambda _: 1 / 0))
    future.set_result(None)
    try:
        with pytest.raises(ZeroDivisionError):
            spin_until(node, lambda: False)
        spin_once(node, 0.0)
    finally:
        executor.shutdown(1.0)


@pytest.mark.parametrize("kind", NAMES)
def test_what_rclpy_cannot_take_of_an_action_is_skipped(kind: str, node: Node) -> None:
    """It raises, in a task, where two servers of one name accept a goal: the events executor would crash."""
    server = ActionServer(node, RunPolicy, "run", execute_callback=lambda _: RunPolicy.Result())
    client = ActionClient(node, RunPolicy, "run")
    taken: list[Any] = []

    async def fail(data: Any) -> None:
        taken.append(data)
        raise RuntimeError("Two goals were accepted with the same ID")

    client.execute = fail
    skip_errors(node, client, "run")
    executor, why_not = make_executor(kind, node.context)
    assert not why_not
    executor.add_node(node)
    try:
        spin_until(node, client.server_is_ready)
        for count in (1, 2):
            client.send_goal_async(RunPolicy.Goal())
            spin_until(node, lambda count=count: len(taken) >= count)
    finally:
        executor.shutdown(1.0)
        client.destroy()
        server.destroy()


UNKNOWN_TYPE = Parameter(name="use_sim_time", value=ParameterValue(type=99))
SIMULATED = Parameter(name="use_sim_time", value=ParameterValue(type=1, bool_value=True))


@pytest.mark.parametrize("name", NAMES)
def test_what_rclpy_s_own_services_cannot_take_is_answered_and_ends_no_node(
    context: Context, name: str
) -> None:
    node = LifecycleNode("managed", context=context)
    executor, _ = make_executor(name, context)
    add(executor, node)

    def call(kind: Any, service: str, request: Any) -> Any:
        client = node.create_client(kind, f"managed/{service}")
        spin_until(node, client.service_is_ready)
        answer = client.call_async(request)
        spin_until(node, answer.done)
        return answer.result()

    try:
        both = [SIMULATED, UNKNOWN_TYPE, SIMULATED]
        results = call(SetParameters, "set_parameters", SetParameters.Request(parameters=both)).results
        assert [result.successful for result in results] == [False, False, False]
        assert "read-only parameter: use_sim_time" in results[0].reason
        assert all("99 is not a valid" in result.reason for result in results[1:])
        together = SetParametersAtomically.Request(parameters=both)
        result = call(SetParametersAtomically, "set_parameters_atomically", together).result
        assert not result.successful
        assert "99 is not a valid" in result.reason
        for number in (Transition.TRANSITION_ACTIVATE, 99):  # one that is not allowed now, an unknown one
            request = ChangeState.Request(transition=Transition(id=number))
            assert not call(ChangeState, "change_state", request).success
        request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE))
        assert call(ChangeState, "change_state", request).success
    finally:
        executor.shutdown(1.0)
        node.destroy_node()


@pytest.mark.parametrize("name", NAMES)
def test_a_simulation_s_time_that_is_none_is_skipped(context: Context, name: str) -> None:
    simulated = [rclpy.Parameter("use_sim_time", value=True)]
    node = rclpy.create_node("simulated", context=context, parameter_overrides=simulated)
    clock = node.create_publisher(Clock, "/clock", 10)
    heard: list[Clock] = []
    node.create_subscription(Clock, "/clock", heard.append, 10)
    executor, _ = make_executor(name, context)
    add(executor, node)
    try:
        spin_until(node, lambda: clock.get_subscription_count() == 2)
        clock.publish(Clock(clock=Time(sec=-1)))
        spin_until(node, lambda: heard)
        spin_once(node, 0.0)  # rclpy has heard it, too
        clock.publish(Clock(clock=Time(sec=7)))
        spin_until(node, lambda: node.get_clock().now().nanoseconds == 7_000_000_000)
    finally:
        executor.shutdown(1.0)
        node.destroy_node()
