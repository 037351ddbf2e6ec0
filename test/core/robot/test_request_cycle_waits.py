# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How long an answer is waited for, how often a request is asked again, and what late answers say."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.core.exchange import Request
from support.builders import answer, ns
from support.robot.asking_robot import Robot


def test_a_request_without_an_answer_times_out_once():
    robot = Robot(request_timeout_s=5.0)
    assert robot.cycle.timed_out(robot.now_ns) is None
    request = robot.ask()
    robot.wait(ns(5.0) - 1)
    assert robot.cycle.timed_out(robot.now_ns) is None
    robot.wait(1)
    assert robot.cycle.timed_out(robot.now_ns) == request
    assert robot.cycle.timed_out(robot.now_ns) is None


def test_a_request_that_is_asked_again_times_out_with_the_first_one():
    robot = Robot(request_timeout_s=5.0)
    robot.ask()
    robot.wait(ns(2.0))
    second = robot.ask()
    assert robot.cycle.request_in_flight == second
    robot.wait(ns(3.0) - 1)
    assert robot.cycle.timed_out(robot.now_ns) is None
    robot.wait(1)
    assert robot.cycle.timed_out(robot.now_ns) == second


@pytest.mark.parametrize(("expected_s", "wait_s"), [(0.1, 2.0), (4.0, 6.0)])
def test_the_first_answer_is_waited_for_half_as_long_again_as_the_server_expects(
    expected_s: float, wait_s: float
):
    robot = Robot(degraded_after_s=2.0, request_timeout_s=30.0)
    robot.cycle.begin_session(expected_s)
    robot.ask()
    robot.wait(ns(wait_s) - 1)
    assert not robot.may_ask()
    robot.wait(1)
    assert robot.may_ask()


def test_each_wait_from_the_third_request_on_is_twice_as_long():
    robot = Robot(request_timeout_s=20.0)
    robot.cycles(ns(1.0), 3)
    assert robot.may_ask()
    for wait_s in (1.5, 1.5, 3.0, 6.0):
        robot.ask()
        robot.wait(ns(wait_s) - 1)
        assert not robot.may_ask()
        robot.wait(1)
        assert robot.may_ask()
    robot.ask()
    robot.wait(ns(6.0))
    assert not robot.may_ask(), "its answer would come too late, too"


@pytest.mark.parametrize(("late_ns", "may_ask"), [(0, True), (1, False)])
def test_a_request_is_not_asked_again_when_its_answer_cannot_come_in_time(late_ns: int, may_ask: bool):
    robot = Robot(request_timeout_s=4.0)
    robot.cycles(ns(1.0), 3)
    robot.ask()
    robot.wait(ns(3.0) + late_ns)
    assert robot.may_ask() == may_ask


def asked_again(robot: Robot) -> tuple[Request, Request]:
    """Let a robot whose answers take a tenth of a second ask twice, the second time after one."""
    robot.cycles(ns(0.1), 3)
    first = robot.ask()
    robot.wait(ns(1.0))
    return first, robot.ask()


def wait_of(robot: Robot) -> int:
    """Return how long the robot waits now before it asks a second time [ns]."""
    robot.cycle.abandon()
    robot.ask()
    begin_ns = robot.now_ns
    while not robot.may_ask():
        robot.wait(ns(0.01))
    return robot.now_ns - begin_ns


def test_latencies_differ_and_hardly_any_answer_takes_longer_than_what_is_expected():
    """Of 0.1 s and 0.3 s, 95 % of the way between them."""
    robot = Robot(buffer_time_s="auto")
    for latency_s in (1.0, 0.1, 0.3):
        robot.cycles(ns(latency_s), 1)
    robot.queue_rows(11)
    assert robot.cycle.wants_chunk(robot.now_ns)
    robot.queue_rows(12)
    assert not robot.cycle.wants_chunk(robot.now_ns)
    robot.queue.clear()
    assert wait_of(robot) == ns(0.44)


def late(robot: Robot) -> Robot:
    """Let an answer come two seconds after its request, which was asked again."""
    first = robot.ask()
    robot.wait(ns(1.0))
    robot.ask()
    robot.wait(ns(1.0))
    robot.cycle.take_late(answer(first), robot.now_ns)
    robot.cycle.abandon()
    return robot


@pytest.mark.parametrize(("latency_s", "wait_s"), [(0.25, 3.0), (0.15, 0.3)])
def test_a_late_answer_says_how_long_to_wait_until_the_server_is_as_fast_as_before(
    latency_s: float, wait_s: float
):
    robot = Robot(request_timeout_s=20.0)
    for before_s in (1.0, 0.1, 0.1, 0.2):
        robot.cycles(ns(before_s), 1)
    late(robot)
    assert wait_of(robot) == ns(3.0), "half as long again as the two seconds that it took"
    robot.cycle.abandon()
    robot.cycles(ns(latency_s), 1)
    assert wait_of(robot) == pytest.approx(ns(wait_s), abs=ns(0.02))


def test_an_answer_as_fast_as_all_before_says_that_the_server_is_fast_again():
    robot = Robot(request_timeout_s=20.0)
    robot.cycles(ns(0.1), 3)
    late(robot)
    robot.cycles(ns(0.1), 1)
    assert wait_of(robot) == ns(0.15)


def test_the_first_answer_of_all_does_not_say_that_the_server_is_fast_again():
    robot = late(Robot(request_timeout_s=20.0))
    robot.cycles(ns(0.5), 1)
    assert wait_of(robot) == ns(3.0)


@pytest.mark.parametrize("changes", [{"session_epoch": 2}, {"seq_id": 99}])
def test_a_late_answer_to_something_else_says_nothing(changes: dict[str, Any]):
    robot = Robot(request_timeout_s=20.0)
    first, _ = asked_again(robot)
    robot.wait(ns(1.0))
    robot.cycle.take_late(answer(first, **changes), robot.now_ns)
    assert wait_of(robot) == ns(0.15)


def test_a_late_answer_to_a_request_that_was_given_up_says_nothing():
    robot = Robot(request_timeout_s=20.0)
    first, _ = asked_again(robot)
    robot.cycle.abandon()
    robot.wait(ns(1.0))
    robot.cycle.take_late(answer(first), robot.now_ns)
    assert wait_of(robot) == ns(0.15)
