# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The ring of control ticks: oldest first, the episode's first tick repeated, none of an episode before."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from hypothesis import given, strategies as st

from remote_inference.robot.queue.observation_history import ObservationHistory, TickSample
from support.builders import PERIOD_NS, TOPICS


def sample(tick: int, **arrivals: int) -> TickSample:
    return TickSample(tick, {**dict.fromkeys(TOPICS, 10 * tick), **arrivals})


def make_history(steps: int = 3) -> ObservationHistory:
    history = ObservationHistory(PERIOD_NS)
    history.use(steps, TOPICS, now_ns=0)
    return history


def shown(history: ObservationHistory) -> list[int]:
    return [step.content for step in history.steps()]


def test_the_first_tick_of_an_episode_is_repeated_until_there_are_enough():
    history = make_history()
    found = []
    for tick in (1, 2, 3, 4):
        history.add(sample(tick))
        found.append(shown(history))
    assert found == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]]


def test_steps_are_a_row_apart_where_control_is_faster_than_the_policy():
    history = ObservationHistory(PERIOD_NS, ticks_per_row=2)
    history.use(3, TOPICS, now_ns=0)
    found = []
    for tick in range(1, 7):
        history.add(sample(tick))
        found.append(shown(history))
    assert found == [[1, 1, 1], [2, 2, 2], [1, 1, 3], [2, 2, 4], [1, 3, 5], [2, 4, 6]]


def test_no_tick_of_an_episode_before_shows():
    history = make_history()
    for tick in (1, 2, 3):
        history.add(sample(tick))
    history.begin(now_ns=35)
    assert history.steps() == ()
    history.add(sample(3))  # taken before, and noticed late
    history.add(sample(4, **{TOPICS[1]: 35}))  # one of its sources has not delivered since
    assert history.steps() == ()
    history.add(sample(5))
    assert shown(history) == [5, 5, 5]


def test_a_tick_before_every_source_has_delivered_does_not_count():
    history = make_history()
    history.add(TickSample(1, {TOPICS[0]: 10}))
    assert history.steps() == ()


def test_a_topic_that_the_policy_does_not_use_may_be_silent():
    history = ObservationHistory(PERIOD_NS)
    history.use(2, TOPICS[:1], now_ns=0)
    history.add(TickSample(1, {TOPICS[0]: 10}))
    assert shown(history) == [1, 1]


def test_after_missed_ticks_it_begins_anew():
    """The steps before and after would seem a row apart, and the robot several times as fast."""
    history = make_history()
    for tick, missed in ((1, 0), (2, 0.5), (3, 0), (5, 0), (6, 0)):  # one is late, one is missing
        history.add(replace(sample(tick), tick_ns=round((tick + missed) * PERIOD_NS)))
        if tick == 3:
            assert shown(history) == [1, 2, 3]
    assert shown(history) == [5, 5, 6]


def test_another_session_begins_anew_with_its_own_number_of_steps():
    history = make_history()
    for tick in (1, 2, 3):
        history.add(sample(tick))
    history.use(2, TOPICS, now_ns=30)
    assert history.steps() == ()
    history.add(sample(4))
    history.add(sample(5))
    assert (history.observation_steps, shown(history)) == (2, [4, 5])


@given(st.integers(1, 16), st.lists(st.booleans(), max_size=60))
def test_the_ring_shows_the_last_ticks_of_the_episode_and_keeps_no_more(steps: int, begins: list[bool]):
    history = make_history(steps)
    episode: deque[int] = deque(maxlen=steps)
    for tick, begin in enumerate(begins, start=1):
        if begin:
            history.begin(10 * tick - 1)
            episode.clear()
        history.add(sample(tick))
        episode.append(tick)
        assert shown(history) == [episode[0]] * (steps - len(episode)) + list(episode)
        assert len(history._samples) <= steps
