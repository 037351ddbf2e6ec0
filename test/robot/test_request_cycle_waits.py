# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How long an answer is waited for, how often a question is asked again, and what late answers say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk, ChunkStatus
from support.builders import CHUNK_SIZE, JOINTS, PERIOD_NS, answer, contract_document, ns
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


def test_the_answer_to_a_request_that_is_asked_again_is_due_with_the_first_one():
    robot = Robot(request_timeout_s=4.0)
    robot.cycles(ns(1.0), 3)
    robot.ask()
    robot.wait(ns(1.5))
    robot.ask()
    robot.wait(ns(1.5))
    assert robot.may_ask()
    robot.wait(1)
    assert not robot.may_ask()


def wait_of(robot: Robot) -> int:
    """Return how long the robot waits now before it asks a second time [ns]."""
    robot.cycle.abandon()
    robot.ask()
    begin_ns = robot.now_ns
    while not robot.may_ask():
        robot.wait(ns(0.01))
    return robot.now_ns - begin_ns


def test_a_robot_that_stands_waits_for_half_as_long_again_as_answers_typically_take():
    robot = Robot()
    for latency_s in (1.0, 0.1, 0.1, 0.1, 0.9):
        robot.cycles(ns(latency_s), 1)
    robot.cycles(ns(0.1), 1)
    assert wait_of(robot) == ns(0.15)


def latencies(robot: Robot, *tenths: int) -> None:
    """Let answers take tenths of a second; the first one of a session does not count."""
    for tenth in (1, *tenths):
        robot.cycles(tenth * ns(0.1), 1)


@pytest.mark.parametrize(("tenths", "wait_s"), [(4, 0.15), (5, 0.15), (6, 0.9)])
def test_an_answer_that_takes_longer_than_expected_is_waited_for_as_long_the_next_time(
    tenths: int, wait_s: float
):
    """Only what hardly any answer has taken before: here 0.5 s."""
    robot = Robot()
    latencies(robot, 5, 5, *[1] * 10, tenths)
    assert wait_of(robot) == ns(wait_s)


def test_the_first_answer_says_how_long_the_next_one_may_take():
    robot = Robot(degraded_after_s=5.0)
    robot.cycles(ns(0.5), 1)
    assert wait_of(robot) == ns(0.75)


def test_latencies_differ_and_hardly_any_answer_takes_longer_than_what_is_expected():
    """Of 0.1 s and 0.3 s, 95 % of the way between them."""
    robot = Robot(buffer_time_s="auto")
    for latency_s in (1.0, 0.3, 0.1):
        robot.cycles(ns(latency_s), 1)
    robot.queue_rows(11)
    assert robot.cycle.wants_chunk(robot.now_ns)
    robot.queue_rows(12)
    assert not robot.cycle.wants_chunk(robot.now_ns)
    robot.queue_rows(11)
    assert wait_of(robot) == ns(0.44), "half as long again"


def ask_until(robot: Robot, answered_s: float, *, arrive: bool = True) -> int:
    """Let a server answer the newest request of a question after a time; return how often it was asked.

    arrive: whether the requests before the newest did, which it then replaced at the server.
    """
    begin_ns = robot.now_ns
    newest, asked = robot.ask(), 1
    while robot.now_ns - begin_ns < ns(answered_s):
        robot.wait(ns(0.01))
        if robot.may_ask():
            newest, asked = robot.ask(), asked + 1
    assert robot.finish(newest, superseded_seqs=asked - 1 if arrive else 0) is None
    robot.queue.clear()
    robot.wait(1)
    return asked


def test_the_first_request_of_a_question_has_replaced_none_whatever_the_server_says():
    waits_ns = []
    for superseded in (0, 5):
        robot = Robot()
        robot.cycles(ns(0.1), 2)
        first = robot.ask()
        while not robot.may_ask():
            robot.wait(ns(0.01))
        robot.ask()
        robot.wait(ns(0.05))
        assert robot.finish(first, superseded_seqs=superseded) is None
        robot.queue.clear()
        robot.wait(1)
        waits_ns.append(wait_of(robot))
    assert waits_ns[0] == waits_ns[1] > ns(0.15)


def test_a_server_that_became_slow_is_soon_asked_once_for_each_answer():
    """Each request took the turn of the one before it: its own wait is not what an answer takes."""
    robot = Robot()
    robot.cycles(ns(0.05), 12)
    assert ask_until(robot, 0.4) > 1
    for _ in range(6):
        ask_until(robot, 0.4)
    assert ask_until(robot, 0.4) == 1


def test_a_request_that_was_lost_says_nothing_of_how_long_an_answer_takes():
    robot = Robot()
    robot.cycles(ns(0.05), 12)
    before = wait_of(robot)
    for _ in range(6):
        robot.cycle.abandon()
        ask_until(robot, 0.1, arrive=False)
    assert wait_of(robot) == before


def test_the_first_of_two_answers_counts_whichever_request_it_is_to():
    robot = Robot(request_timeout_s=20.0)
    first = robot.ask()
    robot.wait(ns(1.0))
    second = robot.ask()
    assert robot.finish(first) is None
    assert len(robot.queue) == CHUNK_SIZE
    assert not robot.cycle.is_answered_by(answer(second)), "its prefix is of the queue of before"

    first = robot.ask()
    robot.wait(ns(1.0))
    second = robot.ask()
    assert robot.finish(second) is None
    assert not robot.cycle.is_answered_by(answer(first))


def test_an_answer_is_merged_from_the_capture_of_its_own_request():
    """Between the two requests two rows were executed: they are past for an answer to the first one."""
    robot = Robot(request_timeout_s=20.0)
    robot.queue_rows(10)
    first = robot.ask()
    for _ in range(2):
        robot.queue.get()
    robot.wait(2 * PERIOD_NS)
    second = robot.ask()
    assert second.prefix_robot is not None
    assert len(second.prefix_robot) == 8
    robot.queue.get()
    robot.wait(PERIOD_NS)
    assert robot.finish(first) is None
    assert robot.queue.plan.head is not None
    assert robot.queue.plan.head.step_index == 3
    assert robot.queue.plan.head.source.seq_id == first.seq_id


def test_a_request_that_was_not_sent_leaves_those_before_it_open():
    robot = Robot(request_timeout_s=20.0)
    first = robot.ask()
    robot.wait(ns(1.0))
    unsent = robot.ask()
    robot.cycle.take_back()
    assert robot.cycle.request_in_flight == first
    assert not robot.cycle.is_answered_by(answer(unsent))
    robot.cycle.take_back()
    assert robot.cycle.request_in_flight is None
    robot.cycle.take_back()
    assert robot.cycle.request_in_flight is None


def late(robot: Robot) -> Robot:
    """Let an answer come two seconds after its request, which was asked again."""
    first = robot.ask()
    robot.wait(ns(1.0))
    robot.ask()
    robot.wait(ns(1.0))
    assert robot.finish(first) is None
    robot.queue.clear()
    robot.wait(1)
    return robot


@pytest.mark.parametrize(("latency_s", "wait_s"), [(1.0, 1.5), (0.2, 0.3)])
def test_an_answer_that_took_unusually_long_says_how_long_to_wait_until_one_does_not(
    latency_s: float, wait_s: float
):
    robot = Robot(request_timeout_s=20.0)
    robot.cycles(ns(0.2), 60)
    late(robot)
    assert wait_of(robot) == ns(3.0), "half as long again as the two seconds that it took"
    robot.cycle.abandon()
    robot.cycles(ns(latency_s), 1)
    assert wait_of(robot) == pytest.approx(ns(wait_s), abs=ns(0.02))


@pytest.mark.parametrize("changes", [{"session_epoch": 2}, {"seq_id": 99}, {"episode_id": 7}])
def test_what_answers_nothing_that_was_asked_is_no_answer(changes: dict[str, Any]):
    robot = Robot(request_timeout_s=20.0)
    first = robot.ask()
    robot.wait(ns(1.0))
    robot.ask()
    assert not robot.cycle.is_answered_by(answer(first, **changes))


def test_the_answer_to_a_request_that_was_given_up_is_no_answer():
    robot = Robot(request_timeout_s=20.0)
    first = robot.ask()
    robot.cycle.abandon()
    assert not robot.cycle.is_answered_by(answer(first))


TRAINED = {"continuation": "trained", "rtc": True}
DELAY_NS = 4 * PERIOD_NS  # that these robots expect


def standing(delay_ns: int = DELAY_NS, **config: Any) -> Robot:
    """Return a robot with nothing to execute, whose policy is told a delay, of four rows or another."""
    robot = Robot(**config)
    robot.session = replace(robot.session, **TRAINED)
    robot.cycle.begin_session(delay_ns / 1e9)
    return robot


def comes(robot: Robot, chunk: Chunk) -> bool:
    """Let an answer come; return whether it waits."""
    assert robot.cycle.is_answered_by(chunk)
    return robot.cycle.keep_early(chunk, robot.session, robot.now_ns)


def test_a_plan_for_the_moment_of_arrival_begins_then_and_not_before():
    robot = standing()
    request = robot.ask()
    assert request.inference_delay_steps == 4
    robot.wait(PERIOD_NS)
    chunk = answer(request)
    assert comes(robot, chunk)
    assert not robot.cycle.is_answered_by(chunk), "it has come, and counts once"
    robot.wait(DELAY_NS - PERIOD_NS - 1)
    assert robot.cycle.find_due(robot.now_ns) is None
    assert not robot.may_ask()
    robot.wait(1)
    assert robot.cycle.find_due(robot.now_ns) is chunk
    assert robot.cycle.finish(chunk, robot.session, robot.now_ns) is None
    assert robot.queue.plan.head is not None
    assert robot.queue.plan.head.step_index == 0
    assert robot.cycle.find_due(robot.now_ns) is None


def test_a_question_whose_answer_waits_for_its_moment_is_not_asked_again():
    robot = standing(ns(1.0))
    for _ in range(9):
        robot.cycle.latency.add(0.1)
    assert comes(robot, answer(robot.ask()))
    robot.wait(ns(0.9))
    assert not robot.may_ask()


def test_what_an_early_answer_teaches_is_how_long_it_took():
    robot = standing()
    for _ in range(2):  # the first cycle of a session does not count
        request = robot.ask()
        robot.wait(PERIOD_NS)
        chunk = answer(request)
        assert comes(robot, chunk)
        robot.wait(DELAY_NS)
        robot.cycle.finish(chunk, robot.session, robot.now_ns)
        robot.queue.clear()
        robot.wait(1)
    assert robot.cycle.delay_steps == 1


@pytest.mark.parametrize("waited_ns", [DELAY_NS, DELAY_NS + PERIOD_NS])
def test_an_answer_that_is_not_early_is_executed_at_once(waited_ns: int):
    robot = standing()
    request = robot.ask()
    robot.wait(waited_ns)
    assert not comes(robot, answer(request))


def test_rows_that_last_until_the_moment_lead_up_to_it():
    """They are the chunk's first rows, so that it may join the queue at once."""
    for rows, waits in ((3, True), (4, False)):
        robot = standing()
        robot.queue_rows(rows)
        assert comes(robot, answer(robot.ask())) == waits


@pytest.mark.parametrize("continuation", ["none", "guidance"])
def test_a_plan_that_begins_at_the_capture_does_not_wait(continuation: str):
    robot = standing()
    robot.session = replace(robot.session, continuation=continuation)
    assert not comes(robot, answer(robot.ask()))


def test_an_error_is_told_also_where_nobody_knows_what_its_rows_are_relative_to():
    document = contract_document()
    document["actions"]["relative"] = {"to": "chunk_start", "names": list(JOINTS)}
    robot = Robot(contract=parse_document(document, Contract, "test.yaml"))
    for status, words in (
        (ChunkStatus.ERROR, "server answered ERROR"),
        (ChunkStatus.OK, "its actions are relative"),
    ):
        rejection = robot.finish(robot.ask(), status=status)
        assert rejection is not None
        assert rejection.problem.startswith(words)


def test_an_error_does_not_wait():
    robot = standing()
    assert not comes(robot, answer(robot.ask(), status=ChunkStatus.ERROR))


def test_an_answer_may_wait_for_a_single_row():
    robot = standing(PERIOD_NS)
    assert comes(robot, answer(robot.ask()))


@pytest.mark.parametrize(("max_age_ns", "waits"), [(DELAY_NS, True), (DELAY_NS - 1, False)])
def test_no_answer_waits_until_it_is_too_old(max_age_ns: int, waits: bool):
    robot = standing(max_action_age_s=max_age_ns / 1e9)
    assert comes(robot, answer(robot.ask())) == waits


def test_an_early_answer_runs_into_no_timeout_and_is_forgotten_with_its_question():
    robot = standing(request_timeout_s=2 * PERIOD_NS / 1e9)
    assert comes(robot, answer(robot.ask()))
    robot.wait(3 * PERIOD_NS)
    assert robot.cycle.timed_out(robot.now_ns) is None
    robot.cycle.abandon()
    assert robot.cycle.find_due(robot.now_ns + DELAY_NS) is None
