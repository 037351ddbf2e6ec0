# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Measured positions that cannot be the joints' own: of degrees, of another joint, of a broken encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.queue.observation_history import TickSample
from remote_inference.robot.safety.effects import Warn
from remote_inference.robot.safety.guard import Guard
from remote_inference.robot.safety.measured_arm import MeasuredArm
from remote_inference.robot.safety.measurement_gate import TURN
from remote_inference.robot.safety.state_machine import State
from support.builders import JOINTS, contract_document, make_contract, ns
from support.robot.pose_robot import pose_contract
from support.robot.simulation import World, streaming

FAR = 1.0 + 0.05 * 2.0  # limits are -1 to 1: 5 % of the range beyond


def take(contract: Contract, measured: np.ndarray) -> str:
    """Return what a person is told of the first measurement, or an empty string."""
    arm = arm_of(contract)
    stamps = dict.fromkeys(contract.measured_topics, 0)
    times = dict.fromkeys(contract.measured_topics, 5)
    _, warnings = arm.take(times, measured, 10, stamps=stamps)
    return "".join(effect.text for effect in warnings if isinstance(effect, Warn))


def arm_of(contract: Contract) -> MeasuredArm:
    return MeasuredArm(contract, Guard(contract.actions, contract.period_s))


def require_end(world: World, since_ns: int) -> None:
    """Require that the motion ended as it does without sensors: with what was planned before."""
    led_ns = [at_ns for at_ns, tick in world.ticks if tick.source is CommandSource.CHUNK]
    assert max(led_ns) < since_ns + ns(world.config.max_action_age_s)
    assert world.state is State.STALLED


class JudgedWorld(World):
    measurements_are_judged = True


class BrokenEncoder(JudgedWorld):
    """An arm whose joints may be measured somewhere."""

    is_broken = False

    def _see(self, topic: str) -> None:
        super()._see(topic)
        if self.is_broken:
            self.seen = self.seen + 1e3


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ((0.0, 0.0), ""),
        ((FAR, -FAR), ""),
        ((np.nan, 0.0), ""),
        ((FAR + 0.01, 0.0), "shoulder: measured at 1.11, expected near its limits, -1 to 1 rad: in another"),
        ((0.0, -FAR - 0.01), "elbow: measured at -1.11, expected near its limits, -1 to 1 rad: in another"),
        ((np.inf, 0.0), "shoulder: measured at inf"),
    ],
)
def test_a_position_is_near_its_limits(measured: tuple[float, float], problem: str):
    found = take(make_contract(), np.array(measured))
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_speeds_have_no_place():
    assert take(make_contract("velocity"), np.array([1e9, -1e9])) == ""


def test_a_robot_that_is_measured_where_it_cannot_be_is_not_moved_and_says_so_once():
    world = JudgedWorld()
    world.position = np.degrees(np.array([0.8, -0.9]))
    world.run(2.0)
    assert not world.commands_since(0)
    assert world.warnings().count("shoulder: measured at 45.8366, expected near its limits") == 1
    assert not world.sent, "a request would show it"


def test_a_broken_number_in_between_leads_nothing_on_from_there():
    world = streaming(JudgedWorld()).run(1.0)
    broken = world.position.copy()
    broken[0] = 1e6
    since_ns = world.now_ns
    world._tell_sensors(dict.fromkeys(world.arrivals, world.now_ns), broken)
    world.run(1.0)
    ticks = world.commands_since(since_ns)
    assert ticks
    assert np.abs([tick.command for tick in ticks]).max() <= 1.0
    assert ticks[-1].source is CommandSource.CHUNK
    assert world.state is State.STREAMING


def test_an_arm_whose_measurements_become_impossible_is_held_like_one_without_sensors():
    world = streaming(BrokenEncoder()).run(1.0)
    world.is_broken = True
    since_ns = world.now_ns + 1
    world.run(5.0)
    assert world.engine.cycle.stale_sources == world.measured_topics
    require_end(world, since_ns)


def test_an_arm_that_cannot_be_read_is_held_like_one_without_sensors():
    """Its messages come, so that no sensor is silent: a joint's number is no number, or is missing."""
    world = streaming(JudgedWorld()).run(1.0)
    since_ns = world.now_ns + 1
    for _ in range(125):
        world._look_at_sensors = lambda: world._tell_sensors(dict(world.arrivals), None)  # type: ignore[method-assign]
        world.run(0.04)
    assert world.engine.cycle.stale_sources == world.measured_topics
    require_end(world, since_ns)


def test_a_pose_without_an_orientation_is_not_measured():
    contract = pose_contract()
    measured = np.zeros(7)
    assert "a quaternion of length 0" in take(contract, measured)
    measured[6] = 1.0
    assert take(contract, measured) == ""


@pytest.mark.parametrize(
    ("place", "at", "problem"),
    [
        (0, 0.55, ""),
        (0, 0.56, "x: measured at 0.56, expected near its limits, -0.5 to 0.5 m: in another unit"),
        (2, -350.0, "z: measured at -350, expected near its limits, -0.5 to 0.5 m"),
        (5, 1e3, ""),  # a quaternion of another length says an orientation
    ],
)
def test_a_pose_is_near_its_box(place: int, at: float, problem: str):
    """In millimetres, or in another frame, it would have its tool led on from there."""
    measured = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    measured[place] = at
    found = take(pose_contract(), measured)
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_an_arm_was_measured_when_the_oldest_of_its_topics_was() -> None:
    document = contract_document()
    first, second = ({**document["state"][0], "topic": name, "names": [name]} for name in JOINTS)
    document["state"] = [first, second]
    contract = parse_document(document, Contract, "two_topics.contract.yaml")
    arm = arm_of(contract)
    assert sorted(arm.topics) == sorted(JOINTS)
    for arrivals, oldest_ns in (({JOINTS[0]: 7, JOINTS[1]: 5}, 5), ({JOINTS[0]: 7}, 0)):
        arm.take(arrivals, np.zeros(2), 10)
        assert arm.measured.time_ns == oldest_ns


def test_an_arm_that_nobody_has_measured_is_nowhere_since_ever() -> None:
    arm = arm_of(make_contract())
    assert (arm.measured.position, arm.measured.time_ns) == (None, 0)
    document = contract_document("velocity")
    document["state"][0]["names"] = ["battery", "force"]
    base = arm_of(parse_document(document, Contract, "base.contract.yaml"))
    assert not base.topics
    assert base.take({"joint_states": 7}, None, 10) == ({"joint_states": 7}, [])
    assert (base.measured.position, base.measured.time_ns) == (None, 0)


def test_an_arm_without_stamps_is_taken_where_it_is_said_to_be() -> None:
    contract = make_contract()
    arm, arrivals = arm_of(contract), dict.fromkeys(contract.measured_topics, 7)
    measured = np.full(2, 1e3)
    assert arm.take(arrivals, measured, 10) == (arrivals, [])
    assert arm.measured.position is measured
    assert arm.measured.time_ns == 7


def test_an_arm_of_which_no_position_is_needed_has_no_silent_topics() -> None:
    contract = make_contract("velocity")
    arm, arrivals = arm_of(contract), dict.fromkeys(contract.topics, 7)
    assert arm.take(arrivals, None, 10) == (arrivals, [])


def test_an_arm_that_is_not_measured_has_silent_topics_and_no_problem() -> None:
    """That it is silent is said elsewhere, of its topics."""
    contract = make_contract()
    arm, arrivals = arm_of(contract), dict.fromkeys([*contract.measured_topics, "other"], 7)
    assert arm.take(arrivals, None, 10) == ({"other": 7}, [])
    assert arm.measured.time_ns == 0


def test_a_person_is_told_where_an_arm_cannot_be_every_five_seconds() -> None:
    contract = make_contract()
    arm, broken, told_s = arm_of(contract), np.full(2, 1e3), []
    for at_s in np.arange(0.0, 16.0, 0.5):
        arrivals = dict.fromkeys(contract.measured_topics, ns(at_s))
        if arm.take(arrivals, broken, ns(at_s), stamps={})[1]:
            told_s.append(at_s)
    assert told_s == [0.0, 5.0, 10.0, 15.0]


class HeardArm:
    """An arm with two joints, each with a topic of its own, and what it hears of them."""

    def __init__(self, **limit: Any) -> None:
        document = contract_document()
        document["state"] = [{**document["state"][0], "topic": name, "names": [name]} for name in JOINTS]
        for name in JOINTS:
            document["actions"]["limits"][name] |= limit
        contract = parse_document(document, Contract, "two_topics.contract.yaml")
        self.arm, self.at_s = arm_of(contract), 0.0
        self.arrivals = dict.fromkeys(JOINTS, 0)
        self.said = np.zeros(2)
        self.told = ""  # of a leap

    def hear(self, *positions: float | None, for_s: float = 0.6) -> None:
        """Let messages come for a time, None of a joint whose topic is silent."""
        for _ in range(round(for_s / 0.02)):
            self.at_s += 0.02
            for place, position in enumerate(positions):
                if position is not None:
                    self.arrivals[JOINTS[place]], self.said[place] = ns(self.at_s), position
            self.arm.take(dict(self.arrivals), self.said.copy(), ns(self.at_s), stamps={})
            self.told = self.arm.leap


def test_an_arm_that_leapt_is_where_it_was_until_a_person_has_looked_at_it() -> None:
    heard = HeardArm()
    heard.hear(-0.9, 0.0)
    heard.hear(0.9, 0.0)
    arm = heard.arm
    assert arm.leap.startswith("measurement: shoulder by 1.80 rad between two messages")
    assert arm.measured.position is not None
    assert arm.measured.position[0] == -0.9
    assert arm.doubted == ("shoulder",)
    arm.accept_leap()
    heard.hear(0.9, 0.0)
    assert arm.measured.position[0] == 0.9
    assert not arm.leap


def test_of_two_joints_that_leap_one_after_another_each_is_told_and_accepted() -> None:
    heard = HeardArm()
    heard.hear(-0.9, -0.9)
    heard.hear(0.9, None, for_s=0.02)
    heard.hear(0.9, 0.9)
    first = heard.told
    heard.arm.accept_leap()
    second = heard.arm.leap
    assert (first.split()[1], second.split()[1]) == JOINTS
    heard.arm.accept_leap()
    assert not heard.arm.leap


def test_a_leap_that_is_accepted_says_nothing_of_the_turns_of_other_joints() -> None:
    heard = HeardArm(min=-10.0, max=10.0, wraps=True)
    heard.hear(-0.9, 3.1)
    heard.hear(-0.9, 3.3 - TURN)
    heard.hear(0.9, 3.3 - TURN)
    assert heard.arm.leap.startswith("measurement: shoulder")
    heard.arm.accept_leap()
    heard.hear(0.9, 3.3 - TURN)
    assert heard.arm.measured.position == pytest.approx([0.9, 3.3])


@pytest.mark.parametrize(("seen_s", "is_shown"), [(0.0, True), (-0.01, False)])
def test_a_policy_is_shown_where_the_joints_are_believed_and_no_sample_older_than_that(
    seen_s: float, is_shown: bool
) -> None:
    heard = HeardArm(min=-10.0, max=10.0, wraps=True)
    heard.hear(3.1, 3.1)
    heard.hear(3.3 - TURN, 3.3 - TURN)
    arrivals = dict.fromkeys(JOINTS, ns(heard.at_s + seen_s))
    sample = TickSample(None, arrivals, measured=np.full(2, 3.3 - TURN))
    shown = heard.arm.believed(sample, None, by_hand=True)
    assert (shown is not None) is is_shown
    if shown is not None:
        assert shown.measured == pytest.approx([3.3, 3.3])


class LeapingArm(JudgedWorld):
    """An arm whose joints are measured somewhere else from some moment on."""

    elsewhere: np.ndarray | None = None

    def _see(self, topic: str) -> None:
        super()._see(topic)
        if self.elsewhere is not None:
            self.seen = self.elsewhere


def test_a_leap_behind_another_stop_stops_the_robot_anew_when_that_is_cleared() -> None:
    world = streaming(LeapingArm()).run(1.0)
    world.engine.stops.latch("button: pressed")
    world.run(0.1)
    world.elsewhere = np.where(world.position > 0.0, -1.0, 1.0) * np.pi / 3
    world.run(1.0)
    assert world.engine.stops.latched == "button: pressed"
    assert world.clear_stop() == ""
    world.run(0.1)
    assert world.engine.stops.latched.startswith("measurement: ")
    assert world.clear_stop() == ""
    world.run(1.0)
    assert world.engine.stops.latched == ""
