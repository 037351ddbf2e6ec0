# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A gripper that is closed or open, beside an arm or on a base: two values, and nothing that stops it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.commands.sink import ANY_KIND, COMMAND_INTERFACES, CommandInterface
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import stop_controller
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.safety.guard import DWELL, NON_FINITE, SENSOR_AGE, Guard
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    PERIOD_NS,
    contract_document,
    make_source,
    ns,
)
from support.robot.fed_playback import FedPlayback
from support.robot.playbacks import make_playback, make_queue

ARM, GRIPPER = JOINTS
OPEN, CLOSED = 0.25, 0.75  # what the gripper is commanded; all other numbers are the policy's
SWITCH = {"kind": "switch", "min": OPEN, "max": CLOSED, "closes_above": 0.6, "opens_below": 0.4}


def document_of(
    kind: str = "position", command: str = FLOAT64_MULTI_ARRAY, ticks_per_row: int = 1, **switch: Any
) -> dict[str, Any]:
    """Return the contract of a joint of some kind with a gripper that is a switch."""
    document = contract_document(kind, ticks_per_row=ticks_per_row)
    document["actions"]["limits"][GRIPPER] = SWITCH | switch
    document["commands"] = [
        {"topic": "arm", "type": command, "names": [ARM]},
        {"topic": "gripper", "type": FLOAT64_MULTI_ARRAY, "names": [GRIPPER]},
    ]
    return document


def contract_of(*arguments: Any, home: Any = None, **named: Any) -> Contract:
    document = document_of(*arguments, **named)
    document |= {} if home is None else {"home": home}
    return parse_document(document, Contract, "switch.contract.yaml")


class Robot(FedPlayback):
    """A playback that is fed, and what its two controllers get."""

    def __init__(self, contract: Contract | None = None, fallback: str = "hold", **options: Any) -> None:
        super().__init__(contract or contract_of(), fallback, **options)
        self.see(0.0)

    def see(self, arm: float) -> None:
        """Measure the arm now. Nobody measures the gripper."""
        self.measure([arm, np.nan])

    def feed(self, *grips: float, arm: float = 0.0) -> None:
        self.append([(arm, grip) for grip in grips])

    def commanded(self, tick: Tick) -> dict[str, float]:
        """Return what a tick publishes, by topic."""
        names = self.contract.actions.names
        return {sink.topic: float(tick.command[names.index(sink.names[0])]) for sink in self.reached(tick)}

    def grips(self, *numbers: float) -> list[float]:
        """Feed numbers of the policy and return what the gripper is commanded for them."""
        self.feed(*numbers)
        found = []
        for _ in numbers:
            found.append(self.commanded(self.tick())["gripper"])
            self.see(0.0)
        return found

    def away(self, topic: str) -> None:
        """Take a controller away, or with an empty topic bring all back."""
        self.playback.listen(sink for sink in self.contract.commands if sink.topic == topic)


# -- the guard -----------------------------------------------------------------------------------------------


def test_a_switch_is_commanded_two_values_with_hysteresis_between_them():
    numbers = (0.9, 0.5, 0.41, 0.39, 0.5, 0.59, 0.61, 7.0, -7.0)
    expected = [CLOSED, CLOSED, CLOSED, OPEN, OPEN, OPEN, CLOSED, CLOSED, OPEN]
    assert Robot().grips(*numbers) == expected


@pytest.mark.parametrize(("number", "expected"), [(0.49, OPEN), (0.51, CLOSED)])
def test_the_first_number_between_the_thresholds_leads_to_the_nearer_side(number: float, expected: float):
    assert Robot().grips(number, 0.5) == [expected, expected]


@pytest.mark.parametrize(
    ("opens_below", "closes_above", "numbers", "expected"),
    [
        (-1.0, 0.0, (-0.51, 0.0), [-2.0, -2.0]),  # at a threshold it stays
        (-1.0, 0.0, (-0.49, -1.0), [2.0, 2.0]),
        (0.0, 1.0, (0.49, 1.0), [-2.0, -2.0]),
        (0.0, 1.0, (0.5, 0.0), [2.0, 2.0]),  # in the middle it closes
    ],
)
def test_a_threshold_may_be_zero_and_belongs_to_what_lies_between(
    opens_below: float, closes_above: float, numbers: tuple[float, ...], expected: list[float]
):
    robot = Robot(contract_of(min=-2.0, max=2.0, opens_below=opens_below, closes_above=closes_above))
    assert robot.grips(*numbers) == expected


def test_what_a_switch_is_commanded_is_no_intervention():
    robot = Robot()
    robot.grips(0.9, 0.1, 5.0, -5.0)
    assert not any(robot.guard.counts.values())


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_a_number_that_is_not_finite_is_refused_with_its_row(kind: str):
    guard = Guard(contract_of(kind).actions, 0.05)
    guarded = guard.check(np.array([0.0, np.nan]), np.array([0.0, CLOSED]))
    assert guarded.action is None
    assert guarded.interventions == (NON_FINITE,)


def test_a_switch_changes_at_once_while_velocities_begin_gently():
    guard = Guard(contract_of().actions, 0.05)
    assert guard.check(np.array([0.0, 0.9]), np.array([0.0, OPEN]), velocity_scale=0.01).action is not None
    assert guard.check(np.array([0.0, 0.9]), np.array([0.0, OPEN]), velocity_scale=0.01).action[1] == CLOSED


@pytest.mark.parametrize("kind", ["position", "velocity", "effort"])
def test_the_bounds_of_other_kinds_stay_beside_a_switch(kind: str):
    step = {"position": 0.1, "velocity": 1.0, "effort": 0.1}[kind]
    for reference in (np.array([0.0, np.nan]), np.array([0.0, OPEN])):
        guard = Guard(contract_of(kind).actions, 0.05)
        guarded = guard.check(np.array([1.0, 0.9]), reference)
        assert guarded.action == pytest.approx([step, CLOSED])


def test_an_effort_steps_from_zero_beside_a_switch_before_the_first_command():
    guard = Guard(contract_of("effort").actions, 0.05)
    assert guard.check(np.array([1.0, 0.9]), None).action == pytest.approx([0.1, CLOSED])


def test_a_switch_waits_for_its_dwell_time_and_says_so():
    robot = Robot(contract_of(dwell_s=0.2))  # four ticks
    robot.feed(0.9, *6 * [0.1], *6 * [0.9])
    ticks = [robot.tick() for _ in range(13)]
    assert [robot.commanded(tick)["gripper"] for tick in ticks] == 4 * [CLOSED] + 4 * [OPEN] + 5 * [CLOSED]
    assert [tick.interventions for tick in ticks[1:4]] == 3 * [(DWELL,)]
    assert robot.guard.counts[DWELL] == 3 + 1


def test_the_dwell_time_goes_on_through_a_pause():
    robot = Robot(contract_of(dwell_s=0.5))
    robot.grips(0.9)
    robot.playback.control.change(paused=True, forget=True)
    robot.tick()
    robot.playback.control.change(paused=False)
    robot.see(0.0)
    assert robot.grips(*10 * [0.1]) == 8 * [CLOSED] + 2 * [OPEN]


def test_foreseen_rows_leave_a_switch_as_it_is():
    guard = Guard(contract_of().actions, 0.05)
    foreseen = guard.foresee(np.array([[0.05, 0.1], [0.9, 9.0]]), np.array([0.0, CLOSED]))
    assert foreseen.actions == pytest.approx(np.array([[0.05, CLOSED], [0.15, CLOSED]]))


# -- what is not the policy's --------------------------------------------------------------------------------


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
@pytest.mark.parametrize("command", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])
def test_a_switch_stays_while_there_is_nothing_to_execute(fallback: str, command: str):
    robot = Robot(contract_of(command=command), fallback=fallback)
    robot.grips(0.9)
    for _ in range(20):
        tick = robot.tick()
        robot.see(0.0)
        assert robot.commanded(tick).get("gripper", CLOSED) == CLOSED
        assert tick.command is None or tick.command[1] == CLOSED
    assert robot.grips(0.5) == [CLOSED]


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_a_switch_stays_while_its_base_gets_zeros(kind: str):
    robot = Robot(contract_of(kind), fallback="zero")
    robot.feed(0.9, arm=0.1)
    assert robot.commanded(robot.tick()) == pytest.approx({"arm": 0.1, "gripper": CLOSED})
    for _ in range(20):
        assert robot.commanded(robot.tick()) == {"arm": 0.0}
    assert robot.grips(0.5) == [CLOSED]


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("position", FLOAT64_MULTI_ARRAY),
        ("position", JOINT_TRAJECTORY),
        ("velocity", FLOAT64_MULTI_ARRAY),
        ("effort", FLOAT64_MULTI_ARRAY),
    ],
)
@pytest.mark.parametrize("order", [{"paused": True}, {"halted": True}, {"paused": True, "lose": True}])
def test_a_pause_or_an_end_sends_nothing_to_a_switch(kind: str, command: str, order: dict[str, Any]):
    robot = Robot(contract_of(kind, command), fallback="hold" if kind == "position" else "zero")
    robot.grips(0.9)
    robot.playback.control.change(**order)
    for _ in range(20):
        assert "gripper" not in robot.commanded(robot.tick())
        robot.see(0.0)
    assert robot.playback.finished == ("halted" in order)


def test_the_stops_of_a_base_wait_for_no_switch_whose_controller_is_away():
    contract = three_kinds()
    playback, _ = three_kinds_playback(contract)
    playback.listen(sink for sink in contract.commands if sink.topic == "gripper")
    playback.control.change(paused=True)
    stops = [playback.tick((1 + place) * PERIOD_NS).source for place in range(12)]
    assert stops == 10 * [CommandSource.ZERO] + 2 * [CommandSource.NONE]


def test_zeros_for_a_base_leave_the_switch_beside_it_closed():
    playback, queue = three_kinds_playback(three_kinds())
    idle = playback.tick(PERIOD_NS)
    assert idle.source is CommandSource.ZERO
    assert idle.command is not None
    assert idle.command[1:].tolist() == [CLOSED, 0.0]
    feed_three(queue, (0.0, 0.5, 0.3), PERIOD_NS)
    after = playback.tick(2 * PERIOD_NS)
    assert after.command == pytest.approx([0.0, CLOSED, 0.3])


def three_kinds() -> Contract:
    """Return the contract of an arm with a gripper on a base."""
    document = document_of()
    document["actions"]["names"] = [ARM, GRIPPER, "base"]
    base = {"kind": "velocity", "min": -1.0, "max": 1.0, "max_velocity": 1.0}
    document["actions"]["limits"]["base"] = base
    document["commands"].append({"topic": "base", "type": FLOAT64_MULTI_ARRAY, "names": ["base"]})
    return parse_document(document, Contract, "three.contract.yaml")


def three_kinds_playback(contract: Contract) -> tuple[Playback, ActionQueue]:
    """Return a playback that has executed one row: the arm stands, the gripper closes, the base drives."""
    queue = make_queue(contract)
    playback = make_playback(contract, queue)
    playback.control.change(measured=np.array([0.0, np.nan, np.nan]), measured_ns=0)
    feed_three(queue, (0.0, 0.9, 0.3), 0)
    first = playback.tick(0)
    assert first.command == pytest.approx([0.0, CLOSED, 0.3])
    return playback, queue


def feed_three(queue: ActionQueue, row: tuple[float, float, float], now_ns: int) -> None:
    table = np.array([row], np.float32)
    queue.merge(
        make_source(capture_ns=now_ns), table, table, MergeMode.APPEND, latency_steps=0, executed_before=0
    )


def test_a_forward_arm_with_a_switch_needs_no_stops():
    robot = Robot()
    robot.grips(0.9)
    robot.playback.control.change(halted=True)
    assert robot.tick().source is CommandSource.NONE
    assert robot.playback.finished


def test_a_late_tick_waits_for_nothing_beside_a_switch_that_nothing_must_stop():
    robot = Robot(late_after_ns=int(1.5 * PERIOD_NS))
    robot.feed(0.9, 0.9)
    robot.tick()
    robot.now_ns += int(0.6 * PERIOD_NS)
    assert robot.tick().source is CommandSource.CHUNK


@pytest.mark.parametrize("change", [{"forget": True}, {"forget": True, "lose": True}])
def test_a_switch_is_where_it_was_commanded_also_after_another_may_have_moved_the_arm(change: dict[str, Any]):
    robot = Robot()
    robot.grips(0.9)
    robot.tick()
    robot.playback.control.change(**change)
    robot.see(0.5)
    assert robot.grips(0.5) == [CLOSED]


def test_a_switch_stays_when_nobody_knows_where_the_arm_is():
    robot = Robot(fallback="repeat_last")
    robot.grips(0.9)
    robot.playback.control.change(measured=None, forget=True)
    robot.feed(0.1)
    tick = robot.tick()
    assert SENSOR_AGE in tick.interventions
    assert robot.commanded(tick).get("gripper", CLOSED) == CLOSED


def test_a_switch_beside_a_base_needs_no_measured_position():
    robot = Robot(contract_of("velocity"), fallback="zero")
    robot.playback.control.change(measured=None)
    robot.feed(0.9, arm=0.2)
    assert robot.commanded(robot.tick()) == pytest.approx({"arm": 0.2, "gripper": CLOSED})


def test_a_switch_stays_while_the_arm_does_not_follow_also_when_it_is_tried_again():
    robot = Robot()
    robot.grips(0.9)
    found = []
    for step in range(80):
        robot.feed(0.1 if robot.playback.not_following else 0.9, arm=min(0.9, 0.05 * step))
        robot.see(0.0)  # its drives are off
        tick = robot.tick()
        if robot.playback.not_following:
            found.append(robot.commanded(tick).get("gripper", CLOSED))
    assert len(found) > 30, "longer than the pause between two attempts"
    assert set(found) == {CLOSED}


def test_a_switch_stays_while_the_arm_s_controller_is_away():
    robot = Robot()
    robot.grips(0.9)
    robot.away("arm")
    assert robot.grips(0.1, 0.1, 0.1) == 3 * [CLOSED]


def test_switches_alone_are_a_robot_too():
    document = document_of()
    document["actions"]["limits"][ARM] = SWITCH
    robot = Robot(parse_document(document, Contract, "switches.contract.yaml"))
    robot.playback.control.change(measured=None)
    robot.feed(0.9, arm=0.1)
    assert robot.commanded(robot.tick()) == {"arm": OPEN, "gripper": CLOSED}
    robot.playback.control.change(halted=True)
    assert robot.commanded(robot.tick()) == {}
    assert robot.playback.finished


def test_a_switch_is_never_astray():
    robot = Robot()
    with np.errstate(invalid="raise"):
        for _ in range(20):
            robot.grips(0.9, 0.1)
    assert robot.playback.not_following == ()


def test_an_arm_goes_home_and_its_switch_stays():
    robot = Robot(contract_of(home={"positions": [0.3], "duration_s": 0.5}))
    robot.grips(0.9)
    robot.playback.control.change(halted=True, wants_home=True)
    way = []
    while not robot.playback.finished:
        tick = robot.tick()
        way.append(robot.commanded(tick))
        robot.see(tick.command[0] if tick.command is not None else 0.3)
        assert len(way) < 100
    assert {commands.get("gripper", CLOSED) for commands in way} == {CLOSED}
    assert [commands["arm"] for commands in way if "arm" in commands][-1] == 0.3


def test_a_person_switches_by_the_same_thresholds():
    human = HumanCommands(0.5)
    robot = Robot(human=human)
    robot.grips(0.1)
    robot.playback.control.change(taken_over=True)
    found = []
    for number in (0.5, 0.9, 0.5, -3.0):
        human.deposit(np.array([0.0, number]), robot.now_ns)
        found.append(robot.commanded(robot.tick())["gripper"])
        robot.see(0.0)
    assert found == [OPEN, CLOSED, CLOSED, OPEN]


def test_a_person_waits_for_the_dwell_time_too():
    human = HumanCommands(0.5)
    robot = Robot(contract_of(dwell_s=0.2), human=human)
    robot.grips(0.9)
    robot.playback.control.change(taken_over=True)
    found = []
    for _ in range(5):
        human.deposit(np.array([0.0, 0.1]), robot.now_ns)
        found.append(robot.commanded(robot.tick())["gripper"])
        robot.see(0.0)
    assert found == 3 * [CLOSED] + 2 * [OPEN]


def test_a_switch_is_not_compared_in_shadow_mode():
    robot = Robot(is_shadow=True)
    shadow = robot.playback.shadow
    assert shadow is not None
    robot.see(0.02)
    robot.feed(0.9, arm=0.05)
    robot.tick()
    assert shadow.error.largest == pytest.approx([0.03, 0.0])


def test_the_watchdog_sends_a_switch_nothing():
    contract = contract_of("velocity")
    base, gripper = (stop_controller(contract, sink, {}) for sink in contract.commands)
    assert base.outcome == "sent zero velocity"
    assert (gripper.action, gripper.failed) == (None, False)
    assert gripper.outcome == "nothing sent, it stays as it is"


@pytest.mark.parametrize("command", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])
def test_between_two_rows_a_switch_keeps_the_number_of_the_first(command: str):
    robot = Robot(contract_of(command=command, ticks_per_row=4))
    robot.feed(0.1, 0.9, 0.9)
    found = [robot.commanded(robot.tick())["gripper"] for _ in range(8)]
    assert found == 4 * [OPEN] + 4 * [CLOSED]


# -- contracts -----------------------------------------------------------------------------------------------


def problem_of(document: dict[str, Any]) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(document, Contract, "switch.contract.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"opens_below": 0.6},
            "found opens_below 0.6 and closes_above 0.6, expected opens_below < closes_above",
        ),
        (
            {"opens_below": 0.7},
            "found opens_below 0.7 and closes_above 0.6, expected opens_below < closes_above",
        ),
        ({"opens_below": None}, "opens_below: missing, expected closes_above and opens_below with a switch"),
        (
            {"closes_above": None},
            "closes_above: missing, expected closes_above and opens_below with a switch",
        ),
        ({"closes_above": 0.75}, "expected both between min 0.25 and max 0.75"),
        ({"opens_below": 0.25}, "expected both between min 0.25 and max 0.75"),
        ({"max_velocity": 1.0}, "found max_velocity with a switch, which does not move, expected none"),
        ({"max_following_error": "off"}, "found max_following_error with a switch"),
        ({"min": 0.8}, "found min 0.8 and max 0.75, expected min < max"),
    ],
)
def test_what_a_switch_cannot_have_is_refused_with_its_key(change: dict[str, Any], expected: str):
    problem = problem_of(document_of(**change))
    assert f"switch.contract.yaml: actions.limits.{GRIPPER}: " in problem
    assert expected in problem
    assert len(problem.splitlines()) == 1


@pytest.mark.parametrize("dwell_s", [-0.1, 61.0, float("nan")])
def test_a_dwell_time_that_is_none_is_refused(dwell_s: float):
    assert f"actions.limits.{GRIPPER}.dwell_s: found" in problem_of(document_of(dwell_s=dwell_s))


@pytest.mark.parametrize("key", ["closes_above", "opens_below", "dwell_s"])
def test_thresholds_are_for_switches_alone(key: str):
    document = document_of()
    document["actions"]["limits"][ARM][key] = 0.5
    assert f"limits.{ARM}: found {key} without kind: switch, expected it with a switch only" in problem_of(
        document
    )


@pytest.mark.parametrize("kind", [None, "position", "velocity", "effort"])
def test_what_moves_needs_a_bound_on_its_change(kind: str | None):
    document = document_of()
    limit = document["actions"]["limits"][ARM]
    del limit["max_velocity"]
    limit |= {} if kind is None else {"kind": kind}
    assert f"actions.limits.{ARM}.max_velocity: missing, expected bound on the change" in problem_of(document)


def test_a_switch_is_the_kind_of_its_own_entry_alone():
    document = document_of()
    document["actions"]["kind"] = "switch"
    assert "actions.kind: found 'switch'" in problem_of(document)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("sensor_msgs/msg/JointState", "gripper takes a JointState, expected actions of kind position or"),
        (
            JOINT_TRAJECTORY,
            "gripper takes a JointTrajectory, expected actions of kind position, found switch",
        ),
    ],
)
def test_messages_by_joint_carry_no_switch(message: str, expected: str):
    document = document_of()
    document["commands"][1]["type"] = message
    assert expected in problem_of(document)


def test_a_controller_that_takes_rows_ahead_takes_no_switch(monkeypatch: pytest.MonkeyPatch):
    ahead = CommandInterface(kinds=ANY_KIND, takes_horizon=True)
    monkeypatch.setattr(COMMAND_INTERFACES, "get", lambda _: ahead)
    assert "gripper takes actions ahead, expected another type for a switch" in problem_of(document_of())


def test_a_switch_has_a_controller_of_its_own():
    document = document_of()
    document["commands"] = [{"topic": "all", "type": FLOAT64_MULTI_ARRAY, "names": list(JOINTS)}]
    assert "all takes position and switch actions, expected one kind" in problem_of(document)


def test_a_range_of_percent_is_known_of_a_switch_and_degrees_are_not():
    document = document_of()
    scale = {"unit": "percent", "names": [GRIPPER], "range": [0.0, 1.0]}
    document["actions"]["scale"] = [scale]
    parse_document(document, Contract, "switch.contract.yaml")
    document["actions"]["scale"] = [{"unit": "degrees", "names": [GRIPPER]}]
    assert "found degrees with switch" in problem_of(document)


# -- the rule and the clock by themselves --------------------------------------------------------------------


def test_the_middle_is_half_way_between_the_thresholds():
    robot = Robot(contract_of(min=-2.0, max=2.0, opens_below=0.2, closes_above=0.6))
    assert [robot.grips(number) for number in (0.41, 0.25)] == [[2.0], [2.0]]
    robot = Robot(contract_of(min=-2.0, max=2.0, opens_below=0.2, closes_above=0.6))
    assert [robot.grips(number) for number in (0.39, 0.55)] == [[-2.0], [-2.0]]


def test_a_change_that_did_not_leave_is_not_waited_for():
    robot = Robot(contract_of(dwell_s=1.0))
    assert robot.grips(-0.9) == [OPEN]
    assert robot.grips(0.9) == [OPEN], "it has opened a moment ago"
    robot.now_ns += ns(1.0)
    assert robot.grips(0.9) == [CLOSED]
    robot.playback.control.change(withhold=True)
    assert robot.grips(-0.9) == [OPEN]
