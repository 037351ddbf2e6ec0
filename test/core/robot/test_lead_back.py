# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A joint that does not follow its commands is led back to where it is measured, and never for ever."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.command import CommandSource
from remote_inference.core.robot.motion.lead_back import MARGIN_S, MOST_WAYS
from remote_inference.core.robot.safety.stop_inputs import StopInputs
from remote_inference.core.robot.tick import Tick
from support.builders import contract_document, make_contract
from support.robot.fed_playback import FedPlayback

FPS = 50.0
CONTRACT = make_contract(fps=FPS)
MAX_VELOCITY = CONTRACT.actions.limit_of(CONTRACT.actions.names[0]).fastest
STEP = MAX_VELOCITY / FPS
BOUND = 0.3  # max_following_error of the contract below
AWAY = 0.9  # where the policy leads the first joint


class LedRobot(FedPlayback):
    """A robot whose first joint is measured where a test says, whatever it is commanded."""

    def __init__(self) -> None:
        self.stops = StopInputs({})
        document = contract_document(fps=FPS)
        for limit in document["actions"]["limits"].values():
            limit |= {"min": -10.0, "max": 10.0, "max_following_error": BOUND}
        super().__init__(parse_document(document, Contract, "led.contract.yaml"), stops=self.stops)
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
            if self.playback.astray:
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
