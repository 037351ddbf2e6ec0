# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""No arm is faster than its limits where a trajectory goes on from a place at which it was measured long ago.

A controller has gone on along its rows since, and must come back to where the next step begins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.motion.estimate import CATCH_UP_SCALE
from support.builders import JOINT_TRAJECTORY, JOINTS, contract_document, ns
from support.robot.controllers import Trajectory
from support.robot.fed_playback import FedPlayback

SPEED = 2.0  # rad/s
WORKER_NS = ns(0.02)  # between two looks at the sensors
STALL_NS = ns(0.3)
GIVEN_UP_AFTER_NS = ns(0.2)


def contract_of(fps: float) -> Contract:
    document = contract_document(fps=fps)
    for name in JOINTS:
        document["actions"]["limits"][name] = {"min": -9.0, "max": 9.0, "max_velocity": SPEED}
    document["commands"] = [{"topic": "arm", "type": JOINT_TRAJECTORY, "names": list(JOINTS)}]
    document["home"] = {"positions": [-1.0, 0.0], "duration_s": 1.0}
    return parse_document(document, Contract, "trajectory.yaml")


class Arm(FedPlayback):
    """An arm that its controller leads; what is measured of it is some time old."""

    def __init__(self, fps: float, delay_s: float, fallback: str = "hold", fraction: float = 0.9) -> None:
        """delay_s: age of what the worker sees. fraction: of the speed limit, at which the policy goes."""
        self.human = HumanCommands(10.0)
        super().__init__(contract_of(fps), fallback, given_up_after_ns=GIVEN_UP_AFTER_NS, human=self.human)
        self.delay_ns = ns(delay_s)
        self.controller, self.at = Trajectory(), np.zeros(2)
        self.seen: list[tuple[int, np.ndarray]] = [(0, self.at)]
        self.measure(self.at)
        self.step = fraction * SPEED / fps
        self.rows = 0  # that joined the queue
        self.sources: list[CommandSource] = []
        self.lates_ns: list[int] = []

    def run(self, time_s: float, lead: Callable[[], None] = lambda: None) -> None:
        """Let ticks come for a time. lead: what is done before each."""
        end_ns = self.now_ns + ns(time_s)
        while self.now_ns < end_ns:
            self.move()
            self.look()
            self.feed()
            lead()
            now_ns, tick = self.now_ns, self.tick()
            self.sources.append(tick.source)
            if tick.command is not None and tick.horizon is not None:
                self.lates_ns.append(tick.late_ns)
                self.controller.command(tick.horizon, self.period_ns, now_ns, self.at, tick.late_ns)

    def feed(self) -> None:
        """Keep the queue filled for half a second and more."""
        half = round(0.5e9 / self.period_ns)
        if len(self.queue) <= half:
            self.rows += half
            self.append([[self.step * row, 0.0] for row in range(self.rows - half + 1, self.rows + 1)])

    def stall(self) -> None:
        self.now_ns += STALL_NS

    def move(self) -> None:
        """Let the arm go where its controller leads it until now."""
        part_ns = self.period_ns // 2
        for at_ns in range(self.seen[-1][0] + part_ns, self.now_ns + 1, part_ns):
            self.at = self.controller.lead(self.at, at_ns, at_ns)
            self.seen.append((at_ns, self.at))

    def look(self) -> None:
        """Measure what the worker has seen last."""
        seen_ns = (self.now_ns - self.delay_ns) // WORKER_NS * WORKER_NS
        at_ns, at = next(((at_ns, at) for at_ns, at in reversed(self.seen) if at_ns <= seen_ns), self.seen[0])
        self.playback.control.change(measured=at, measured_ns=at_ns)

    @property
    def fastest(self) -> float:
        """The highest speed of the first joint [rad/s]."""
        times, places = [at_ns / 1e9 for at_ns, _ in self.seen], [at[0] for _, at in self.seen]
        return float(np.abs(np.diff(places) / np.diff(times)).max())


RATES = pytest.mark.parametrize("fps", [10.0, 50.0, 200.0])
DELAYS = pytest.mark.parametrize("delay_s", [0.0, 0.02, 0.04])


@RATES
@DELAYS
@pytest.mark.parametrize("fraction", [0.3, 1.0])
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_policy_goes_on_after_a_stall(fps: float, delay_s: float, fraction: float, fallback: str):
    arm = Arm(fps, delay_s, fallback, fraction)
    arm.run(0.4)
    arm.stall()
    arm.run(0.6)
    assert arm.sources[-1] is CommandSource.CHUNK
    assert arm.fastest <= SPEED * 1.0001
    assert arm.lates_ns[-1] == 0, "it has caught up"


@RATES
@DELAYS
def test_a_pause_follows_at_once(fps: float, delay_s: float):
    arm = Arm(fps, delay_s)
    arm.run(0.4)
    arm.stall()
    before = len(arm.sources)
    while CommandSource.CHUNK not in arm.sources[before:]:
        arm.run(1 / fps)
    arm.playback.control.change(paused=True)
    arm.run(0.3)
    assert CommandSource.HOLD in arm.sources[before:]
    assert arm.fastest <= SPEED * 1.0001


@RATES
@DELAYS
@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_a_pause_after_a_stall_is_over_soon(fps: float, delay_s: float, ticks: int):
    """The arm is still on its way back to where the hold has it."""
    arm = Arm(fps, delay_s)
    arm.run(0.4)
    arm.playback.control.change(paused=True)
    arm.stall()
    before = len(arm.sources)
    while CommandSource.HOLD not in arm.sources[before:]:
        arm.run(1 / fps)
    arm.run((ticks - 1) / fps)
    arm.playback.control.change(paused=False, forget=True)
    arm.run(0.6)
    assert arm.sources[-1] is CommandSource.CHUNK
    assert arm.fastest <= SPEED * 1.0001


@RATES
@DELAYS
def test_a_person_takes_over_while_the_arm_moves(fps: float, delay_s: float):
    arm = Arm(fps, delay_s)
    arm.run(0.4)
    arm.playback.control.change(taken_over=True, forget=True)
    arm.run(0.5, lambda: arm.human.deposit(np.array([-3.0, 0.0]), arm.now_ns))
    assert arm.sources[-1] is CommandSource.HUMAN
    assert arm.fastest <= SPEED * 1.0001


@RATES
@DELAYS
def test_a_robot_gives_up_after_a_command_that_did_not_leave(fps: float, delay_s: float):
    arm = Arm(fps, delay_s)
    arm.run(0.4)
    arm.playback.control.halt(wants_home=True)
    arm.playback.control.change(lose=True, withhold=True)
    arm.run(0.6)
    assert CommandSource.HOMING in arm.sources
    assert arm.fastest <= SPEED * 1.0001


def test_a_step_from_where_a_moving_arm_was_is_short_and_has_time():
    arm = Arm(fps=100.0, delay_s=0.04)
    arm.run(0.4)
    arm.stall()
    before = len(arm.lates_ns)
    arm.run(0.3)
    lates_ns = arm.lates_ns[before:]
    assert lates_ns[0] >= arm.delay_ns
    assert np.diff(lates_ns[: 1 + lates_ns.index(0)]) == pytest.approx(-(1 - CATCH_UP_SCALE) * arm.period_ns)


def test_an_arm_that_stands_is_led_at_full_speed_at_once():
    arm = Arm(fps=100.0, delay_s=0.04)
    arm.run(0.4)
    arm.playback.control.change(paused=True)
    arm.run(0.4)
    arm.playback.control.change(paused=False, forget=True)
    at = arm.at[0]
    arm.run(0.02)
    assert arm.sources[-1] is CommandSource.CHUNK
    assert arm.lates_ns[-1] == 0
    assert arm.fastest <= SPEED * 1.0001
    arm.run(0.1)
    assert arm.at[0] - at > 0.08 * 0.9 * SPEED
