# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread's deadlines, on a clock that moves only when the test says so."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator, Sequence

import pytest

from remote_inference.robot.nodes.actuation import ControlLoop

MS = 1_000_000  # ns
PERIOD_MS = 10
START_MS = 1_000


class Simulation:
    """Runs a loop with delays [ms] that are added to each sleep and each tick."""

    def __init__(self, oversleeps_ms: Sequence[float] = (), tick_durations_ms: Sequence[float] = ()) -> None:
        self.now_ns = START_MS * MS
        self.tick_times_ms: list[float] = []  # since the start
        self.indices: list[int] = []
        self._oversleeps_ms = iter(oversleeps_ms)
        self._tick_durations_ms = iter(tick_durations_ms)
        self._ended = threading.Event()
        self.loop = ControlLoop(
            PERIOD_MS / 1e3, self._tick, clock_ns=lambda: self.now_ns, sleep_s=self._sleep_s
        )

    def run(self, ticks: int) -> list[float]:
        """Return when the ticks began [ms since the start]."""
        self._last = ticks - 1
        self.loop.start()
        assert self._ended.wait(10.0)
        self.loop.stop()
        return self.tick_times_ms

    def _sleep_s(self, duration_s: float) -> None:
        assert duration_s > 0.0
        self.now_ns += round(duration_s * 1e9) + round(next(self._oversleeps_ms, 0.0) * MS)

    def _tick(self, now_ns: int) -> None:
        assert now_ns == self.now_ns
        self.tick_times_ms.append(now_ns / MS - START_MS)
        self.indices.append(self.loop.ticks)
        self.now_ns += round(next(self._tick_durations_ms, 0.0) * MS)
        if self.loop.ticks == self._last:
            self._ended.set()
            raise EndOfTestError


class EndOfTestError(Exception):
    """Ends the control thread."""


def test_ticks_are_due_on_a_grid() -> None:
    simulation = Simulation()
    assert simulation.run(ticks=5) == [0, 10, 20, 30, 40]
    assert simulation.indices == [0, 1, 2, 3, 4]
    assert simulation.loop.late_ticks == 0


def test_oversleeping_and_long_ticks_do_not_shift_the_grid() -> None:
    simulation = Simulation(oversleeps_ms=[1, 2, 3, 4, 0], tick_durations_ms=[9, 8, 7, 6, 5])
    assert simulation.run(ticks=6) == [0, 11, 22, 33, 44, 50]
    assert simulation.loop.late_ticks == 0


def test_a_thousand_periods_do_not_drift() -> None:
    simulation = Simulation(oversleeps_ms=[0.123] * 1000)
    assert simulation.run(ticks=1001)[-1] == pytest.approx(10_000.123)


@pytest.mark.parametrize(("oversleep_ms", "late_ticks"), [(4.9, 0), (5.0, 0), (5.1, 1), (9.9, 1)])
def test_a_tick_is_late_beyond_half_a_period(oversleep_ms: float, late_ticks: int) -> None:
    simulation = Simulation(oversleeps_ms=[oversleep_ms])
    assert simulation.run(ticks=3) == pytest.approx([0, 10 + oversleep_ms, 20])
    assert simulation.loop.late_ticks == late_ticks


@pytest.mark.parametrize(
    ("pause_ms", "next_ms"),
    [(10, 30), (15, 30), (19.9, 30), (20, 40), (25, 40), (2_000, 2_020), (2_003, 2_020)],
)
def test_periods_missed_in_a_pause_are_skipped(pause_ms: float, next_ms: float) -> None:
    """One tick runs when the process resumes, the next one on the grid: never two in one period."""
    simulation = Simulation(oversleeps_ms=[pause_ms])
    assert simulation.run(ticks=4) == pytest.approx([0, 10 + pause_ms, next_ms, next_ms + 10])
    assert simulation.indices == [0, 1, 2, 3]
    assert simulation.loop.late_ticks == 1


def test_a_pause_within_a_tick_is_followed_by_one_late_tick() -> None:
    simulation = Simulation(tick_durations_ms=[0, 2_003])
    assert simulation.run(ticks=5) == [0, 10, 2_013, 2_020, 2_030]
    assert simulation.loop.late_ticks == 1


def test_ticks_longer_than_a_period_never_come_twice_in_one() -> None:
    simulation = Simulation(tick_durations_ms=[13] * 20)
    times_ms = simulation.run(ticks=15)
    periods = [int(time_ms // PERIOD_MS) for time_ms in times_ms]
    assert len(set(periods)) == len(periods)


def test_an_exception_of_a_tick_ends_the_thread_and_is_kept() -> None:
    simulation = Simulation()
    simulation.run(ticks=3)
    assert isinstance(simulation.loop.error, EndOfTestError)
    assert simulation.loop.ticks == 2  # completed


@pytest.fixture
def running_loop() -> Iterator[ControlLoop]:
    loop = ControlLoop(PERIOD_MS / 1e3, lambda _now_ns: None)
    loop.start()
    yield loop
    loop.stop()
    gc.unfreeze()


class Cycle:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("running_loop")
def test_cyclic_garbage_made_while_the_loop_runs_is_collected() -> None:
    assert gc.isenabled()
    first = weakref.ref(Cycle())
    survivors = sum(gc.get_threshold()) * 100
    while first() is not None and survivors:  # the collector runs by itself, as in a node
        Cycle()
        survivors -= 1
    assert first() is None


@pytest.mark.usefixtures("running_loop")
def test_objects_from_before_the_loop_are_not_collected() -> None:
    assert gc.get_freeze_count() > len(gc.get_objects())


def test_a_slow_loop_ends_before_its_next_tick() -> None:
    ticked = threading.Event()
    loop = ControlLoop(100.0, lambda _now_ns: ticked.set())
    loop.start()
    assert ticked.wait(10.0)
    assert loop.stop()
    assert loop.ticks == 1


def test_a_slow_loop_ticks_at_its_deadlines() -> None:
    """It sleeps in parts."""
    now_ns, times_s = 0, []

    def sleep_s(duration_s: float) -> None:
        nonlocal now_ns
        now_ns += round(duration_s * 1e9)

    def tick(at_ns: int) -> None:
        times_s.append(at_ns / 1e9)
        if loop.ticks == 2:
            raise EndOfTestError

    loop = ControlLoop(0.7, tick, clock_ns=lambda: now_ns, sleep_s=sleep_s)
    loop._run()
    assert times_s == pytest.approx([0.0, 0.7, 1.4])
    assert loop.late_ticks == 0
