# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When a request may be made, what it shows and which answers are executed: a request cycle by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from remote_inference.core.exchange import ChunkStatus, Request, SessionReply
from remote_inference.core.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.core.robot.queue.observation_history import TickSample
from remote_inference.core.robot.requests.request_cycle import Rejection, RequestCycle
from remote_inference.core.robot.safety.guard import AGE, SENSOR_AGE, Guard
from support.builders import (
    CAMERA,
    CHUNK_SIZE,
    PERIOD_NS,
    TOPICS,
    answer,
    make_config,
    make_contract,
    make_rows,
    make_source,
    ns,
)

BEGIN_NS = ns(100)


class Robot:
    """A request cycle with its queue. Its sensors deliver when `sense` is called."""

    def __init__(self, delay_policy: DelayPolicy = DelayPolicy.CONSUMED, **config: Any) -> None:
        contract = make_contract()
        self.queue = ActionQueue(delay_policy)
        self.guard = Guard(contract.actions, PERIOD_NS / 1e9)
        self.cycle = RequestCycle(contract, make_config(**config), self.queue, self.guard)
        self.session = SessionReply(accepted=True, session_id="session", chunk_size=CHUNK_SIZE, rtc=True)
        self.now_ns = BEGIN_NS
        self.sense()

    def sense(self) -> None:
        self.cycle.see(dict.fromkeys(TOPICS, self.now_ns))
        self.cycle.look_for_stale_sources(self.now_ns)

    def wait(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        self.sense()

    def ask(self, epoch: int = 1) -> Request:
        return self.cycle.begin(
            self.session, self.now_ns, epoch=epoch, episode_id=0, episode_start=False, task="wave"
        )

    def finish(self, request: Request, rows: np.ndarray | None = None, **changes: Any) -> Rejection | None:
        chunk = answer(request, rows, **changes)
        assert self.cycle.is_answered_by(chunk)
        return self.cycle.finish(chunk, self.session, self.now_ns)

    def cycles(self, latency_ns: int, count: int) -> None:
        """Let requests be answered after a time, and their rows be executed."""
        for _ in range(count):
            request = self.ask()
            self.wait(latency_ns)
            assert self.finish(request) is None
            self.queue.clear()
            self.wait(1)

    def may_ask(self) -> bool:
        return self.cycle.awaits_observation(self.now_ns)

    def queue_rows(self, count: int) -> None:
        rows = make_rows(count)
        self.queue.merge(
            make_source(capture_ns=self.now_ns),
            rows,
            rows,
            MergeMode.REPLACE,
            latency_steps=0,
            executed_before=0,
        )


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
    assert robot.cycle.look_for_stale_sources(robot.now_ns) == ((topic,) if stale else ())
    assert robot.cycle.look_for_stale_sources(robot.now_ns) == (), "told once"
    assert robot.cycle.stale_sources == ((topic,) if stale else ())
    assert robot.guard.counts[SENSOR_AGE] == counted + stale
    assert robot.cycle.awaits_observation(robot.now_ns) != stale
    assert robot.cycle.is_ready(robot.now_ns) != stale


def test_a_source_that_was_never_heard_is_stale():
    robot = Robot()
    robot.cycle.see({TOPICS[0]: robot.now_ns})
    robot.cycle.look_for_stale_sources(robot.now_ns)
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
    head = robot.queue.head
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


def tick_sample(at_ns: int) -> TickSample:
    return TickSample("content", dict.fromkeys(TOPICS, at_ns))


def test_an_observation_of_one_step_shows_what_arrived_last():
    robot = Robot()
    robot.cycle.take_sample(tick_sample(robot.now_ns - 1))
    assert robot.cycle.steps() == ()
    robot.finish(robot.ask())
    head = robot.queue.head
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
    assert robot.cycle.steps() == (ticked, ticked)
    robot.finish(robot.ask())
    head = robot.queue.head
    assert head is not None
    assert head.source.capture_ns == robot.now_ns - 1


@pytest.mark.parametrize("begin", [RequestCycle.begin_history, RequestCycle.drop_plan])
def test_a_new_history_shows_nothing_from_before(begin: Callable[[RequestCycle, int], None]):
    robot = Robot()
    robot.cycle.use([CAMERA], 2, robot.now_ns)
    robot.wait(ns(0.1))
    robot.cycle.take_sample(tick_sample(robot.now_ns))
    begin(robot.cycle, robot.now_ns)
    assert robot.cycle.steps() == ()
    robot.cycle.take_sample(tick_sample(robot.now_ns))
    assert robot.cycle.steps() == ()


def test_cameras_that_the_policy_does_not_use_are_not_waited_for():
    robot = Robot()
    robot.cycle.use([], 1, robot.now_ns)
    robot.now_ns += ns(1.0)
    robot.cycle.see({TOPICS[0]: robot.now_ns, TOPICS[1]: BEGIN_NS})
    robot.cycle.look_for_stale_sources(robot.now_ns)
    assert robot.cycle.is_ready(robot.now_ns)


# -- answers -------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("rtc", "left"), [(True, CHUNK_SIZE), (False, CHUNK_SIZE + 3)])
def test_a_chunk_replaces_the_queue_if_its_policy_continues_prefixes(rtc: bool, left: int):
    robot = Robot()
    robot.session = SessionReply(accepted=True, session_id="session", chunk_size=CHUNK_SIZE, rtc=rtc)
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


# -- latencies -----------------------------------------------------------------------------------------------


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
