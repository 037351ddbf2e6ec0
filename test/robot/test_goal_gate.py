# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An action server gets a goal when the command changes, not too often, and the last one wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.goal_gate import (
    ANSWER_TIMEOUT_S,
    PATIENCE_S,
    RETRY_S,
    Goal,
    GoalEvent,
    GoalGate,
    last_goal_s,
)
from remote_inference.robot.motion.state import Tick
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document, ns
from support.robot.fed_playback import FedPlayback

ARM = {"topic": "commands", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]}
GRIPPER = {
    "action": "gripper_cmd",
    "type": "control_msgs/action/GripperCommand",
    "fields": {"command.position": JOINTS[1]},
    "min_change": 0.1,
    "max_rate_hz": 5.0,
}
BOTH = {"command.max_effort": JOINTS[0], "command.position": JOINTS[1]}


def gripper_contract(*commands: dict[str, Any], **sections: Any) -> Contract:
    """Return the contract of an arm with these commands."""
    document = contract_document() | {"commands": list(commands), **sections}
    return parse_document(document, Contract, "gripper.contract.yaml")


class Server:
    """One action server, and the two threads that meet at its gate, tick by tick."""

    def __init__(self, **changes: Any) -> None:
        contract = gripper_contract(ARM, {**GRIPPER, **changes})
        self.gate = GoalGate(contract.action_commands[0], contract)
        self.is_present = True
        self.gate.update(0, is_present=True, since_ns=0)
        self.goals: list[tuple[float, float]] = []  # time [s], value

    def decide(self, time_s: float, value: float | None) -> None:
        """Do the control thread's part of a tick."""
        self.gate.is_subscribed()
        action = None if value is None else np.array([0.5, value])
        self.gate.command(action, ns(time_s))

    def look(self, time_s: float) -> Goal | None:
        goal = self.gate.update(ns(time_s), is_present=self.is_present, since_ns=0)
        if goal is not None:
            self.goals.append((time_s, float(goal.action[1])))
        return goal

    def play(self, time_s: float, value: float | None, *, accepted: bool | None = True) -> None:
        """Tick and look; answer the goal at once, None: never."""
        self.decide(time_s, value)
        goal = self.look(time_s)
        if goal is not None and accepted is not None:
            self.gate.take_answer(goal.number, ns(time_s), accepted=accepted)

    def is_heard(self) -> bool:
        return self.gate.is_subscribed()

    @property
    def events(self) -> dict[GoalEvent, int]:
        return {event: count for event, count in self.gate.counts.items() if count}


@pytest.mark.parametrize(
    ("ticks", "goals"),
    [
        pytest.param([(0.0, 0.5), (1.0, 0.5), (2.0, 0.5)], [(0.0, 0.5)], id="a value that stays is one goal"),
        pytest.param([(0.0, 0.5), (1.0, 0.6), (2.0, 0.61)], [(0.0, 0.5), (2.0, 0.61)], id="small change"),
        pytest.param([(0.0, 0.5), (1.0, 0.3)], [(0.0, 0.5), (1.0, 0.3)], id="a change down"),
        pytest.param(
            [(0.0, 0.0), (0.5, 0.06), (1.0, 0.12)], [(0.0, 0.0), (1.0, 0.12)], id="small changes add up"
        ),
        pytest.param(
            [(0.0, 0.0), (0.05, 0.3), (0.1, 0.6), (0.2, 0.9)], [(0.0, 0.0), (0.2, 0.9)], id="the last wins"
        ),
        pytest.param([(0.0, 0.0), (0.15, 0.9), (0.2, None), (0.25, None)], [(0.0, 0.0)], id="pause forgets"),
        pytest.param([(0.0, 0.5), (0.1, None), (9.0, 0.5)], [(0.0, 0.5)], id="the goal lasts over a pause"),
        pytest.param([(0.0, None), (1.0, None)], [], id="nothing commanded, nothing sent"),
    ],
)
def test_a_goal_is_sent_for_a_change_and_at_most_at_the_rate(
    ticks: list[tuple[float, float | None]], goals: list[tuple[float, float]]
):
    server = Server()
    for time_s, value in ticks:
        server.play(time_s, value)
    assert server.goals == goals
    assert not server.events


@pytest.mark.parametrize(
    ("source", "is_goal"),
    [
        (CommandSource.CHUNK, True),
        (CommandSource.REPEAT_LAST, True),
        (CommandSource.HOMING, True),
        (CommandSource.HUMAN, True),
        (CommandSource.HOLD, False),  # it ends trajectories
        (CommandSource.ZERO, False),  # it stops velocities
    ],
)
def test_what_stops_other_controllers_is_no_goal(source: CommandSource, is_goal: bool):
    rows = np.array([[0.5, 0.25], [0.5, 0.75]])
    tick = Tick(rows[0], source, horizon=rows)
    assert (tick.goal is not None) is is_goal
    assert not is_goal or tick.goal.tolist() == [0.5, 0.25]


def test_in_shadow_mode_and_without_a_command_there_is_no_goal():
    rows = np.zeros((1, 2))
    assert Tick(rows[0], CommandSource.CHUNK, horizon=rows, shadow=True).goal is None
    assert Tick(None, CommandSource.NONE, in_force=True).goal is None


def test_without_keys_a_goal_is_a_hundredth_of_the_range_and_five_a_second():
    server = Server(min_change=None, max_rate_hz=None)  # of 2 rad
    for time_s, value in [(0.0, 0.0), (0.19, 0.5), (0.2, 0.5), (1.0, 0.519), (2.0, 0.521)]:
        server.play(time_s, value)
    assert server.goals == [(0.0, 0.0), (0.2, 0.5), (2.0, 0.521)]


def test_the_smallest_rate_is_one_goal():
    server = Server(max_rate_hz=5e-324)
    for time_s, value in [(0.0, 0.0), (1e6, 0.9)]:
        server.play(time_s, value)
    assert server.goals == [(0.0, 0.0)]


def test_a_change_of_another_controllers_joint_is_none():
    server = Server()
    server.play(0.0, 0.5)
    server.gate.command(np.array([-0.5, 0.5]), ns(1.0))
    assert server.look(1.0) is None


def test_a_change_of_one_of_its_joints_is_a_goal():
    contract = gripper_contract({**GRIPPER, "fields": BOTH, "min_change": 0.25})
    gate = GoalGate(contract.action_commands[0], contract)
    for time_s, values, is_goal in (
        (0.0, (0.0, 0.0), True),
        (1.0, (0.25, 0.0), False),  # as much is none yet
        (2.0, (0.5, 0.0), True),
        (3.0, (0.5, -0.5), True),
    ):
        gate.update(ns(time_s), is_present=True, since_ns=0)
        gate.is_subscribed()
        gate.command(np.array(values), ns(time_s))
        goal = gate.update(ns(time_s), is_present=True, since_ns=0)
        assert (goal is not None) is is_goal
        assert goal is None or gate.take_answer(goal.number, ns(time_s), accepted=True)


def test_what_the_control_thread_said_too_long_ago_is_no_goal():
    server = Server()
    server.decide(0.0, 0.5)  # and dies
    assert server.look(0.21) is None
    server.decide(1.0, 0.5)
    assert server.look(1.2) is not None


def test_a_goal_does_not_change_when_the_control_thread_reuses_its_array():
    server = Server()
    action = np.array([0.5, 0.5])
    server.gate.is_subscribed()
    server.gate.command(action, 0)
    action[:] = 9.0
    assert server.look(0.0).action.tolist() == [0.5, 0.5]


def test_a_goal_waits_for_the_answer_to_the_one_before():
    server = Server()
    server.decide(0.0, 0.0)
    first = server.look(0.0)
    server.decide(0.5, 0.9)
    assert server.look(0.5) is None
    assert server.gate.take_answer(first.number, ns(0.5), accepted=True)
    assert server.look(0.5).action[1] == 0.9


def test_a_rejected_goal_is_counted_named_and_sent_again_after_a_while():
    server = Server()
    server.play(0.0, 0.5, accepted=False)
    assert server.events == {GoalEvent.REJECTED: 1}
    (line,) = server.gate.take_news()
    assert line.startswith("goal 1 (elbow = 0.5) rejected, 1 since the start: ")
    assert server.gate.take_news() == []
    server.play(RETRY_S - 0.01, 0.5)
    assert len(server.goals) == 1
    server.play(RETRY_S, 0.6)
    assert server.goals[1:] == [(RETRY_S, 0.6)]


def test_a_rejected_goal_is_not_sent_again_in_a_pause():
    server = Server()
    server.play(0.0, 0.5, accepted=False)
    server.play(2 * RETRY_S, None)
    assert len(server.goals) == 1


def test_a_goal_without_an_answer_is_given_up_and_its_late_answer_ignored():
    server = Server()
    server.play(0.0, 0.5, accepted=None)
    server.play(ANSWER_TIMEOUT_S - 0.01, 0.5, accepted=None)
    assert len(server.goals) == 1
    server.play(ANSWER_TIMEOUT_S, 0.5, accepted=None)
    later_s = ANSWER_TIMEOUT_S + 0.05  # decided when the server counts as away
    server.play(later_s, 0.5, accepted=None)
    assert server.goals[1:] == [(later_s, 0.5)]
    assert server.events == {GoalEvent.UNANSWERED: 1}
    assert server.gate.take_news() == [
        "goal 1 (elbow = 0.5) unanswered, 1 since the start: no answer within 1 s; sent again,"
        " while the robot commands it"
    ]
    assert not server.gate.take_answer(1, ns(ANSWER_TIMEOUT_S), accepted=False)
    assert server.gate.awaits_answer
    assert server.events == {GoalEvent.UNANSWERED: 1}


def test_a_late_answer_in_a_pause_is_ignored_too():
    server = Server()
    server.play(0.0, 0.5, accepted=None)
    server.play(ANSWER_TIMEOUT_S, None)
    for accepted in (True, False):
        assert not server.gate.take_answer(1, ns(ANSWER_TIMEOUT_S), accepted=accepted)
    assert server.events == {GoalEvent.UNANSWERED: 1}


def test_only_the_end_of_an_accepted_goal_is_of_interest():
    for accepted in (True, False):
        server = Server()
        server.play(0.0, 0.5, accepted=None)
        assert server.gate.take_answer(1, 0, accepted=accepted) is accepted


@pytest.mark.parametrize("event", [GoalEvent.ABORTED, GoalEvent.CANCELED, GoalEvent.LOST])
def test_a_goal_that_ends_otherwise_is_counted_and_not_sent_again(event: GoalEvent):
    server = Server()
    server.play(0.0, 0.5)
    server.gate.take_end(1, event)
    assert server.events == {event: 1}
    assert server.gate.summary() == f"1 sent, 1 {event.value}"
    for time_s in (5.0, 5.5):
        server.play(time_s, 0.5)
    assert len(server.goals) == 1
    server.play(6.0, 0.0)
    assert server.goals[1:] == [(6.0, 0.0)]


def test_the_end_of_a_goal_that_was_replaced_or_went_well_is_no_event():
    server = Server()
    server.play(0.0, 0.5)
    server.play(1.0, 0.9)
    server.gate.take_end(1, GoalEvent.CANCELED)  # preempted, as ros2_control's controllers do
    server.gate.take_end(2, None)
    assert not server.events


def test_a_server_that_is_not_there_is_told_once_each_time():
    server = Server()
    for absence in (1, 2):
        begin_s = 100.0 * absence
        server.is_present = False
        server.play(begin_s, 0.5)
        server.play(begin_s + PATIENCE_S - 0.01, 0.5)
        assert server.gate.counts[GoalEvent.NO_SERVER] == absence - 1
        for more_s in (0.0, 5.0, 10.0):
            server.play(begin_s + PATIENCE_S + more_s, 0.5)
        assert server.gate.counts[GoalEvent.NO_SERVER] == absence
        server.is_present = True
        server.play(begin_s + 50.0, 0.5)
    assert [line.split(":")[0] for line in server.gate.take_news()] == [
        "no server, 1 since the start",
        "no server, 2 since the start",
    ]


def test_a_server_that_never_was_there_is_told_too_and_not_heard():
    contract = gripper_contract(ARM, GRIPPER)
    gate = GoalGate(contract.action_commands[0], contract)
    for time_s, times_told in ((0.0, 0), (1.99, 0), (2.0, 1), (4.0, 1)):
        assert not gate.is_subscribed()
        gate.command(np.array([0.5, 0.5]), ns(time_s))
        assert gate.update(ns(time_s), is_present=False, since_ns=0) is None
        assert gate.counts[GoalEvent.NO_SERVER] == times_told


def test_a_server_that_comes_and_goes_between_two_ticks_is_away():
    server = Server()
    for is_present in (False, True, False):
        server.is_present = is_present
        server.look(0.0)
    assert not server.is_heard()
    for is_present in (True, False):
        server.is_present = is_present
        server.look(0.0)
    assert not server.is_heard()


def test_each_absence_between_two_ticks_counts_for_one_of_them():
    server = Server()
    for ticks_between in (0, 0, 1, 1):
        for _ in range(ticks_between):
            assert server.is_heard()
        for is_present in (False, True):
            server.is_present = is_present
            server.look(0.0)
        assert not server.is_heard()
    assert server.is_heard()


def test_of_many_events_that_nobody_reads_the_newest_are_kept():
    server = Server()
    for number in range(105):
        server.play(2.0 * RETRY_S * number, 0.5, accepted=False)
    news = server.gate.take_news()
    assert len(news) == 100
    assert news[-1].endswith(
        "rejected, 105 since the start: sent again after 1 s, while the robot commands it"
    )


def test_a_server_that_nobody_commands_may_be_missing():
    server = Server()
    server.is_present = False
    for time_s in (1.0, 10.0):
        server.play(time_s, None)
    assert not server.events


def test_a_server_that_comes_back_gets_the_goal_anew_but_none_from_before():
    server = Server()
    server.play(0.0, 0.5)
    server.is_present = False
    server.look(1.0)
    assert not server.gate.is_subscribed()
    server.decide(1.99, 0.8)  # as if nobody heard it: not a step from where the joint is
    server.is_present = True
    assert server.look(2.0) is None
    assert server.gate.is_subscribed()
    server.play(2.05, 0.5)
    assert server.goals == [(0.0, 0.5), (2.05, 0.5)]


def test_a_goal_of_a_server_that_went_is_not_waited_for():
    server = Server()
    server.play(0.0, 0.5, accepted=None)
    server.is_present = False
    server.look(0.1)
    assert not server.gate.awaits_answer
    server.is_present = True
    server.look(0.2)
    server.gate.take_end(1, GoalEvent.ABORTED)
    server.decide(0.25, 0.5)  # in which it still counts as away
    server.play(0.3, 0.5)
    assert not server.gate.take_answer(1, ns(0.3), accepted=False)
    assert server.goals == [(0.0, 0.5), (0.3, 0.5)]
    assert not server.events


def test_a_server_that_was_away_between_two_ticks_counts_as_away_in_one():
    """Else its first goal would be a step from the last command, and it may be anywhere."""
    server = Server()
    server.play(0.0, 0.5)
    server.is_present = False
    server.look(0.1)
    server.is_present = True
    server.look(0.2)
    assert not server.is_heard()
    server.gate.command(np.array([0.5, 0.9]), ns(0.3))
    assert server.look(0.3) is None
    assert server.is_heard()
    server.gate.command(np.array([0.5, 0.7]), ns(0.4))
    assert server.look(0.4) is not None


@pytest.mark.parametrize("accepted", [False, None])
def test_a_server_that_takes_no_goal_counts_as_away_until_it_takes_one(accepted: bool | None):
    """Else the guard would lead its reference on, and the first goal that is taken would be a jump."""
    server = Server()
    assert server.is_heard()
    server.play(0.0, 0.5, accepted=accepted)
    server.look(ANSWER_TIMEOUT_S + 0.01)
    assert not server.is_heard()
    again_s = ANSWER_TIMEOUT_S + RETRY_S + 0.1
    server.play(again_s, 0.5)
    assert [time_s for time_s, _ in server.goals] == [0.0, again_s], "it is asked again all the same"
    assert server.is_heard()


def test_what_was_decided_while_a_server_refused_is_no_goal_once_it_takes_some():
    server = Server()
    server.play(0.0, 0.5, accepted=False)
    server.play(RETRY_S + 0.1, 0.5, accepted=None)
    server.decide(RETRY_S + 0.2, 0.9)
    server.gate.take_answer(2, ns(RETRY_S + 0.2), accepted=True)
    assert server.look(RETRY_S + 0.4) is None
    server.play(RETRY_S + 0.4, 0.7)
    assert server.goals[-1] == (RETRY_S + 0.4, 0.7)


def test_a_server_that_comes_back_is_heard_whatever_it_refused_before():
    server = Server()
    server.play(0.0, 0.5, accepted=False)
    server.is_present = False
    server.look(0.1)
    server.is_present = True
    server.look(0.2)
    assert not server.is_heard(), "it was away between two ticks"
    assert server.is_heard()


@pytest.mark.parametrize("answer_s", [0.03, 0.9])
@pytest.mark.parametrize("fps", [20.0, 50.0, 100.0])
def test_the_last_point_of_the_way_home_is_a_goal_at_any_rate_of_control(fps: float, answer_s: float):
    document = contract_document(fps=fps) | {"home": {"positions": [0.0, 0.8], "duration_s": 0.3}}
    document["commands"] = [ARM, {key: GRIPPER[key] for key in ("action", "type", "fields")}]
    for name in JOINTS:
        document["actions"]["limits"][name]["max_velocity"] = 2.0
    contract = parse_document(document, Contract, "gripper.contract.yaml")
    robot, gate = FedPlayback(contract), GoalGate(contract.action_commands[0], contract)
    position, goals = np.zeros(2), []
    awaited: tuple[int, int] | None = None  # goal, and when it is answered
    robot.measure(position)
    robot.append([position] * 3)
    while not robot.playback.finished:
        now_ns = robot.now_ns
        assert now_ns < ns(robot.playback.rules.longest_end_s), "the process ends without it"
        if now_ns == 3 * robot.period_ns:
            robot.playback.control.halt(wants_home=True)
        gate.is_subscribed()
        tick = robot.tick()
        gate.command(tick.goal, now_ns)
        if awaited is not None and now_ns >= awaited[1]:
            assert gate.take_answer(awaited[0], now_ns, accepted=True)
            awaited = None
        if goal := gate.update(now_ns, is_present=True, since_ns=0):
            goals.append(float(goal.action[1]))
            awaited = goal.number, now_ns + ns(answer_s)
        if tick.command is not None:
            position = tick.command
            robot.measure(position)
    assert goals[-1] == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("rates_hz", "lasts_s"),
    [
        ((None,), 1.1),
        ((2.0, 5.0), 1.1),  # an answer may take longer than the rate
        ((0.5, 5.0), 2.1),
        ((5.0, 0.5), 2.1),
        ((1e-300,), 10.0),
        ((), 0.0),
    ],
)
def test_the_last_command_lasts_until_the_slowest_server_has_it(
    rates_hz: tuple[float | None, ...], lasts_s: float
):
    sinks = [
        {**GRIPPER, "action": f"cmd_{joint}", "fields": {"command.position": joint}, "max_rate_hz": rate_hz}
        for joint, rate_hz in zip(reversed(JOINTS), rates_hz, strict=False)
    ]
    left = [joint for joint in JOINTS if not any(joint in sink["fields"].values() for sink in sinks)]
    arms = [{**ARM, "names": left}] if left else []
    assert last_goal_s(gripper_contract(*arms, *sinks)) == pytest.approx(lasts_s)


def test_a_goal_of_a_tiny_rate_keeps_no_robot_that_gave_up_alive_for_ever():
    home = {"positions": [0.0, 0.8], "duration_s": 0.3}
    robot = FedPlayback(gripper_contract(ARM, GRIPPER | {"max_rate_hz": 1e-300}, home=home))
    assert robot.playback.rules.longest_end_s < 20.0


def test_nothing_is_sent_after_a_stop_that_the_last_tick_had_not_heard():
    server = Server()
    server.decide(0.0, 0.5)
    assert server.gate.update(ns(0.001), is_present=True, since_ns=None) is None
    assert server.gate.update(ns(0.002), is_present=True, since_ns=0) is None, (
        "the stop is released, and no tick was since"
    )
    server.decide(0.003, 0.5)
    assert server.gate.update(ns(0.003), is_present=True, since_ns=0) is not None


def test_what_a_policy_said_before_a_person_took_over_is_sent_no_more():
    server = Server()
    server.decide(0.0, 0.5)
    assert server.gate.update(ns(0.002), is_present=True, since_ns=ns(0.001)) is None
    server.decide(0.001, 0.6)
    goal = server.gate.update(ns(0.003), is_present=True, since_ns=ns(0.001))
    assert goal is not None
    assert goal.action[1] == 0.6


def test_a_robot_that_commands_nothing_after_a_stop_sends_nothing():
    server = Server()
    server.decide(0.0, 0.5)
    assert server.gate.update(0, is_present=True, since_ns=None) is None
    server.decide(0.05, None)
    assert server.look(0.05) is None
    server.decide(0.1, 0.5)
    assert server.look(0.1) is not None
