# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a request may be made, and what it shows: a request cycle by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.requests.request_cycle import RequestCycle
from remote_inference.robot.safety.guard import SENSOR_AGE
from support.builders import CAMERA, PERIOD_NS, TOPICS, answer, ns
from support.robot.asking_robot import BEGIN_NS, Robot

# -- what a request needs ------------------------------------------------------------------------------------


def test_a_request_needs_every_sensor_fresh_a_queue_that_is_low_and_no_pause():
    robot = Robot(buffer_time_s=0.5)
    assert robot.cycle.is_ready(robot.now_ns)
    robot.queue_rows(11)
    assert not robot.cycle.is_ready(robot.now_ns)
    assert not robot.cycle.awaits_observation(robot.now_ns)
    robot.queue.get()
    assert robot.cycle.is_ready(robot.now_ns), "half a second is left"
    assert robot.cycle.awaits_observation(robot.now_ns)
    robot.ask()
    robot.wait(1)
    assert not robot.cycle.is_ready(robot.now_ns), "one is in flight"


@pytest.mark.parametrize(("age_ns", "stale"), [(ns(0.5), False), (ns(0.5) + 1, True)])
@pytest.mark.parametrize("topic", TOPICS)
def test_a_source_is_stale_when_it_is_older_than_the_bound(topic: str, age_ns: int, stale: bool):
    robot = Robot(max_sensor_age_s=0.5)
    robot.now_ns += ns(1.0)
    robot.cycle.see(dict.fromkeys(TOPICS, robot.now_ns) | {topic: robot.now_ns - age_ns})
    counted = robot.guard.counts[SENSOR_AGE]
    assert robot.cycle.update_stale_sources(robot.now_ns) == ((topic,) if stale else ())
    assert robot.cycle.update_stale_sources(robot.now_ns) == (), "told once"
    assert robot.cycle.stale_sources == ((topic,) if stale else ())
    assert robot.guard.counts[SENSOR_AGE] == counted + stale
    assert robot.cycle.awaits_observation(robot.now_ns) != stale
    assert robot.cycle.is_ready(robot.now_ns) != stale


def test_a_source_that_was_never_heard_is_stale():
    robot = Robot()
    robot.cycle.see({TOPICS[0]: robot.now_ns})
    robot.cycle.update_stale_sources(robot.now_ns)
    assert robot.cycle.stale_sources == TOPICS[1:]


@pytest.mark.parametrize("frozen", TOPICS)
def test_a_request_waits_for_something_new_from_each_source(frozen: str):
    robot = Robot()
    robot.finish(robot.ask())
    robot.queue.clear()
    assert not robot.cycle.is_ready(robot.now_ns)
    robot.now_ns += 1
    robot.cycle.see(dict.fromkeys(TOPICS, robot.now_ns) | {frozen: robot.now_ns - 1})
    assert not robot.cycle.is_ready(robot.now_ns)
    robot.sense()
    assert robot.cycle.is_ready(robot.now_ns)


def test_a_dropped_plan_is_forgotten_and_what_was_seen_before_is_not_shown():
    robot = Robot()
    request = robot.ask()
    robot.queue_rows(3)
    robot.wait(1)
    robot.cycle.drop_plan(robot.now_ns)
    assert len(robot.queue) == 0
    assert not robot.cycle.is_answered_by(answer(request))
    assert robot.cycle.request_in_flight is None
    assert not robot.cycle.is_ready(robot.now_ns), "seen in the instant itself"
    robot.wait(1)
    assert robot.cycle.is_ready(robot.now_ns)


@pytest.mark.parametrize("left", [0, 1, 2])
def test_who_blocks_asks_when_the_queue_is_empty(left: int):
    robot = Robot(request_mode="blocking", buffer_time_s=60.0)
    robot.queue_rows(left)
    assert robot.cycle.wants_chunk(robot.now_ns) == (left == 0)


@pytest.mark.parametrize(("latency_s", "buffer_s"), [(0.0, 0.2), (0.05, 0.2), (0.3, 0.6)])
def test_the_automatic_buffer_is_twice_the_latency_and_not_less_than_a_fifth_of_a_second(
    latency_s: float, buffer_s: float
):
    robot = Robot(buffer_time_s="auto")
    if latency_s:
        robot.cycles(ns(latency_s), 3)
    rows = round(buffer_s * 1e9) // PERIOD_NS
    robot.queue_rows(rows)
    assert robot.cycle.wants_chunk(robot.now_ns)
    robot.queue_rows(rows + 1)
    assert not robot.cycle.wants_chunk(robot.now_ns)


# -- what a request shows ------------------------------------------------------------------------------------


def test_requests_are_numbered_from_one_on():
    robot = Robot()
    assert [robot.ask().seq_id for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(("oldest", "newest"), [TOPICS, TOPICS[::-1]])
def test_a_request_is_as_old_as_its_oldest_source(oldest: str, newest: str):
    robot = Robot()
    robot.queue_rows(10)
    older_ns, newer_ns = robot.now_ns + ns(0.01), robot.now_ns + ns(0.08)
    robot.cycle.see({newest: BEGIN_NS, oldest: older_ns})
    robot.queue.get()
    robot.cycle.see({newest: newer_ns, oldest: older_ns})
    robot.now_ns += ns(0.1)
    request = robot.ask()
    for prefix in (request.prefix_model, request.prefix_robot):
        assert prefix is not None
        assert len(prefix) == 10, "the row that was executed since is the first one"
    robot.finish(request)
    head = robot.queue.plan.head
    assert head is not None
    assert head.source.capture_ns == older_ns


def test_a_message_that_is_seen_again_is_as_old_as_before():
    robot = Robot()
    robot.queue_rows(10)
    arrivals = dict.fromkeys(TOPICS, robot.now_ns)
    for _ in range(3):
        robot.queue.get()
        robot.cycle.see(arrivals)
    request = robot.ask()
    assert request.prefix_model is not None
    assert len(request.prefix_model) == 10


@pytest.mark.parametrize("observation_steps", [1, 2])
def test_actions_count_as_executed_since_a_source_arrived(observation_steps: int):
    robot = Robot()
    robot.cycle.use([CAMERA], observation_steps, robot.now_ns)
    robot.queue_rows(10)
    arrival_ns = robot.now_ns + 1
    robot.queue.get(arrival_ns + 1)
    robot.now_ns += ns(0.1)
    if observation_steps == 1:
        robot.cycle.see(dict.fromkeys(TOPICS, arrival_ns))
    else:
        robot.cycle.take_sample(tick_sample(arrival_ns))
    request = robot.ask()
    assert request.prefix_model is not None
    assert len(request.prefix_model) == 10


def test_rows_of_another_policy_are_not_sent_for_the_session_s_to_continue():
    """In model space they mean something else to it: each policy has its own scales."""
    robot = Robot()
    robot.session = replace(robot.session, policy_fingerprint="f1")
    robot.finish(robot.ask())
    robot.wait(1)
    again = replace(robot.session, session_id="again")
    robot.session = again
    assert robot.ask().prefix_model is not None, "the same policy goes on in another session"
    robot.session = replace(again, policy_fingerprint="f2")
    request = robot.ask()
    assert request.prefix_model is None
    assert request.prefix_robot is None


def test_a_row_of_another_policy_that_was_executed_since_the_capture_is_no_prefix_either():
    robot = Robot()
    robot.finish(robot.ask())
    robot.wait(1)
    robot.session = replace(robot.session, policy_fingerprint="f2")
    request = robot.ask()
    robot.queue.get()
    robot.finish(request)
    assert robot.ask().prefix_model is None
    robot.wait(1)
    assert robot.ask().prefix_model is not None


def tick_sample(at_ns: int) -> TickSample:
    return TickSample("content", dict.fromkeys(TOPICS, at_ns))


def test_an_observation_of_one_step_shows_what_arrived_last():
    robot = Robot()
    robot.cycle.take_sample(tick_sample(robot.now_ns - 1))
    assert robot.cycle.history.steps() == ()
    robot.finish(robot.ask())
    head = robot.queue.plan.head
    assert head is not None
    assert head.source.capture_ns == robot.now_ns


def test_an_observation_of_two_steps_shows_control_ticks():
    robot = Robot()
    robot.cycle.use([CAMERA], 2, robot.now_ns)
    robot.wait(ns(0.1))
    assert not robot.cycle.is_ready(robot.now_ns), "there was no tick yet"
    ticked = tick_sample(robot.now_ns - 1)
    robot.cycle.take_sample(ticked)
    assert robot.cycle.is_ready(robot.now_ns)
    robot.sense()
    assert robot.cycle.history.steps() == (ticked, ticked)
    robot.finish(robot.ask())
    head = robot.queue.plan.head
    assert head is not None
    assert head.source.capture_ns == robot.now_ns - 1


def test_a_history_begins_anew_after_a_control_tick_that_was_missed():
    robot = Robot()
    robot.cycle.use([CAMERA], 2, robot.now_ns)
    for missed in (0, 0, 1):
        robot.now_ns += (1 + missed) * PERIOD_NS
        robot.cycle.take_sample(replace(tick_sample(robot.now_ns), tick_ns=robot.now_ns))
    assert len({step.tick_ns for step in robot.cycle.history.steps()}) == 1


@pytest.mark.parametrize("begin", [lambda cycle, now_ns: cycle.history.begin(now_ns), RequestCycle.drop_plan])
def test_a_new_history_shows_nothing_from_before(begin: Callable[[RequestCycle, int], None]):
    robot = Robot()
    robot.cycle.use([CAMERA], 2, robot.now_ns)
    robot.wait(ns(0.1))
    robot.cycle.take_sample(tick_sample(robot.now_ns))
    begin(robot.cycle, robot.now_ns)
    assert robot.cycle.history.steps() == ()
    robot.cycle.take_sample(tick_sample(robot.now_ns))
    assert robot.cycle.history.steps() == ()


def test_cameras_that_the_policy_does_not_use_are_not_waited_for():
    robot = Robot()
    robot.cycle.use([], 1, robot.now_ns)
    robot.now_ns += ns(1.0)
    robot.cycle.see({TOPICS[0]: robot.now_ns, TOPICS[1]: BEGIN_NS})
    robot.cycle.update_stale_sources(robot.now_ns)
    assert robot.cycle.is_ready(robot.now_ns)
