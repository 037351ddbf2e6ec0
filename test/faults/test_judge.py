# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The judge passes a good run and names every violation in a doctored one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from support.faults import fault
from support.faults.judge import (
    PERIOD_S,
    Capture,
    Command,
    ControlTick,
    OperatorCall,
    Outage,
    Record,
    find_violations,
    number_by_arrival,
)

PERIOD_NS = round(PERIOD_S * 1e9)
DELAY_S = 0.1  # of each command behind its capture in a good run
STEP = 0.1  # largest step of the shoulder in one period [rad]
COUNT = 150


def good_run() -> Record:
    """Captures and commands at the contract's rate; the shoulder moves at half its speed, up and down."""
    positions = [(0.05 * min(n % 60, 60 - n % 60), -0.5) for n in range(COUNT)]
    record = Record([Capture(n * PERIOD_NS, positions[n], 0) for n in range(COUNT)])
    record.commands = [
        Command(n * PERIOD_NS + round(DELAY_S * 1e9), n + 1, positions[n], float(n), 0.0)
        for n in range(COUNT)
    ]
    return record


def change(record: Record, index: int, **changes: object) -> None:
    record.commands[index] = replace(record.commands[index], **changes)


def at(record: Record, index: int) -> int:
    return record.commands[index].time_ns


def rules(record: Record) -> set[str]:
    return {problem.split(":")[0] for problem in find_violations(record)}


def hold(record: Record, first: int, last: int) -> None:
    """Remove commands for a while; the next command steps from the last one."""
    del record.commands[first:last]
    for index in range(first, len(record.commands)):
        change(record, index, positions=record.commands[first - 1].positions, number=index + 1)


def test_a_good_run_passes() -> None:
    assert find_violations(good_run()) == []


def test_a_hold_passes() -> None:
    record = good_run()
    hold(record, 30, 90)
    assert find_violations(record) == []


def test_lost_commands_are_known_by_their_numbers_and_allow_more_way() -> None:
    record = good_run()
    del record.commands[40:43]
    assert find_violations(record) == []


@pytest.mark.parametrize(("points", "expected"), [(10, set()), (3, set()), (1, {"steps"}), (0, {"steps"})])
def test_a_late_command_may_be_further_where_the_controller_went_on_by_itself(
    points: int, expected: set[str]
) -> None:
    """It goes on along the points that it was handed: the next command steps from where it is by then."""
    record = good_run()
    way = tuple(command.positions for command in record.commands[40 : 40 + points])
    change(record, 39, ahead=way)
    del record.commands[40:43]
    for index in range(40, len(record.commands)):
        change(record, index, number=index + 1)
    assert rules(record) == expected
    change(record, 40, time_ns=at(record, 39) + PERIOD_NS)
    assert "steps" in rules(record)


def test_the_first_received_command_may_follow_commands_that_the_arm_did_not_hear() -> None:
    record = good_run()
    for index, capture in enumerate(record.captures):
        record.captures[index] = replace(capture, positions=(0.0, -0.5))  # it did not move meanwhile
    del record.commands[:20]
    assert find_violations(record) == []
    for index in range(len(record.commands)):
        change(record, index, number=index + 1)
    assert rules(record) == {"steps"}


def renumber(record: Record) -> None:
    """Number the commands as for a middleware that does not."""
    for index, command in enumerate(record.commands):
        change(record, index, number=number_by_arrival(record.commands[:index], command.time_ns))


def test_commands_in_time_are_numbered_one_by_one_where_the_middleware_does_not() -> None:
    record = good_run()
    renumber(record)
    assert [command.number for command in record.commands] == list(range(1, COUNT + 1))


@pytest.mark.parametrize("late_s", [0.0, 0.06])
def test_lost_commands_are_known_by_their_arrivals_where_nothing_numbers_them(late_s: float) -> None:
    """This also holds when the command before them came late."""
    record = good_run()
    change(record, 39, time_ns=at(record, 39) + round(late_s * 1e9))
    del record.commands[40:42]
    renumber(record)
    assert find_violations(record) == []


def test_commands_that_arrive_in_bunches_pass() -> None:
    record = good_run()
    for index in range(30, 36):
        change(record, index, time_ns=at(record, 36) - 6)
    assert find_violations(record) == []


def no_number(record: Record) -> None:
    change(record, 50, positions=(math.nan, 0.0))


def beyond_a_limit(record: Record) -> None:
    for index in range(COUNT):
        change(record, index, positions=(2.01, -0.5))


def a_jump(record: Record) -> None:
    for index in range(50, COUNT):
        change(record, index, positions=(record.commands[index].positions[0] - 1.5 * STEP, -0.5))


def a_jump_after_a_hold(record: Record) -> None:
    hold(record, 30, 55)
    for index in range(30, len(record.commands)):
        change(record, index, positions=(record.commands[index].positions[0] - 1.5 * STEP, -0.5))


def a_first_command_far_from_the_arm(record: Record) -> None:
    for index in range(COUNT):
        change(record, index, positions=(-1.0, -0.5))


def a_burst(record: Record) -> None:
    """Let the robot catch up with missed ticks."""
    for index in range(COUNT):
        change(record, index, positions=(min(1.9, 0.1 * index), -0.5))
    for index in range(20):
        change(record, index, time_ns=at(record, 20) - 20 + index)


def an_old_action(record: Record) -> None:
    change(record, 80, capture=10.0)
    del record.commands[11:80]


def an_older_action_than_before(record: Record) -> None:
    change(record, 80, capture=70.0)


def a_forged_capture(record: Record) -> None:
    change(record, 80, capture=2.0**23)


def no_capture(record: Record) -> None:
    change(record, 80, capture=math.nan)


def another_capture_s_episode(record: Record) -> None:
    change(record, 80, episode=1.0)


def an_action_of_the_episode_before(record: Record) -> None:
    record.calls.append(OperatorCall("reset", at(record, 80) - 2, at(record, 80) - 1, 90))


def a_command_in_a_pause(record: Record) -> None:
    pause = OperatorCall("pause", at(record, 50), at(record, 50) + 1, 53)
    record.calls += [pause, OperatorCall("resume", at(record, 60), at(record, 60) + 1, 63)]


def a_second_publisher(record: Record) -> None:
    change(record, 80, number=1)


@pytest.mark.parametrize("doctor", [a_jump, a_jump_after_a_hold])
def test_a_jump_is_flagged_where_nothing_numbers_the_commands(doctor: Callable[[Record], None]) -> None:
    record = good_run()
    doctor(record)
    renumber(record)
    assert "steps" in rules(record)


@pytest.mark.parametrize(
    ("doctor", "expected"),
    [
        (no_number, "limits"),
        (beyond_a_limit, "limits"),
        (a_jump, "steps"),
        (a_jump_after_a_hold, "steps"),
        (a_first_command_far_from_the_arm, "steps"),
        (a_burst, "pace"),
        (an_old_action, "ages"),
        (an_older_action_than_before, "sources"),
        (a_forged_capture, "sources"),
        (no_capture, "sources"),
        (another_capture_s_episode, "sources"),
        (an_action_of_the_episode_before, "episodes"),
        (a_command_in_a_pause, "pauses"),
        (a_second_publisher, "publishers"),
    ],
)
def test_a_doctored_run_is_flagged(doctor: Callable[[Record], None], expected: str) -> None:
    record = good_run()
    doctor(record)
    assert expected in rules(record)


def moved_by_hand(name: str, *, first: int = 60) -> Record:
    """The arm is moved in the silence from command `first` on, and an operator's call lets the node know."""
    record = good_run()
    moved = (-1.0, 0.5)
    for index in range(75, COUNT):
        record.captures[index] = replace(record.captures[index], positions=moved)
    del record.commands[first:78]
    for index in range(first, len(record.commands)):
        change(record, index, positions=moved, number=index + 1)
    record.calls.append(OperatorCall(name, at(record, first - 1) + 1, at(record, first - 1) + 2, first))
    return record


def test_the_first_command_after_a_reset_may_start_at_the_measured_position() -> None:
    assert find_violations(moved_by_hand("reset")) == []


def test_without_a_reset_it_must_start_at_the_last_command() -> None:
    assert rules(moved_by_hand("pause")) >= {"steps"}


def test_a_silence_as_long_as_the_age_bound_lets_it_start_at_the_measured_position_too() -> None:
    assert find_violations(moved_by_hand("pause", first=30)) == []


@pytest.mark.parametrize(
    ("withheld", "renumbered", "expected"),
    [(range(60, 78), True, set()), (range(77, 78), False, set()), (range(0), False, {"steps"})],
    ids=["stuck", "a command was withheld", "ticking"],
)
def test_after_a_node_was_stuck_its_first_command_may_start_at_the_measured_position(
    withheld: range, renumbered: bool, expected: set[str]
) -> None:
    """A watchdog may have stopped the controllers meanwhile, and the last command may come as late as it."""
    record = moved_by_hand("pause")
    begin_ns = at(record, 0)
    ticks = [ControlTick(begin_ns + n * PERIOD_NS, n) for n in range(COUNT) if n not in withheld]
    if renumbered:
        ticks = [replace(tick, number=number) for number, tick in enumerate(ticks)]
    record.ticks = ticks
    change(record, 59, time_ns=at(record, 60) - 100_000)
    assert rules(record) >= expected
    assert bool(rules(record)) == bool(expected)


def test_one_command_may_be_under_way_while_the_reset_answers() -> None:
    record = good_run()
    del record.commands[81:95]
    record.calls.append(OperatorCall("reset", at(record, 80) - 2, at(record, 80) - 1, 95))
    assert find_violations(record) == []


def without_controller(record: Record, first: int, last: int) -> None:
    """Let the controller be absent from before command `first` until `last`."""
    record.outages.append(Outage("controller", at(record, first) - 1, at(record, last) - 2 * PERIOD_NS))
    del record.commands[first:last]


def stand_still(record: Record, first: int, position: float) -> None:
    """Let the shoulder be measured at a position from capture `first` on."""
    for index in range(first, COUNT):
        record.captures[index] = replace(record.captures[index], positions=(position, -0.5))


def test_after_a_controller_s_absence_the_first_command_begins_where_the_arm_is_measured() -> None:
    record = good_run()
    stand_still(record, 25, 1.2)
    without_controller(record, 20, 60)
    for index in range(20, len(record.commands)):
        change(record, index, positions=(1.2 + STEP, -0.5))
    assert find_violations(record) == []


def test_a_command_that_the_controller_did_not_hear_is_no_begin_after_its_absence() -> None:
    record = good_run()
    stand_still(record, 20, 1.8)
    without_controller(record, 20, 60)
    hold(record, 20, 20)
    assert "steps" in rules(record)


@pytest.mark.parametrize(("error", "expected"), [(0.3, {"steps"}), (10.0, set())])
def test_an_arm_that_does_not_follow_is_not_led_on(error: float, expected: set[str]) -> None:
    record = good_run()
    record.max_following_error = error
    stand_still(record, 0, 0.0)
    record.outages.append(Outage("drives", 0))
    assert rules(record) == expected


def test_an_arm_whose_drives_are_off_is_offered_single_steps_from_where_it_is_measured() -> None:
    record = good_run()
    record.max_following_error = 0.3
    stand_still(record, 10, record.captures[10].positions[0])
    record.outages.append(Outage("drives", record.captures[10].time_ns))
    still = record.captures[10].positions[0]
    for index in range(16, COUNT):
        change(record, index, positions=(still + STEP * (-1) ** index, -0.5))
    assert find_violations(record) == []
    record.outages.clear()
    assert "steps" in rules(record), "with drives, commands continue each other"


def test_a_robot_answers_for_the_time_without_commands_in_which_its_arm_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = good_run()
    judged = fault.Fault(cast("Any", SimpleNamespace(record=record, states=[])), lambda *_: None)
    monkeypatch.setattr(fault, "now_ns", lambda: at(record, 0))
    judged.begins()
    monkeypatch.setattr(fault, "now_ns", lambda: at(record, -1))
    assert judged.longest_measured_gap_s == pytest.approx(PERIOD_S)
    hold(record, 60, 90)
    assert judged.longest_gap_s == judged.longest_measured_gap_s == pytest.approx(31 * PERIOD_S)
    del record.captures[50:80]  # before the commands ended, until ten periods before they began again
    last_measured_ns, measured_ns = record.captures[49].time_ns, record.captures[50].time_ns
    assert last_measured_ns < record.commands[59].time_ns < measured_ns < record.commands[60].time_ns
    assert judged.longest_gap_s == pytest.approx(31 * PERIOD_S)
    answered_ns = record.commands[60].time_ns - measured_ns
    assert judged.longest_measured_gap_s == pytest.approx(answered_ns / 1e9)
