# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which control ticks wait, each by the times of those before: once, not for long, and never after a stop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.emit import note_tick
from remote_inference.robot.motion.estimate import WAIT_NS
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.watchdog import EXECUTOR_STALE_NS
from support.builders import make_contract, ns
from support.robot.motions import Motion
from support.robot.playbacks import make_rules

GIVEN_UP_AFTER_NS, LATE_AFTER_NS = ns(0.25), ns(0.1)
BEGIN_NS = ns(7.0)
COMMAND = Tick.alone(np.zeros(2), CommandSource.CHUNK, ())
SILENCE = Tick(None, CommandSource.NONE)
WAIT = Tick(None, CommandSource.NONE, in_force=True)


class Ticks(Motion):
    """Ticks of a robot that begins to command at some moment."""

    def __init__(self, first: Tick = COMMAND, kind: str = "velocity") -> None:
        """kind: of its actions; positions stay by themselves when nothing is commanded."""
        rules = make_rules(
            make_contract(kind), given_up_after_ns=GIVEN_UP_AFTER_NS, late_after_ns=LATE_AFTER_NS
        )
        super().__init__(rules, BEGIN_NS)
        assert not self.after(0, then=first)

    def after(self, gap_ns: int, *, then: Tick | None = None, unheard_ns: int = 0) -> bool:
        """Return whether the tick after a gap waits; one that does, commands nothing. then: what it does."""
        self.now_ns += gap_ns
        self.estimate(heard_ns=self.now_ns - unheard_ns)
        waits = self.state.timing.waits
        self.state = note_tick(self.state, then or (WAIT if waits else COMMAND))
        return waits

    def withhold(self) -> None:
        """Let the last tick's command not leave."""
        self.operator = replace(self.operator, withheld=self.operator.withheld + 1)

    @property
    def stuck_ns(self) -> int:
        return self.state.timing.stuck_ns


@pytest.mark.parametrize(("gap_ns", "waits"), [(LATE_AFTER_NS, False), (LATE_AFTER_NS + 1, True)])
def test_the_first_tick_after_a_gap_waits_and_the_next_one_does_not(gap_ns: int, waits: bool):
    ticks = Ticks()
    assert ticks.after(gap_ns) is waits
    assert not ticks.after(gap_ns)


@pytest.mark.parametrize(("unheard_ns", "waits"), [(EXECUTOR_STALE_NS, False), (EXECUTOR_STALE_NS + 1, True)])
def test_a_tick_in_time_waits_for_what_is_unheard(unheard_ns: int, waits: bool):
    assert Ticks().after(1, unheard_ns=unheard_ns) is waits


@pytest.mark.parametrize("first", [SILENCE, WAIT, Tick.alone(np.zeros(2), CommandSource.ZERO, ())])
def test_only_what_was_commanded_as_a_whole_is_waited_with(first: Tick):
    commanded = first.command is not None and not first.in_force
    assert Ticks(first).after(LATE_AFTER_NS + 1) is commanded


def test_fast_ticks_wait_for_a_while_for_what_is_unheard():
    ticks = Ticks()
    period_ns = WAIT_NS // 5
    waited = [ticks.after(period_ns, unheard_ns=EXECUTOR_STALE_NS + 1) for _ in range(8)]
    assert waited == [True] * 5 + [False] + [True] * 2, "having commanded, it may wait again"


def test_fast_ticks_wait_no_longer_because_the_command_after_a_wait_did_not_leave():
    """It is decided anew, and what was commanded before the wait goes on until then."""
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    for _ in range(2):
        assert not ticks.after(WAIT_NS, unheard_ns=EXECUTOR_STALE_NS + 1)
        ticks.withhold()
    assert not ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1), "having commanded, it may wait again"


def test_what_was_commanded_before_one_that_did_not_leave_is_waited_with():
    ticks = Ticks()
    assert not ticks.after(1)
    ticks.withhold()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)


def test_a_tick_waits_after_a_gap_also_if_the_command_before_it_did_not_leave():
    """The watchdog may have stopped the robot in the gap, and what is measured is older than it."""
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert not ticks.after(WAIT_NS, unheard_ns=EXECUTOR_STALE_NS + 1)
    ticks.withhold()
    assert ticks.after(LATE_AFTER_NS + 1)


def test_a_wait_ends_when_all_is_heard():
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert not ticks.after(1, unheard_ns=EXECUTOR_STALE_NS)


def test_time_in_which_nothing_ran_does_not_count_as_waiting():
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert ticks.after(LATE_AFTER_NS + 1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert ticks.after(WAIT_NS - 1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert not ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)


@pytest.mark.parametrize("gap_ns", [WAIT_NS, LATE_AFTER_NS])
def test_a_gap_that_is_not_late_counts_as_waiting(gap_ns: int):
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert not ticks.after(gap_ns, unheard_ns=EXECUTOR_STALE_NS + 1)


def test_a_wait_that_has_ended_does_not_go_on():
    """What the robot was told before is over: it is led by nothing."""
    ticks = Ticks()
    assert ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)
    assert not ticks.after(1, then=SILENCE)
    assert not ticks.after(1, unheard_ns=EXECUTOR_STALE_NS + 1)


def test_nothing_waits_where_nothing_would_be_led_on():
    assert not Ticks(kind="position").after(LATE_AFTER_NS + 1)


def test_nothing_waits_once_a_stop_is_known():
    ticks = Ticks()
    ticks.operator = replace(ticks.operator, losses=1)
    assert not ticks.after(LATE_AFTER_NS + 1)


@pytest.mark.parametrize(("gap_ns", "stuck"), [(GIVEN_UP_AFTER_NS, False), (GIVEN_UP_AFTER_NS + 1, True)])
def test_after_a_gap_in_which_the_watchdog_may_have_acted_nothing_waits(gap_ns: int, stuck: bool):
    ticks = Ticks()
    assert ticks.after(gap_ns) is not stuck
    assert ticks.stuck_ns == (gap_ns if stuck else 0)
    ticks.after(1)
    assert ticks.stuck_ns == 0


def test_the_first_tick_of_all_is_not_late():
    assert Ticks().stuck_ns == 0
