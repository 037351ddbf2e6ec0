# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which answers are executed, and what a robot learns from them of the server's speed."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.base.exchange import ChunkStatus
from remote_inference.robot.queue.action_queue import DelayPolicy
from remote_inference.robot.requests.request_cycle import Rejection
from remote_inference.robot.safety.guard import AGE
from support.builders import CHUNK_SIZE, PERIOD_NS, answer, make_rows, ns
from support.robot.asking_robot import Robot


@pytest.mark.parametrize(
    "changes", [{"session_id": "other"}, {"session_epoch": 2}, {"seq_id": 9}, {"episode_id": 1}]
)
def test_an_answer_is_of_the_session_its_epoch_the_request_and_the_episode(changes: dict[str, Any]):
    robot = Robot()
    assert not robot.cycle.is_answered_by(answer(robot.ask(), **changes))


@pytest.mark.parametrize("rows", [0, CHUNK_SIZE])
def test_an_error_is_no_failure_to_answer_and_is_followed_by_a_pause(rows: int):
    robot = Robot(error_pause_s=0.25)
    request = robot.ask()
    rejection = robot.finish(request, make_rows(rows), status=ChunkStatus.ERROR, message="broken")
    assert len(robot.queue) == 0
    assert rejection == Rejection("server answered ERROR: broken", is_failure=False)
    robot.wait(ns(0.25) - 1)
    assert not robot.cycle.is_ready(robot.now_ns)
    robot.wait(1)
    assert robot.cycle.is_ready(robot.now_ns)


def test_a_server_that_drains_may_answer_with_rows_and_without():
    robot = Robot()
    assert robot.finish(robot.ask(), status=ChunkStatus.DRAINING) is None
    assert len(robot.queue) == CHUNK_SIZE
    rejection = robot.finish(robot.ask(), make_rows(0), status=ChunkStatus.DRAINING, message="soon")
    assert rejection == Rejection("server answered DRAINING: soon", is_failure=False)


def test_a_chunk_without_rows_counts_as_unanswered_and_one_of_another_size_does_not():
    robot = Robot()
    empty = robot.finish(robot.ask(), make_rows(0))
    assert empty is not None
    assert empty.is_failure
    short = robot.finish(robot.ask(), make_rows(CHUNK_SIZE - 1))
    assert short is not None
    assert not short.is_failure


@pytest.mark.parametrize(("age_ns", "rejected"), [(ns(3.0), False), (ns(3.0) + 1, True)])
def test_a_chunk_whose_observation_is_too_old_is_a_failure_and_its_rows_are_counted(
    age_ns: int, rejected: bool
):
    robot = Robot(max_action_age_s=3.0)
    request = robot.ask()
    robot.wait(age_ns)
    rejection = robot.finish(request)
    assert robot.guard.counts[AGE] == (CHUNK_SIZE if rejected else 0)
    expected = Rejection("its observation is 3.0 s old, max_action_age_s is 3", is_failure=True)
    assert rejection == (expected if rejected else None)


@pytest.mark.parametrize(("horizon", "count"), [(0, CHUNK_SIZE), (1, 1), (5, 5)])
def test_of_a_chunk_as_many_rows_join_as_the_execution_horizon_says(horizon: int, count: int):
    robot = Robot(execution_horizon=horizon)
    robot.finish(robot.ask())
    assert len(robot.queue) == count


@pytest.mark.parametrize(("merge_mode", "left"), [("auto", CHUNK_SIZE), ("append", CHUNK_SIZE + 3)])
def test_a_chunk_replaces_the_queue_or_is_appended_to_it(merge_mode: str, left: int):
    robot = Robot(merge_mode=merge_mode)
    robot.queue_rows(3)
    robot.finish(robot.ask())
    assert len(robot.queue) == left


@pytest.mark.parametrize(("delay_policy", "dropped"), [(DelayPolicy.LATENCY, 3), (DelayPolicy.CONSUMED, 2)])
def test_rows_of_the_time_since_the_capture_are_dropped(delay_policy: DelayPolicy, dropped: int):
    robot = Robot(delay_policy)
    robot.queue_rows(10)
    request = robot.ask()
    for _ in range(2):
        robot.queue.get()
    robot.wait(3 * PERIOD_NS)
    robot.finish(request)
    assert len(robot.queue) == CHUNK_SIZE - dropped


def test_before_the_first_answer_the_delay_is_what_the_server_expects():
    robot = Robot()
    robot.cycle.begin_session(0.3)
    assert robot.cycle.delay_steps == 6
    assert robot.ask().inference_delay_steps == 6


def test_the_first_cycle_of_a_session_says_nothing_of_the_next_ones():
    robot = Robot()
    for _ in range(2):
        robot.cycle.begin_session(0.3)
        robot.cycles(ns(1.0), 1)
        robot.cycles(ns(0.1), 3)
        assert robot.cycle.delay_steps == 2
        assert robot.cycle.latency.quantile_s(1.0) == pytest.approx(0.1)


def test_a_delay_counts_from_the_capture_and_a_latency_from_the_request():
    robot = Robot()
    robot.cycles(ns(0.1), 1)
    robot.now_ns += ns(0.1)
    request = robot.ask()
    robot.now_ns += ns(0.1)
    robot.finish(request)
    assert robot.cycle.latency.quantile_s(1.0) == pytest.approx(0.1)
    assert robot.cycle.delay_steps == 4
