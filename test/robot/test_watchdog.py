# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When the command watchdog stops a robot's controllers, on a clock of the test's own."""

from __future__ import annotations

import math

import pytest

from remote_inference.base.contract.controller_stop import STOPS
from remote_inference.robot.watchdog import (
    DESCRIPTIONS,
    MAX_FAILED,
    TRANSITIONS,
    Phase,
    Watchdog,
    WatchdogEvent,
    WatchdogState,
)

A, B = 11, 12  # instances
DEADLINE_S = 0.25


class Clocked:
    """A watchdog whose clock runs in steps of 10 ms, each with one check."""

    def __init__(self) -> None:
        self.watchdog = Watchdog()
        self.now_ns = 10**12
        self.stops = 0

    def beat(self, phase: Phase, instance: int = A) -> None:
        self.watchdog.receive(instance, phase, DEADLINE_S, self.now_ns)

    def run(self, seconds: float, beat: Phase | None = None, instance: int = A) -> None:
        """Let time pass, with a beat of one kind every 10 ms."""
        for _ in range(round(seconds * 100)):
            self.now_ns += 10_000_000
            if beat is not None:
                self.beat(beat, instance)
            self.stops += self.watchdog.check(self.now_ns)

    @property
    def state(self) -> WatchdogState:
        return self.watchdog.state


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


@pytest.fixture
def tripped(clocked: Clocked) -> Clocked:
    clocked.run(0.5, Phase.COMMANDING)
    clocked.run(0.5)
    assert clocked.state is WatchdogState.TRIPPED
    clocked.stops = 0
    return clocked


def test_silence_after_a_command_stops_the_controllers_after_the_deadline(clocked: Clocked) -> None:
    clocked.run(0.5, Phase.COMMANDING)
    assert clocked.state is WatchdogState.ARMED
    clocked.run(DEADLINE_S)
    assert clocked.stops == 0
    clocked.run(0.01)
    assert clocked.stops == 1
    assert clocked.state is WatchdogState.TRIPPED
    assert "silent for 0.26 s" in clocked.watchdog.cause
    clocked.run(1.0)
    assert clocked.stops == STOPS
    assert clocked.watchdog.trips == 1


@pytest.mark.parametrize("last", [Phase.IDLE, Phase.ENDED])
def test_silence_after_a_pause_or_an_end_in_order_is_no_fault(clocked: Clocked, last: Phase) -> None:
    clocked.run(0.5, Phase.COMMANDING)
    clocked.beat(last)
    clocked.run(60.0)
    assert clocked.state is WatchdogState.DISARMED
    assert clocked.stops == clocked.watchdog.trips == 0


def test_a_node_that_was_never_heard_is_no_fault(clocked: Clocked) -> None:
    clocked.run(60.0)
    assert clocked.state is WatchdogState.DISARMED
    assert not clocked.stops


def test_a_node_that_only_says_that_it_commands_nothing_leaves_it_disarmed(clocked: Clocked) -> None:
    """For example in shadow mode."""
    for _ in range(5):
        clocked.run(0.01, Phase.IDLE)
        assert clocked.state is WatchdogState.DISARMED
    assert not clocked.watchdog.armed
    clocked.run(60.0)
    assert clocked.state is WatchdogState.DISARMED
    assert clocked.stops == clocked.watchdog.trips == 0


def test_a_node_that_ends_without_stopping_its_controllers_is_not_waited_for(clocked: Clocked) -> None:
    clocked.run(0.5, Phase.COMMANDING)
    clocked.beat(Phase.ABANDONED)
    clocked.run(0.01)
    assert clocked.stops == 1
    assert clocked.watchdog.cause == "the robot node ended without stopping its controllers"


def test_a_healthy_node_is_never_fought(clocked: Clocked) -> None:
    clocked.run(0.5, Phase.COMMANDING)
    clocked.run(0.3)
    assert 0 < clocked.stops < STOPS
    sent = clocked.stops
    clocked.run(5.0, Phase.COMMANDING)
    assert clocked.stops == sent


@pytest.mark.parametrize("beats_of_the_other", [Phase.IDLE, Phase.COMMANDING, Phase.ENDED])
def test_another_process_of_the_name_does_not_stand_for_one_that_hangs(
    clocked: Clocked, beats_of_the_other: Phase
) -> None:
    clocked.run(0.5, Phase.COMMANDING, A)
    clocked.run(DEADLINE_S + 0.05, beats_of_the_other, B)
    assert clocked.watchdog.trips == 1


def test_another_process_that_idles_ends_no_stop_that_is_tried_again(tripped: Clocked) -> None:
    """A newcomer of the name waits until the one that hangs is gone, of which it knows nothing."""
    tripped.run(1.0, Phase.IDLE, instance=B)
    assert tripped.watchdog.silent
    tripped.beat(Phase.IDLE)
    assert not tripped.watchdog.silent


def test_many_processes_that_failed_cost_no_memory(tripped: Clocked) -> None:
    for instance in range(100, 101 + MAX_FAILED):
        tripped.beat(Phase.ABANDONED, instance)
    assert tripped.watchdog.silent
    for instance in range(101, 101 + MAX_FAILED):
        assert tripped.watchdog.silent
        tripped.beat(Phase.IDLE, instance)
    assert not tripped.watchdog.silent, "the first ones are forgotten"


def test_no_stop_is_tried_again_while_another_process_has_commanded_all_along(clocked: Clocked) -> None:
    clocked.beat(Phase.COMMANDING, B)
    clocked.run(0.5, Phase.COMMANDING)
    assert clocked.watchdog.trips == 1
    assert not clocked.watchdog.silent


def test_no_stop_is_tried_again_while_another_process_that_commands_may_live(clocked: Clocked) -> None:
    clocked.beat(Phase.COMMANDING, B)
    clocked.run(0.8 * DEADLINE_S, Phase.COMMANDING)
    clocked.run(0.4 * DEADLINE_S)
    assert clocked.watchdog.trips == 1
    assert not clocked.watchdog.silent


def test_no_stop_is_tried_again_once_another_process_commands(tripped: Clocked) -> None:
    tripped.run(0.1, Phase.IDLE, instance=B)
    tripped.beat(Phase.COMMANDING, instance=B)
    assert not tripped.watchdog.silent
    tripped.beat(Phase.IDLE, instance=B)
    assert not tripped.watchdog.silent


def test_a_stop_stays_latched_until_the_node_is_back_paused_and_resumed(tripped: Clocked) -> None:
    tripped.run(1.0, Phase.COMMANDING)  # back, and has not heard of the stop yet
    assert tripped.state is WatchdogState.TRIPPED
    tripped.run(5.0, Phase.IDLE)
    assert tripped.state is WatchdogState.RETURNED
    tripped.run(0.1, Phase.COMMANDING)
    assert tripped.state is WatchdogState.ARMED
    assert tripped.watchdog.trips == 1


def test_a_node_that_thaws_unpaused_keeps_its_stop_latched_although_another_process_has_idled(
    tripped: Clocked,
) -> None:
    """It sends its own stops before it idles; a node that starts then must hear that nobody has resumed."""
    tripped.run(0.1, Phase.IDLE, B)
    tripped.run(0.1, Phase.COMMANDING, A)
    assert tripped.state is WatchdogState.TRIPPED
    tripped.run(0.1, Phase.IDLE, A)
    assert tripped.state is WatchdogState.RETURNED
    tripped.run(0.1, Phase.COMMANDING, A)
    assert tripped.state is WatchdogState.ARMED


def test_the_cause_is_that_of_the_stop_until_the_node_is_resumed(tripped: Clocked) -> None:
    """A robot that hears of it only when it is back is told why it was stopped."""
    cause = tripped.watchdog.cause
    assert "silent for" in cause
    for beat in (Phase.IDLE, Phase.IDLE):
        tripped.run(0.1, beat)
        assert (tripped.state, tripped.watchdog.cause) == (WatchdogState.RETURNED, cause)
    tripped.run(0.1, Phase.COMMANDING)
    assert tripped.watchdog.cause == "a robot node commands"


def test_an_end_of_the_node_does_not_unlatch_a_stop(tripped: Clocked) -> None:
    tripped.beat(Phase.ENDED)
    assert tripped.state is WatchdogState.TRIPPED


@pytest.mark.parametrize("paused_before", [False, True])
def test_a_node_that_falls_silent_again_is_stopped_again(tripped: Clocked, paused_before: bool) -> None:
    if paused_before:
        tripped.run(0.1, Phase.IDLE)
    tripped.run(0.1, Phase.COMMANDING)
    tripped.run(1.0)
    assert tripped.stops == STOPS
    assert tripped.watchdog.trips == 2
    assert tripped.state is WatchdogState.TRIPPED


def test_time_in_which_the_watchdog_itself_hung_is_not_the_node_s_silence(clocked: Clocked) -> None:
    clocked.run(0.5, Phase.COMMANDING)
    clocked.now_ns += 10**10
    clocked.run(0.1)
    assert not clocked.stops
    clocked.run(DEADLINE_S)  # but a dead node is found after another deadline
    assert clocked.watchdog.trips == 1


@pytest.mark.parametrize("gap_s", [0.05, 0.1, 0.12, 0.15, 0.3])
def test_a_watchdog_that_is_given_little_time_stops_a_silent_node_all_the_same(gap_s: float) -> None:
    """Otherwise a computer under load would let both go: the node that fails, and who watches it."""
    watchdog = Watchdog()
    watchdog.receive(A, Phase.COMMANDING, DEADLINE_S, 0)
    looks = range(1, 1 + int((2 * DEADLINE_S + gap_s) / gap_s) + 1)
    assert any(watchdog.check(round(look * gap_s * 1e9)) for look in looks)


@pytest.mark.parametrize(
    ("phase", "deadline_s"), [(9, 0.2), (1, math.nan), (1, math.inf), (1, 0.0), (1, -1.0)]
)
def test_a_heartbeat_that_no_node_sends_is_refused_by_value(phase: int, deadline_s: float) -> None:
    watchdog = Watchdog()
    with pytest.raises(ValueError, match=f"found phase {phase} and deadline_s {deadline_s}, expected"):
        watchdog.receive(A, phase, deadline_s, 0)
    assert not watchdog.armed


def test_a_process_that_idles_disarms_nothing_while_another_commands(clocked: Clocked) -> None:
    clocked.beat(Phase.COMMANDING, A)
    clocked.beat(Phase.IDLE, B)
    assert clocked.state is WatchdogState.ARMED


@pytest.mark.parametrize(("gap_ns", "trips"), [(125_000_000, 1), (125_000_001, 0)])
def test_a_gap_between_two_looks_is_excused_when_it_is_longer_than_half_the_deadline(
    gap_ns: int, trips: int
) -> None:
    watchdog = Watchdog()
    watchdog.check(0)
    watchdog.receive(A, Phase.COMMANDING, DEADLINE_S, 0)
    for now_ns in (gap_ns, gap_ns + 100_000_000, 250_000_002):
        watchdog.check(now_ns)
    assert watchdog.trips == trips


def test_it_is_armed_while_one_stop_is_left(clocked: Clocked) -> None:
    clocked.beat(Phase.ABANDONED)
    for left in reversed(range(STOPS)):
        assert clocked.watchdog.armed
        clocked.run(0.01)
        assert clocked.watchdog.armed == bool(left)


def test_it_is_armed_until_the_last_stop_is_sent(clocked: Clocked) -> None:
    assert not clocked.watchdog.armed
    clocked.run(0.1, Phase.COMMANDING)
    assert clocked.watchdog.armed
    clocked.run(DEADLINE_S + 0.02)
    assert clocked.watchdog.armed
    clocked.run(0.5)
    assert not clocked.watchdog.armed


def test_the_table_leads_to_every_state_and_each_is_explained() -> None:
    assert set(TRANSITIONS.values()) == set(WatchdogState) == set(DESCRIPTIONS)
    assert {event for _, event in TRANSITIONS} == set(WatchdogEvent)
