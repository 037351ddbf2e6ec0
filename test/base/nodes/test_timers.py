# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Periodic calls keep their periods, and callbacks get their turn even where the calls take too long."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger

from remote_inference.base.nodes.executors import make_executor
from remote_inference.base.nodes.runtime import spin
from remote_inference.base.nodes.timers import SHORTEST_WAIT_S, TimerSchedule

DEADLINE_S = 30.0


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class _Calls:
    """A schedule on a clock of its own, and the times of its calls since the beginning."""

    def __init__(self) -> None:
        self.clock = _Clock()
        self.schedule = TimerSchedule(self.clock)
        self.times_s: list[float] = []

    def every(self, period_s: float, takes_s: float = 0.0) -> None:
        def call() -> None:
            self.times_s.append(round(self.clock.now_s - 100.0, 6))
            self.clock.now_s += takes_s

        self.schedule.every(period_s, call)

    def run_until(self, end_s: float) -> None:
        while self.clock.now_s < 100.0 + end_s:
            self.clock.now_s += self.schedule.wait_s()
            self.schedule.run_due()


def test_a_call_is_made_every_period() -> None:
    calls = _Calls()
    calls.every(0.5)
    calls.run_until(1.9)
    assert calls.times_s == [0.5, 1.0, 1.5, 2.0]


def test_missed_calls_are_made_once_and_the_grid_is_kept() -> None:
    calls = _Calls()
    calls.every(0.5)
    calls.clock.now_s += 2.2
    calls.schedule.run_due()
    calls.run_until(2.9)
    assert calls.times_s == [2.2, 2.5, 3.0]


def test_the_wait_is_infinite_without_a_call_and_never_too_short_for_a_callback() -> None:
    calls = _Calls()
    assert calls.schedule.wait_s() == math.inf
    calls.every(0.5)
    calls.clock.now_s += 1.0
    assert calls.schedule.wait_s() == SHORTEST_WAIT_S


def test_calls_that_take_longer_than_their_periods_leave_a_fifth_of_the_time() -> None:
    calls = _Calls()
    calls.every(0.1, takes_s=0.4)
    calls.every(0.05, takes_s=0.4)
    calls.run_until(10.0)
    assert 19 <= len(calls.times_s) <= 21


@pytest.mark.parametrize("executor_name", ["events", "single"])
def test_a_service_is_answered_between_calls_that_take_too_long(executor_name: str) -> None:
    class Busy(Node):
        exit_code: int | None = None

        def __init__(self, context: Context) -> None:
            super().__init__("busy", context=context)
            self.schedule = TimerSchedule()
            self.calls = 0
            self.create_service(Trigger, "answer", lambda _, response: response)
            self.schedule.every(0.01, lambda: None)
            self.schedule.every(0.01, self._work)

        def close(self) -> None:
            pass

        def _work(self) -> None:
            self.calls += 1
            time.sleep(0.03)

    context = Context()
    rclpy.init(context=context)
    busy, asking = Busy(context), rclpy.create_node("asking", context=context)
    client = asking.create_client(Trigger, "answer")
    executor, reason = make_executor(executor_name, context)
    assert reason == ""
    executor.add_node(busy)
    asking_executor = SingleThreadedExecutor(context=context)
    asking_executor.add_node(asking)
    ended = threading.Event()

    def answer_until_ended() -> None:
        while not ended.is_set():
            spin(busy, 0.1)

    thread = threading.Thread(target=answer_until_ended)
    thread.start()
    try:
        _await(client.service_is_ready, asking_executor)
        counts = []
        for _ in range(10):
            before = busy.calls
            future = client.call_async(Trigger.Request())
            _await(future.done, asking_executor)
            counts.append(busy.calls - before)
    finally:
        ended.set()
        thread.join(DEADLINE_S)
        executor.shutdown(1.0)
        asking_executor.shutdown(1.0)
        rclpy.shutdown(context=context)
    assert sorted(counts)[5] <= 3, counts  # of ten: one answer may wait for the machine


def _await(condition: Callable[[], bool], executor: SingleThreadedExecutor) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end_s
        executor.spin_once(0.02)
