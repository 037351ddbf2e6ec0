# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When the control thread beats, and when it knows that the watchdog has given it up."""

from __future__ import annotations

import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.watchdog import Heartbeat, Phase, WatchdogState
from support.builders import make_config, make_contract, ns
from support.robot.simulation import World, streaming

PERIOD_S, TIMEOUT_S = 1 / 30, 0.2
MS = 1_000_000
A, B = 21, 22  # instances of watchdogs


@pytest.fixture
def watched() -> Heartbeat:
    beats = Heartbeat(PERIOD_S, TIMEOUT_S)
    assert not beats.hear_watchdog(A, WatchdogState.DISARMED, 0)
    return beats


@pytest.mark.parametrize(("rate_hz", "beats_per_s"), [(30.0, 30), (500.0, 100)])
def test_a_fast_robot_beats_a_hundred_times_a_second_at_most(rate_hz: float, beats_per_s: int) -> None:
    beats = Heartbeat(1 / rate_hz, TIMEOUT_S)
    ticks = range(0, 10**9, round(1e9 / rate_hz))
    sent = [now_ns for now_ns in ticks if beats.beat(now_ns, commanding=True) is not None]
    assert len(sent) == pytest.approx(beats_per_s, abs=2)


def test_a_change_is_told_at_once() -> None:
    beats = Heartbeat(0.002, TIMEOUT_S)
    assert beats.beat(0, commanding=False) is Phase.IDLE
    assert beats.beat(2 * MS, commanding=False) is None
    assert beats.beat(4 * MS, commanding=True) is Phase.COMMANDING
    assert beats.beat(6 * MS, commanding=False) is Phase.IDLE


def test_the_deadline_is_a_period_and_the_timeout() -> None:
    assert Heartbeat(PERIOD_S, TIMEOUT_S).deadline_s == pytest.approx(PERIOD_S + TIMEOUT_S)
    assert Heartbeat(1.0, TIMEOUT_S).deadline_s == pytest.approx(1.2)


def test_a_thread_that_was_stuck_while_it_commanded_knows_it(watched: Heartbeat) -> None:
    watched.beat(0, commanding=True)
    assert not watched.was_given_up(230 * MS)
    assert watched.was_given_up(240 * MS)
    watched.beat(240 * MS, commanding=False)
    assert not watched.was_given_up(270 * MS)


@pytest.mark.parametrize(("silence_ns", "given_up"), [(250 * MS, False), (250 * MS + 1, True)])
def test_a_thread_is_given_up_when_its_silence_is_longer_than_the_deadline(
    silence_ns: int, given_up: bool
) -> None:
    beats = Heartbeat(0.05, TIMEOUT_S)
    beats.hear_watchdog(A, WatchdogState.DISARMED, 0)
    begin_ns = 10**12
    beats.beat(begin_ns, commanding=True)
    assert beats.was_given_up(begin_ns + silence_ns) is given_up


def test_a_thread_that_was_stuck_in_a_pause_was_not_given_up(watched: Heartbeat) -> None:
    watched.beat(0, commanding=False)
    assert not watched.was_given_up(10_000 * MS)


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_robot_whose_commands_do_not_leave_beats_once_and_is_given_up(is_watched: bool) -> None:
    """The last one that left is in force meanwhile."""
    beats = Heartbeat(PERIOD_S, TIMEOUT_S)
    if is_watched:
        beats.hear_watchdog(A, WatchdogState.DISARMED, 0)
    assert beats.beat(0, commanding=True) is Phase.COMMANDING
    assert not beats.withholds
    assert beats.withhold(33 * MS) is Phase.COMMANDING
    assert beats.withholds
    for now_ms in range(66, 260, 33):
        assert beats.withhold(now_ms * MS) is None
        assert not beats.was_given_up(now_ms * MS)
    assert beats.was_given_up(267 * MS)
    beats.beat(267 * MS, commanding=True)
    assert not beats.withholds
    assert not beats.was_given_up(300 * MS)
    assert beats.withhold(300 * MS) is Phase.COMMANDING, "the first after one that left"


def test_a_beat_says_whether_anything_is_commanded() -> None:
    beats = Heartbeat(PERIOD_S, TIMEOUT_S)
    assert beats.idle
    beats.beat(0, commanding=True)
    assert not beats.idle
    beats.beat(MS, commanding=False)
    assert beats.idle


def test_without_a_watchdog_nobody_gave_the_thread_up() -> None:
    beats = Heartbeat(PERIOD_S, TIMEOUT_S)
    beats.beat(0, commanding=True)
    assert not beats.was_given_up(10_000 * MS)


def test_a_stop_pauses_once_and_its_repetitions_do_not_undo_resume(watched: Heartbeat) -> None:
    assert watched.hear_watchdog(A, WatchdogState.TRIPPED, 1)
    assert not watched.hear_watchdog(A, WatchdogState.TRIPPED, 1)
    assert not watched.hear_watchdog(A, WatchdogState.RETURNED, 1)
    assert not watched.hear_watchdog(A, WatchdogState.ARMED, 1)
    assert watched.hear_watchdog(A, WatchdogState.TRIPPED, 2)


def test_a_stop_pauses_the_robot_whatever_another_watchdog_has_counted(watched: Heartbeat) -> None:
    """One has stopped the arm before, and the other's first stop has the same number."""
    assert watched.hear_watchdog(A, WatchdogState.TRIPPED, 1)
    assert not watched.hear_watchdog(A, WatchdogState.ARMED, 1)
    assert not watched.hear_watchdog(B, WatchdogState.ARMED, 0)
    assert not watched.hear_watchdog(A, WatchdogState.ARMED, 1)
    assert watched.hear_watchdog(B, WatchdogState.TRIPPED, 1)


def test_the_reports_of_two_watchdogs_in_turn_do_not_undo_resume(watched: Heartbeat) -> None:
    for instance, trips in ((A, 1), (B, 2)):
        assert watched.hear_watchdog(instance, WatchdogState.TRIPPED, trips)
    for instance, trips in ((A, 1), (B, 2), (A, 1)):
        assert not watched.hear_watchdog(instance, WatchdogState.RETURNED, trips)


def test_many_watchdogs_cost_no_memory_and_the_robot_pauses_for_each(watched: Heartbeat) -> None:
    watchdogs = range(100, 109)  # one more than are told apart
    assert all(watched.hear_watchdog(watchdog, WatchdogState.TRIPPED, 1) for watchdog in watchdogs)
    assert not watched.hear_watchdog(watchdogs[-1], WatchdogState.TRIPPED, 1)
    assert not watched.hear_watchdog(watchdogs[1], WatchdogState.TRIPPED, 1), "the oldest but one is known"
    assert watched.hear_watchdog(watchdogs[0], WatchdogState.TRIPPED, 1), "the oldest is forgotten"


@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize(
    ("state", "pauses"),
    [
        (WatchdogState.TRIPPED, True),
        (WatchdogState.RETURNED, True),
        (WatchdogState.DISARMED, False),
        (WatchdogState.ARMED, False),
    ],
)
def test_a_new_node_pauses_if_the_stop_of_the_old_one_still_stands(
    state: WatchdogState, pauses: bool, trips: int
) -> None:
    beats = Heartbeat(PERIOD_S, TIMEOUT_S)
    assert beats.hear_watchdog(A, state, trips) is pauses


@pytest.mark.parametrize("state", WatchdogState)
def test_a_trip_is_heard_of_by_the_next_state_when_the_word_of_it_was_lost(
    watched: Heartbeat, state: WatchdogState
) -> None:
    assert not watched.hear_watchdog(B, WatchdogState.ARMED, 2)
    assert watched.hear_watchdog(B, state, 3)
    assert not watched.hear_watchdog(B, state, 3)
    assert not watched.hear_watchdog(B, WatchdogState.TRIPPED, 2), "it comes late"
    assert not watched.hear_watchdog(B, state, 3)


def test_a_state_that_no_watchdog_has_is_refused_by_value(watched: Heartbeat) -> None:
    with pytest.raises(ValueError, match="found state 9, expected one of WatchdogState"):
        watched.hear_watchdog(A, 9, 1)
    assert watched.hear_watchdog(A, WatchdogState.TRIPPED, 1)


@pytest.mark.parametrize("fps", [5.0, 30.0, 100.0])
def test_a_thread_that_may_have_been_given_up_begins_where_the_arm_is_measured_since(fps: float) -> None:
    """Also one that never heard of a watchdog: it may have been found late."""
    world = streaming(World(make_config(watchdog_timeout_s=TIMEOUT_S), contract=make_contract(fps=fps)))
    stuck_ns = ns(TIMEOUT_S) + world.period_ns
    assert stuck_ns <= ns(Heartbeat(1 / fps, TIMEOUT_S).deadline_s)
    assert world.engine.play(world.ticks[-1][0] + stuck_ns, ()).source is CommandSource.CHUNK
    stuck = world.engine.play(world.ticks[-1][0] + 2 * stuck_ns + MS, ())
    assert stuck.command is None


def test_a_robot_that_was_stopped_from_outside_is_paused_and_trusts_no_command_of_before() -> None:
    world = streaming(World())
    losses = world.engine.control.operator.losses
    world.engine.take_outside_stop()
    assert world.engine.paused
    assert world.engine.control.operator.losses == losses + 1
