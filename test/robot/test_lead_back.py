# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A joint that does not follow its commands is led back to where it is measured, and never for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands, StopInputs
from remote_inference.robot.motion.emit import MOST_LAG_S
from remote_inference.robot.motion.select import MARGIN_S, MOST_WAYS
from remote_inference.robot.motion.state import Tick
from support.builders import JOINT_TRAJECTORY, JOINTS, contract_document, make_contract
from support.robot.fed_playback import FedPlayback

FPS = 50.0
CONTRACT = make_contract(fps=FPS)
MAX_VELOCITY = CONTRACT.actions.limit_of(CONTRACT.actions.names[0]).fastest
STEP = MAX_VELOCITY / FPS
BOUND = 0.3  # max_following_error of the contract below
AWAY = 0.9  # where the policy leads the first joint


class LedRobot(FedPlayback):
    """A robot whose first joint is measured where a test says, whatever it is commanded."""

    def __init__(self, fallback: str = "hold", **sections: Any) -> None:
        """sections: other ones of the contract."""
        self.stops = StopInputs({})
        self.human = HumanCommands(0.5)
        document = contract_document(fps=FPS) | sections
        for limit in document["actions"]["limits"].values():
            limit |= {"min": -10.0, "max": 10.0, "max_following_error": BOUND}
        contract = parse_document(document, Contract, "led.contract.yaml")
        super().__init__(contract, fallback, stops=self.stops, human=self.human)
        self.sent: list[np.ndarray] = []

    def go(self, at: float) -> Tick:
        """Let one tick pass in which the joint is measured somewhere."""
        self.measure([at, 0.0])
        self.append([[AWAY, 0.0]])
        tick = self.tick()
        if tick.command is not None:
            self.sent.append(tick.command)
        return tick

    def lose(self) -> None:
        """Let the joint stand still until it is found astray."""
        for _ in range(20):
            tick = self.go(0.0)
            if self.playback.not_following:
                break
        assert tick.source is CommandSource.REPEAT_LAST


def test_a_way_back_has_single_steps_from_the_last_command_to_where_the_joint_is():
    robot = LedRobot()
    robot.lose()
    assert robot.sent[-2][0] > BOUND
    for _ in range(20):
        robot.go(0.0)
    ways = np.diff([command[0] for command in robot.sent])
    assert np.abs(ways).max() == pytest.approx(STEP)
    assert abs(robot.sent[-1][0]) <= 1.001 * STEP
    assert not robot.stops.latched


def test_drives_that_stay_off_are_tried_again_and_again_and_stop_no_robot():
    robot = LedRobot()
    robot.lose()
    for _ in range(round(20 * FPS)):
        robot.go(0.0)
    assert not robot.stops.latched
    assert max(abs(command[0]) for command in robot.sent[-round(10 * FPS) :]) <= 3 * STEP


def test_what_goes_away_from_where_it_is_led_back_to_stops_the_robot_after_twice_the_way():
    robot = LedRobot()
    robot.lose()
    begin_ns, at = robot.now_ns, 0.0
    for _ in range(100):
        at -= 1.1 * STEP
        robot.go(at)
        if robot.stops.latched:
            break
    way_s = (BOUND + 2 * STEP) / MAX_VELOCITY
    assert (robot.now_ns - begin_ns) / 1e9 <= MOST_WAYS * way_s + MARGIN_S + 3 / FPS
    assert "shoulder: led back for too long" in robot.stops.latched


def test_measurements_to_and_fro_stop_the_robot_as_well():
    """Each time it follows again for a moment, and is led a little farther."""
    robot = LedRobot()
    robot.lose()
    begin = robot.sent[-1][0]
    for tick in range(round(20 * FPS)):
        robot.go(robot.sent[-1][0] - (0.45 if tick % 50 < 25 else 0.0))
        if robot.stops.latched:
            break
    assert "shoulder: led back for too long" in robot.stops.latched
    assert abs(robot.sent[-1][0] - begin) < 3.0


def test_a_person_who_falls_silent_lets_nothing_jump_to_where_it_is_measured():
    robot = LedRobot("repeat_last")
    robot.lose()
    last = robot.sent[-1][0]
    robot.playback.control.change(taken_over=True, person_since_ns=robot.now_ns)
    for _ in range(5):
        robot.go(last - BOUND)
    ways = np.diff([last, *(command[0] for command in robot.sent[-5:])])
    assert np.abs(ways).max() <= 1.001 * STEP


def trajectory_robot(**sections: Any) -> LedRobot:
    return LedRobot(commands=[{"topic": "arm", "type": JOINT_TRAJECTORY, "names": list(JOINTS)}], **sections)


def test_a_stop_holds_what_does_not_follow_no_farther_than_it_may_lag_and_in_one_place():
    robot = trajectory_robot()
    robot.lose()
    last = robot.sent[-1][0]
    robot.stops.latch("button: pressed")
    held = [robot.go(-5.0 - 0.1 * tick) for tick in range(5)]
    assert {tick.source for tick in held} == {CommandSource.HOLD}
    places = {round(float(tick.command[0]), 6) for tick in held if tick.command is not None}
    assert len(places) == 1
    assert last - min(places) == pytest.approx(MOST_LAG_S * MAX_VELOCITY)


def test_a_robot_that_stops_for_what_goes_away_stays_where_it_was_led_to():
    robot = trajectory_robot()
    robot.lose()
    at = 0.0
    while not robot.stops.latched:
        at -= 1.5 * STEP
        robot.go(at)
    last = robot.sent[-1][0]
    for _ in range(5):
        tick = robot.go(at)
        assert tick.source is CommandSource.HOLD
        assert tick.command is not None
        assert tick.command[0] == pytest.approx(last)


def test_a_robot_that_gives_up_while_it_is_led_back_is_not_led_home_from_there():
    robot = LedRobot(home={"positions": [0.0, 0.0], "duration_s": 1.0})
    robot.lose()
    robot.go(-0.5)  # it has moved, and is still away from its command
    assert not robot.playback.not_following
    robot.playback.control.halt(wants_home=True)
    assert robot.go(-0.5).command is None
    assert robot.playback.stranded == "shoulder: it does not follow its commands"
