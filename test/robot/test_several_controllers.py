# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of several controllers is stopped by each: none waits for another that is away or unmeasured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import STOPS
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, JOINTS, MAX_STEP, contract_document, ns
from support.robot.controllers import Trajectory
from support.robot.fed_playback import FedPlayback

BUTTON = "button: estop says true"
STEP = 0.15 * MAX_STEP  # of a row


def two_arms(second: str, **limits: Any) -> Contract:
    """Return the contract of a joint with a trajectory controller, and of one with another controller."""
    document = contract_document()
    document["actions"]["limits"][JOINTS[1]] |= limits
    document["commands"] = [
        {"topic": "first", "type": JOINT_TRAJECTORY, "names": [JOINTS[0]]},
        {"topic": "second", "type": second, "names": [JOINTS[1]]},
    ]
    return parse_document(document, Contract, "two_arms.contract.yaml")


class MovingRobot(FedPlayback):
    """Its first joint goes as a trajectory controller leads it, along rows for three seconds."""

    def __init__(self, contract: Contract, fallback: str = "hold") -> None:
        super().__init__(contract, fallback)
        self.first, self.at = Trajectory(), np.zeros(1)
        self.measure([0.0, 0.0])
        self.append([[STEP * row, 0.0] for row in range(60)])

    def play(self, *, is_linked: bool = True) -> Tick:
        """Play a tick. is_linked: the first controller gets what it is sent."""
        now_ns, self.at = self.now_ns, self.first.lead(self.at, self.now_ns, self.now_ns)
        tick = self.tick()
        if is_linked and self.is_told(tick):
            self.first.command(tick.horizon[:, :1], self.period_ns, now_ns, self.at)
        return tick

    def is_told(self, tick: Tick) -> bool:
        return "first" in [sink.topic for sink in self.reached(tick)]

    def take_away(self, *topics: str) -> None:
        self.playback.listen([sink for sink in self.contract.commands if sink.topic in topics])

    def stop(self) -> None:
        self.playback._stops.latch(BUTTON)

    def end(self) -> float:
        """Return where the first joint comes to rest if nobody commands it any more."""
        return float(self.first.lead(self.at, self.now_ns, self.now_ns + ns(10.0))[0])


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("second", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])
def test_an_arm_is_stopped_while_nobody_knows_where_the_other_is(second: str, leaves: bool) -> None:
    """The driver of the other dies: its joint topic falls silent, and its controller may leave after that."""
    robot = MovingRobot(two_arms(second))
    for _ in range(4):
        robot.play()
        robot.measure([robot.at[0], 0.0])
    robot.playback.control.change(measured=None)
    for _ in range(6):
        robot.play()
    if leaves:
        robot.take_away("second")
    robot.stop()
    stopped_at = robot.play() and robot.at[0]
    for _ in range(40):
        robot.play()
    assert robot.end() == pytest.approx(stopped_at, abs=2 * STEP)


def test_of_two_trajectories_one_that_cannot_be_ended_is_tried_again_until_its_rows_end() -> None:
    robot = MovingRobot(two_arms(JOINT_TRAJECTORY))
    robot.play()
    robot.playback.control.change(measured=None)
    robot.take_away("second")
    robot.stop()
    ticks = [robot.play() for _ in range(STOPS + 1)]
    assert [tick.ends for tick in ticks] == [("first",)] * STOPS + [()]
    assert all(tick.in_force for tick in ticks), "the watchdog stands by"
    robot.take_away()
    robot.measure([robot.at[0], 0.25])
    ticks = [robot.play() for _ in range(STOPS + 1)]
    assert [tick.ends for tick in ticks] == [("second",)] * STOPS + [()]
    assert {float(tick.command[1]) for tick in ticks[:STOPS] if tick.command is not None} == {0.25}
    assert not ticks[-1].in_force


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_trajectory_whose_link_is_broken_at_the_stop_is_ended_when_it_is_back(fallback: str) -> None:
    """What nobody gets ends nothing: the controller lives, and goes on along its rows."""
    robot = MovingRobot(two_arms(FLOAT64_MULTI_ARRAY), fallback)
    for _ in range(10):
        robot.play()
        robot.measure([robot.at[0], 0.0])
    robot.take_away("first")
    robot.queue.clear()
    robot.play(is_linked=False)
    robot.stop()
    for _ in range(11):
        assert robot.play(is_linked=False).in_force, "the watchdog stands by"
        robot.measure([robot.at[0], 0.0])
    robot.take_away()
    back_at = robot.at[0]
    ticks = []
    for _ in range(STOPS + 1):
        ticks.append(robot.play())
        robot.measure([robot.at[0], 0.0])
    assert [tick.source for tick in ticks] == [CommandSource.HOLD] * STOPS + [CommandSource.NONE]
    assert robot.end() == pytest.approx(back_at, abs=2 * STEP)


def test_a_trajectory_whose_controller_has_gone_for_good_is_waited_for_until_its_rows_end() -> None:
    robot = MovingRobot(two_arms(FLOAT64_MULTI_ARRAY))
    robot.play()
    end_ns = robot.playback._state.sent.look_ahead.end_ns
    robot.take_away("first")
    robot.stop()
    while robot.now_ns < end_ns:
        assert robot.play().in_force
        robot.measure([0.0, 0.0])
    assert not robot.play().in_force
    robot.take_away()
    robot.measure([-0.5, 0.0])
    assert robot.play().command is None, "where it stands it stays"


@pytest.mark.parametrize("how", ["pause", "stop"])
def test_an_arm_that_was_told_to_hold_is_told_no_more_while_the_base_is_awaited(how: str) -> None:
    """A person may move it, or it sags: a hold of where it was would lead it back."""
    robot = FedPlayback(two_arms(FLOAT64_MULTI_ARRAY, kind="velocity"))
    robot.append([[0.1, 0.6]] * 2)
    for arm in (0.0, 0.1):
        robot.measure([arm, np.nan])
        robot.tick()
    robot.playback.listen(robot.contract.commands[1:])
    if how == "pause":
        robot.playback.control.change(paused=True)
    else:
        robot.playback._stops.latch(BUTTON)
    ticks = []
    for number in range(100):
        robot.measure([0.1 if number < 50 else -0.8, np.nan])
        ticks.append(robot.tick())
    told = [tick.source is CommandSource.HOLD for tick in ticks]
    assert told == [True] * STOPS + [False] * (100 - STOPS)
    assert {tick.source for tick in ticks[STOPS:]} == {CommandSource.ZERO}, "the base is still awaited"
    robot.playback.listen([])
    ticks = [robot.tick() for _ in range(STOPS + 1)]
    assert [tick.source for tick in ticks] == [CommandSource.ZERO] * STOPS + [CommandSource.NONE]


@pytest.mark.parametrize("limits", [{}, {"max_following_error": "off"}])
def test_a_hold_of_one_arm_moves_no_step_of_another_that_does_not_get_it(limits: dict[str, Any]) -> None:
    """It stands outside its limits, and would be led back within: a step each time it is commanded."""
    robot = FedPlayback(two_arms(FLOAT64_MULTI_ARRAY, **limits))
    at = 1.9
    robot.measure([0.0, at])
    robot.append([[0.05, 0.9]])
    steps = []
    for number in range(STOPS + 6):
        if number == STOPS + 2:
            robot.append([[0.05, 0.9]] * 4)
        tick = robot.tick()
        if "second" in [sink.topic for sink in robot.reached(tick)]:
            assert tick.command is not None
            steps.append(at - float(tick.command[1]))
            at = float(tick.command[1])
        robot.measure([0.05, at])
    assert steps == pytest.approx([MAX_STEP] * 5)


def test_a_controller_that_is_back_is_stopped_until_its_own_rows_have_ended() -> None:
    """Shorter ones were handed over since, when it did not hear: a single step, of an arm that was astray."""
    document = contract_document()
    for name in JOINTS:
        document["actions"]["limits"][name] |= {"min": -6.0, "max": 6.0}
    document["commands"] = [
        {"topic": topic, "type": JOINT_TRAJECTORY, "names": [name]}
        for topic, name in zip(("first", "second"), JOINTS, strict=True)
    ]
    robot = FedPlayback(parse_document(document, Contract, "two_trajectories.contract.yaml"))
    arms, position = (Trajectory(), Trajectory()), np.zeros(2)
    robot.measure(position)
    robot.append([[0.9 * MAX_STEP * row] * 2 for row in range(1, 61)])
    is_linked = drives_on = True

    def play() -> tuple[CommandSource, list[str]]:
        """Play a tick; return its source, and which topics got something."""
        nonlocal position
        now_ns = robot.now_ns
        led = [arm.lead(position[at : at + 1], now_ns, now_ns)[0] for at, arm in enumerate(arms)]
        position = np.array([led[0] if drives_on else position[0], led[1]])
        robot.measure(position)
        tick = robot.tick()
        told = [sink.topic for sink in robot.reached(tick)]
        for at, topic in enumerate(("first", "second")):
            if topic in told and tick.horizon is not None and (at == 0 or is_linked):
                arms[at].command(tick.horizon[:, at : at + 1], robot.period_ns, now_ns, position[at : at + 1])
        return tick.source, told

    for _ in range(5):
        play()
    is_linked = drives_on = False
    robot.playback.listen([robot.contract.commands[1]])
    while not robot.playback.not_following:
        play()
    while play()[0] is not CommandSource.CHUNK:  # it is tried again
        assert robot.now_ns < ns(3.0)
    robot.playback.control.change(paused=True)
    for _ in range(6):
        play()
    is_linked = True
    robot.playback.listen([])
    at_return = position[1]
    assert "second" in play()[1]
    for _ in range(40):
        play()
    assert abs(position[1] - at_return) < MAX_STEP
