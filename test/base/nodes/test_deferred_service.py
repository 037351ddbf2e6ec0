# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An answer may be given whenever, by any thread, with each of rclpy's executors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import rclpy
from rclpy._rclpy_pybind11 import RCLError
from rclpy.executors import SingleThreadedExecutor
from rclpy.experimental.events_executor import EventsExecutor
from rclpy.node import Node
from rclpy.service import Service
from rclpy.task import Future
from std_srvs.srv import SetBool

from remote_inference.base.nodes.deferred_service import DeferredResponse, create_deferred_service

DEADLINE_S = 30.0
Answer = DeferredResponse[SetBool.Response]


class Caller:
    """A node that calls a service of its own, spun by one executor."""

    def __init__(self, make_executor: Callable[..., Any], take: Callable[[Any, Answer], None]) -> None:
        self._context = rclpy.Context()
        rclpy.init(context=self._context)
        self._node: Node = rclpy.create_node("caller", context=self._context)
        create_deferred_service(self._node, SetBool, "switch", take)
        self._client = self._node.create_client(SetBool, "switch")
        self._executor = make_executor(context=self._context)
        self._executor.add_node(self._node)
        self.spin_until(self._client.service_is_ready)

    def spin_until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s
            self._executor.spin_once(timeout_sec=0.02)

    def call(self, data: bool) -> Future:
        return self._client.call_async(SetBool.Request(data=data))

    def close(self) -> None:
        self._executor.shutdown(1.0)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)


@pytest.fixture(params=[SingleThreadedExecutor, EventsExecutor], ids=["single", "events"])
def make_caller(request: pytest.FixtureRequest) -> Iterator[Callable[..., Caller]]:
    made: list[Caller] = []

    def make(take: Callable[[Any, Answer], None]) -> Caller:
        made.append(Caller(request.param, take))
        return made[-1]

    yield make
    for caller in made:
        caller.close()


def test_an_answer_arrives_where_what_executors_call_is_a_shell(
    make_caller: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As rclpy of Lyrical has it."""
    monkeypatch.setattr(Service, "_send_response", Service.send_response, raising=False)
    monkeypatch.setattr(Service, "send_response", lambda self, *answer: self._send_response(*answer))
    answers: list[Answer] = []
    caller = make_caller(lambda _, answer: answers.append(answer))
    future = caller.call(True)
    caller.spin_until(lambda: bool(answers))
    answers[0].send(SetBool.Response(message="later"))
    caller.spin_until(future.done)
    assert future.result().message == "later"


def test_an_answer_within_the_callback_arrives(make_caller: Callable[..., Caller]) -> None:
    caller = make_caller(lambda request, answer: answer.send(SetBool.Response(success=request.data)))
    future = caller.call(True)
    caller.spin_until(future.done)
    assert future.result().success


def test_an_answer_of_another_thread_arrives_while_other_calls_are_answered(
    make_caller: Callable[..., Caller],
) -> None:
    waiting: list[Answer] = []

    def take(request: SetBool.Request, answer: Answer) -> None:
        if request.data:
            waiting.append(answer)
        else:
            answer.send(SetBool.Response(message="at once"))

    caller = make_caller(take)
    slow = caller.call(True)
    caller.spin_until(lambda: bool(waiting))
    quick = caller.call(False)
    caller.spin_until(quick.done)
    assert quick.result().message == "at once"
    assert not slow.done()
    threading.Thread(target=waiting[0].send, args=(SetBool.Response(message="later"),)).start()
    caller.spin_until(slow.done)
    assert slow.result().message == "later"


def test_an_answer_that_cannot_be_sent_is_told_and_ends_nobody(
    node: Node, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    answers: list[Answer] = []
    service = node.create_service  # the service's own `send_response` fails

    def create(*arguments: Any) -> Any:
        made = service(*arguments)
        made.send_response = fail
        return made

    def fail(*_: Any) -> None:
        raise RCLError("client gone,\n at service.c:1")

    monkeypatch.setattr(node, "create_service", create)
    made = create_deferred_service(node, SetBool, "switch", lambda _, answer: answers.append(answer))
    made.send_response(made.callback(None, None), None)
    answers[0].send(SetBool.Response())
    assert "switch: the answer cannot be sent: client gone, at service.c:1" in capfd.readouterr().err
