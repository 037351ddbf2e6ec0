# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which measurements of a joint are believed: within reach at once, others when they last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.safety.measurement_gate import (
    CONFIRM_S,
    FIRST_S,
    HAND_SPEED,
    JITTER_S,
    TURN,
    Belief,
    MeasurementGate,
)
from support.builders import contract_document, ns
from support.robot.pose_robot import pose_contract

LIMIT = 3.0
MAX_VELOCITY = 1.0
TOLERANCE = 0.01 * 2 * LIMIT
PERIOD_S = 0.02


class Joint:
    """One joint, or a robot of poses, and the gate that its messages go through."""

    def __init__(self, contract: Contract | None = None, begin: Any = 0.0, **limit: Any) -> None:
        """begin: where it is believed to be."""
        if contract is None:
            document = contract_document()
            limits = {"min": -LIMIT, "max": LIMIT, "max_velocity": MAX_VELOCITY, **limit}
            document["actions"] |= {"names": ["turn"], "limits": {"turn": limits}}
            document["state"][0]["names"] = document["commands"][0]["names"] = ["turn"]
            contract = parse_document(document, Contract, "one.contract.yaml")
        self.period_s = contract.period_s
        masks = ActionMasks.of(contract.actions)
        self.gate = MeasurementGate(contract.actions, masks, contract.period_s)
        self.belief = Belief.none(contract.action_dim)
        self.now_s, self.stamp_s = 100.0, 0.0
        self.leaps: list[str] = []
        self.say(begin, for_s=FIRST_S + 2 * PERIOD_S)

    def say(
        self,
        position: Any,
        *,
        for_s: float = 0.0,
        period_s: float = PERIOD_S,
        command: Any = None,
        by_hand: bool = False,
    ) -> bool:
        """Let messages come; return whether the last one is believed."""
        for _ in range(1 + round(for_s / period_s) if for_s else 1):
            self.now_s += period_s
            at, dim = np.atleast_1d(np.asarray(position, float)), len(self.belief.position)
            goal = None if command is None else np.atleast_1d(np.asarray(command, float))
            times, stamps = np.full(dim, ns(self.now_s)), np.full(dim, ns(self.stamp_s))
            self.belief = self.gate.judge(self.belief, at, times, stamps, goal, by_hand=by_hand)
            self.leaps += [name for name, _ in self.belief.leaps]
        return not self.gate.doubted(self.belief).any()

    @property
    def believed(self) -> float:
        return float(self.belief.position[0])


def test_the_first_trust_needs_messages_that_agree_for_a_while():
    joint = Joint(begin=2.0)
    assert joint.believed == 2.0
    fresh = Joint.__new__(Joint)
    fresh.gate, fresh.belief, fresh.leaps = joint.gate, Belief.none(1), []
    fresh.now_s = fresh.stamp_s = 0.0
    assert not fresh.say(0.0, for_s=FIRST_S - 2 * PERIOD_S), "a driver that says 0 until it has measured"
    assert not fresh.say(2.0)
    assert not fresh.say(2.0, for_s=FIRST_S - 2 * PERIOD_S)
    assert fresh.say(2.0, for_s=2 * PERIOD_S)
    assert not fresh.leaps


def test_what_a_hand_can_do_is_believed_at_once_and_what_it_cannot_is_not():
    reach = TOLERANCE + HAND_SPEED * (PERIOD_S + JITTER_S)
    assert Joint().say(0.99 * reach)
    joint = Joint()
    assert not joint.say(1.01 * reach)
    assert joint.believed == 0.0
    assert joint.belief.implausible == 1
    assert joint.say(0.0)


def test_a_commanded_joint_is_believed_along_its_way_and_little_beyond_it():
    goal = 1.0
    assert Joint().say(0.9 * goal, command=goal), "drives that are back lead it there"
    slack = TOLERANCE + MAX_VELOCITY * (Joint().period_s + 1.5 * (PERIOD_S + JITTER_S))
    assert Joint().say(goal + 0.99 * slack, command=goal)
    assert not Joint().say(goal + 1.01 * slack, command=goal)
    assert not Joint().say(-1.01 * slack, command=goal)


def test_a_joint_that_was_on_its_way_when_the_robot_was_paused_is_believed_along_it_and_moved_by_hand():
    goal, by_hand = 1.0, TOLERANCE + MAX_VELOCITY * Joint().period_s + HAND_SPEED * (PERIOD_S + JITTER_S)
    assert Joint().say(0.9 * goal, command=goal, by_hand=True)
    assert Joint().say(goal + 0.99 * by_hand, command=goal, by_hand=True)
    assert not Joint().say(goal + 0.99 * by_hand, command=goal)
    assert Joint().say(-0.99 * by_hand, command=goal, by_hand=True)
    assert not Joint().say(-1.01 * by_hand, command=goal, by_hand=True)


def test_the_reach_does_not_grow_with_silence():
    joint = Joint()
    assert not joint.say(1.2, period_s=0.29)
    assert Joint().say(0.9, period_s=0.29)


@pytest.mark.parametrize("wrong", [1.5, -2.9])
def test_a_lie_of_any_kind_shorter_than_the_confirmation_moves_nothing(wrong: float):
    joint = Joint()
    assert not joint.say(wrong, for_s=CONFIRM_S - 2 * PERIOD_S)
    assert joint.say(0.0)
    assert joint.believed == 0.0
    assert not joint.leaps


def test_a_contradiction_is_believed_once_it_has_lasted():
    for far, needs_s in [(0.9, CONFIRM_S), (1.1, FIRST_S)]:
        joint = Joint()
        assert not joint.say(far, for_s=needs_s - PERIOD_S)
        assert joint.say(far, for_s=2 * PERIOD_S)
        assert joint.believed == far


def test_what_is_nearer_to_an_open_contradiction_stays_one_though_the_reach_has_grown():
    joint = Joint()
    joint.say(0.5)
    assert not joint.say(0.5, for_s=0.15), "within reach of a hand from 0 by then"
    assert joint.say(0.0)


def test_messages_of_two_publishers_lead_nowhere_from_the_believed_one():
    joint = Joint()
    for _ in range(40):
        assert not joint.say(2.0)
        assert not joint.say(2.0)
        assert joint.say(0.0)
    assert joint.believed == 0.0
    assert joint.belief.implausible == 80


def test_a_joint_that_leapt_as_nothing_moves_it_is_told_and_not_believed():
    joint = Joint()
    assert not joint.say(2.0, for_s=FIRST_S + PERIOD_S)
    assert set(joint.leaps) == {"turn"}
    assert joint.believed == 0.0, "a person looks first"
    slow = Joint()
    slow.say(1.5, for_s=FIRST_S + PERIOD_S)  # less than a quarter turn
    assert slow.believed == 1.5
    assert not slow.leaps


def test_an_encoder_that_lost_a_turn_is_never_believed_beyond_the_limits():
    joint = Joint()
    assert not joint.say(LIMIT + 0.06 * 2 * LIMIT, for_s=5.0)
    assert joint.believed == 0.0
    assert Joint(begin=LIMIT).say(LIMIT + 0.04 * 2 * LIMIT, for_s=CONFIRM_S + PERIOD_S)


def test_a_continuous_joint_goes_on_over_the_place_where_its_driver_wraps():
    joint = Joint(begin=3.1, min=-100.0, max=100.0, wraps=True)
    assert joint.say(3.1 + 0.06 - TURN)
    assert joint.believed == pytest.approx(3.16)


def test_a_continuous_joint_within_one_turn_may_be_turned_over_its_seam_by_hand():
    joint = Joint(begin=3.1, min=-math.pi, max=math.pi, wraps=True)
    for at in (3.3, 3.5, 3.7):
        assert joint.say(at - TURN, period_s=0.1)
    assert joint.believed == pytest.approx(3.7 - TURN)
    assert not joint.leaps


def test_a_continuous_joint_begins_in_the_turn_that_its_limits_allow():
    assert Joint(begin=4.0 - TURN, min=-1.0, max=4.5, wraps=True).believed == pytest.approx(4.0)


def test_a_continuous_joint_half_a_turn_away_is_confirmed_whatever_side_its_noise_is_on():
    joint = Joint(min=-100.0, max=100.0, wraps=True)
    joint.say(math.pi, period_s=0.9)
    for count in range(40):
        is_believed = joint.say(math.pi - 0.005 * (-1) ** count)
    assert is_believed


def test_the_first_message_after_a_gap_is_confirmed_first():
    joint = Joint()
    assert not joint.say(0.0, period_s=0.4)
    assert joint.belief.implausible == 0, "it contradicts nothing"
    assert joint.say(0.0, for_s=CONFIRM_S)


def test_a_driver_that_comes_back_elsewhere_needs_as_long_as_a_new_one():
    joint = Joint(begin=2.0)
    joint.say(0.0, period_s=0.4)
    assert not joint.say(0.0, for_s=FIRST_S - 2 * PERIOD_S)
    assert joint.believed == 2.0
    assert joint.say(0.0, for_s=2 * PERIOD_S)


def test_a_silence_hides_no_leap():
    joint = Joint(begin=-2.9)
    joint.say(2.9, period_s=0.4)
    assert not joint.say(2.9, for_s=2 * FIRST_S)
    assert set(joint.leaps) == {"turn"}
    slow = Joint(begin=-2.9)
    assert slow.say(2.9, period_s=0.9) is slow.say(2.9, for_s=FIRST_S - 2 * PERIOD_S) is False
    assert slow.say(2.9, for_s=2 * PERIOD_S), "a hand, or a drive, may have moved it in this time"


def test_a_driver_that_comes_back_where_a_joint_can_no_longer_be_needs_as_long_as_a_new_one():
    """It was led on meanwhile, away from where it is said to be."""
    joint = Joint()
    joint.say(-0.5, period_s=0.4, command=2.0)
    assert not joint.say(-0.5, for_s=FIRST_S - 2 * PERIOD_S, command=2.0)
    assert Joint().say(-0.5, for_s=CONFIRM_S + PERIOD_S, command=0.0)


@pytest.mark.parametrize("period_s", [0.005, 0.02])
@pytest.mark.parametrize(("command", "speed"), [(None, HAND_SPEED), (0.0, 1.5 * MAX_VELOCITY)])
def test_many_messages_in_a_short_time_lead_no_farther_than_few(
    period_s: float, command: float | None, speed: float
):
    joint, at, lasts_s = Joint(), 0.0, 0.2
    for _ in range(round(lasts_s / period_s)):
        at -= TOLERANCE
        joint.say(at, period_s=period_s, command=command)
    slack = TOLERANCE + (0.0 if command is None else MAX_VELOCITY * joint.period_s)
    assert abs(joint.believed) <= slack + speed * (lasts_s + JITTER_S) + 1e-9


def test_messages_that_come_together_after_a_silence_may_be_as_far_as_its_time_allows():
    """Without stamps nothing else says that they have waited."""
    joint = Joint()
    assert joint.say(0.02, period_s=0.2)
    for at in (0.1, 0.2, 0.3, 0.4):
        assert joint.say(at, period_s=0.001)


def test_stamps_that_begin_anew_hide_no_silence():
    joint = Joint()
    joint.stamp_s = 5000.0
    joint.say(0.0, for_s=CONFIRM_S)
    joint.stamp_s = 1.0
    assert not joint.say(0.9, period_s=3.0)


def test_two_intervals_of_a_slow_sensor_are_no_gap():
    for interval_s, is_gap in [(0.7, False), (0.9, True)]:
        joint = Joint()
        joint.say(0.0, for_s=4.0, period_s=0.4)
        assert joint.say(0.0, period_s=interval_s) is not is_gap


def test_messages_that_waited_are_judged_by_their_stamps():
    """Ten of a joint that moves at its limit come within a moment, after a stall of 0.28 s."""
    joint = Joint()
    joint.stamp_s = 50.0
    joint.say(0.0, for_s=CONFIRM_S)
    joint.now_s += 0.28
    for count in range(1, 11):
        joint.stamp_s += 0.06
        assert joint.say(0.06 * count, period_s=0.001, command=1.0)


def test_one_joint_is_doubted_by_itself():
    document = contract_document()
    contract = parse_document(document, Contract, "two.contract.yaml")
    robot = Joint(contract, [0.0, 0.5])
    robot.say([0.9, 0.5])
    assert robot.gate.doubted(robot.belief).tolist() == [True, False]


def test_a_pose_is_judged_as_a_whole_by_its_distance_and_its_angle():
    home = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    contract = pose_contract()
    for place, amount, is_believed in [(0, 0.02, True), (0, 0.4, False), (3, 0.02, True), (3, 0.9, False)]:
        robot = Joint(contract, home)
        there = home.copy()
        there[place] += amount
        assert robot.say(there) == is_believed
        if not is_believed:
            assert robot.gate.doubted(robot.belief).all()


def test_a_quaternion_of_the_other_sign_is_the_same_orientation():
    home = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8])
    robot = Joint(pose_contract(), home)
    assert robot.say(np.concatenate([home[:3], -home[3:]]))


def test_a_quaternion_that_says_no_orientation_contradicts():
    home = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    robot = Joint(pose_contract(), home)
    assert not robot.say(np.zeros(7), for_s=2 * FIRST_S)
    assert robot.gate.doubted(robot.belief).all()
    np.testing.assert_array_equal(robot.belief.position, home)
    assert robot.say(home)


def test_a_message_that_is_not_new_changes_nothing():
    joint = Joint()
    before = joint.belief
    assert joint.say(2.0, period_s=0.0)
    assert joint.belief is before
