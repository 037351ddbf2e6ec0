# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A message counts from its arrival, unless it repeats the last one or waited while nothing arrived."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from remote_inference.base.wire.sensors.content_time import CAUGHT_UP_NS, ContentClock
from support.builders import ns

HOUR_NS = ns(3600)
STAMP_NS = ns(1_700_000_000)  # wall clock when the robot's monotonic clock shows 0


def play(clock: ContentClock, *messages: tuple[float, float]) -> list[float | None]:
    """Return the content time [s] of each message, given as (captured at, arrived at) [s]."""
    contents = [clock.content_ns(STAMP_NS + ns(stamp_s), ns(arrival_s)) for stamp_s, arrival_s in messages]
    return [None if content is None else content / 1e9 for content in contents]


def test_messages_count_from_their_arrival_whatever_the_transport_s_jitter():
    assert play(ContentClock(), (1.0, 1.01), (1.1, 1.18), (1.2, 1.21)) == [1.01, 1.18, 1.21]


def test_a_repeated_message_is_nothing_new():
    clock = ContentClock()
    assert play(clock, (1.0, 1.01), (1.0, 1.1), (1.0, 5.0)) == [1.01, None, None]
    assert play(clock, (5.1, 5.11)) == [5.11]


def test_what_waited_in_a_stopped_process_counts_from_before_it_was_stopped():
    """Stopped from 1.05 to 3.0: the buffered messages come at once, oldest first, then new ones."""
    contents = play(
        ContentClock(), (1.0, 1.0), (1.1, 3.0), (2.0, 3.001), (2.95, 3.002), (3.0, 3.01), (3.1, 3.11)
    )
    assert contents == pytest.approx([1.0, 1.1, 2.0, 3.002, 3.01, 3.11])


def test_a_sensor_that_was_silent_and_comes_back_is_fresh_at_once():
    assert play(ContentClock(), (1.0, 1.0), (9.0, 9.0), (9.1, 9.1)) == [1.0, 9.0, 9.1]


def test_a_clock_that_is_set_forward_does_not_make_a_sensor_stale():
    clock = ContentClock()
    play(clock, (1.0, 1.0))
    assert play(clock, (3601.1, 1.1), (3601.2, 1.2)) == [1.1, 1.2]


@pytest.mark.parametrize("begin_s", [-3600.0, 0.0, 0.95])
def test_a_sensor_whose_clock_is_set_back_is_fresh_again_after_a_moment(begin_s: float):
    """As of a simulation that is reset, or a driver that begins anew."""
    clock = ContentClock()
    play(clock, (1.0, 1.0))
    again = [(begin_s + 0.1 * step, 1.1 + 0.1 * step) for step in range(6)]
    expected = [None if stamp < 1.0 and arrival < 1.399 else arrival for stamp, arrival in again]
    assert play(clock, *again) == pytest.approx(expected)


def test_a_message_that_comes_late_behind_a_newer_one_is_nothing_new():
    clock = ContentClock()
    play(clock, *[(0.1 * step, 0.1 * step) for step in range(10, 20)])
    late = [(1.3, 1.95), (2.0, 2.0), (1.35, 2.2), (2.3, 2.3), (1.4, 2.5), (2.6, 2.6)]
    assert play(clock, *late) == [None, 2.0, None, 2.3, None, 2.6]


def test_a_stream_of_older_messages_beside_the_newest_is_never_taken_as_new():
    """Of a second way to the robot, which takes longer."""
    clock = ContentClock()
    for step in range(100, 200):
        at_s = 0.1 * step
        assert play(clock, (at_s, at_s), (at_s - 0.6, at_s + 0.01))[1] is None


def test_slow_stamps_do_not_make_a_simulation_stale():
    """At a fifth of real time; also after it has stood still for a second."""
    clock = ContentClock()
    running = [(0.03 * step, 0.15 * step) for step in range(20)]
    assert play(clock, *running) == pytest.approx([arrival for _, arrival in running])
    after = [(0.6 + 0.03 * step, 4.0 + 0.15 * step) for step in range(20)]
    assert play(clock, *after)[8:] == pytest.approx([arrival for _, arrival in after[8:]])


def test_a_driver_without_stamps_is_judged_by_arrival_alone():
    clock = ContentClock()
    assert [clock.content_ns(0, ns(at_s)) for at_s in (1.0, 1.1, 4.0)] == [ns(1.0), ns(1.1), ns(4.0)]


@given(
    st.lists(st.tuples(st.floats(0.001, 3.0), st.floats(0.0, 3.0)), min_size=1, max_size=40),
)
def test_content_is_never_younger_than_its_arrival_and_never_goes_back(steps: list[tuple[float, float]]):
    """Any mix of capture intervals and waiting times, in order of capture."""
    clock, captured_ns, arrived_ns, last = ContentClock(), 0, 0, -1
    for interval_s, waited_s in steps:
        captured_ns += ns(interval_s)
        arrived_ns = max(arrived_ns, captured_ns + ns(waited_s))
        content = clock.content_ns(STAMP_NS + captured_ns, arrived_ns)
        assert content is not None
        assert last < content <= arrived_ns or arrived_ns - content <= CAUGHT_UP_NS
        last = content


def longest_lag(clock: ContentClock, arrivals: list[float], stamps: list[float], since_s: float) -> float:
    """Return how much later than its content a message arrived at most [s], of those since an instant."""
    contents = play(clock, *zip(stamps, arrivals, strict=True))
    lags = [
        arrival - content
        for arrival, content in zip(arrivals, contents, strict=True)
        if content is not None and arrival >= since_s
    ]
    return max(lags)


@pytest.mark.parametrize("period_s", [0.2, 0.35, 0.4, 0.7, 1.0, 5.0])
@pytest.mark.parametrize("speed", [0.1, 0.5, 0.9])
def test_a_slow_sensor_with_slow_stamps_is_fresh_after_a_moment(period_s: float, speed: float):
    """A camera of a simulation below real time: each interval is as long as a hole of a fast one."""
    arrivals = [10.0 + period_s * step for step in range(100)]
    stamps = [speed * arrival for arrival in arrivals]
    settled_s = 10.0 + max(1.5, 6 * period_s)
    assert longest_lag(ContentClock(), arrivals, stamps, settled_s) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("back_s", [0.05, 0.35, 0.39])
def test_a_slow_camera_whose_clock_steps_back_once_stays_fresh(back_s: float):
    arrivals = [10.0 + 0.4 * step for step in range(60)]
    stamps = [arrival - (back_s if arrival > 14.0 else 0.0) for arrival in arrivals]
    assert longest_lag(ContentClock(), arrivals, stamps, 14.0) <= CAUGHT_UP_NS / 1e9


@pytest.mark.parametrize("seed", range(20))
def test_an_irregular_sensor_with_slow_stamps_is_fresh_again_and_again(seed: int):
    """Whatever the intervals, lagging ends: after 3 s at the latest the robot hears a fresh message."""
    rng = random.Random(seed)
    clock, arrival_s, fresh_s = ContentClock(), 10.0, 10.0
    for _ in range(500):
        arrival_s += rng.choice([0.05, 0.3, 0.45, 1.1, 2.5])
        (content_s,) = play(clock, (0.5 * arrival_s, arrival_s))
        assert content_s is not None
        if arrival_s - content_s <= CAUGHT_UP_NS / 1e9:
            fresh_s = arrival_s
        assert arrival_s - fresh_s <= 3.0 + 2 * 2.5


def test_a_process_that_is_stopped_twice_in_a_row_hands_on_nothing_old_as_new():
    contents = play(
        ContentClock(),
        (1.0, 1.0),
        *[(1.0 + 0.1 * step, 1.0 + 0.1 * step) for step in range(1, 10)],
        (2.0, 4.0),  # stopped for 2 s
        (4.0, 4.01),
        (4.1, 6.5),  # and again
        (6.5, 6.51),
    )
    assert contents[-4:] == pytest.approx([2.0, 4.01, 4.11, 6.51])
