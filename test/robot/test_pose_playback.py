# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot commanded by poses: it holds like one of positions, and each pose is judged as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.motion.estimate import RETRY_NS, find_start
from remote_inference.robot.motion.rules import LAG_S
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.queue.action_queue import MergeMode
from remote_inference.robot.safety.guard import FOLLOWING_ERROR, ORIENTATION, SENSOR_AGE
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, PERIOD_NS, make_source, ns
from support.robot.motions import FollowingWatch, Motion
from support.robot.playbacks import make_queue, make_rules
from support.robot.pose_robot import (
    ARC,
    POSE,
    SPEED,
    STEP,
    TURN,
    PoseRobot,
    angle_of,
    pose_at,
    pose_command,
    pose_contract,
    pose_document,
    pose_section,
    pose_state,
)
from support.robot.steps import Steps

JOINT_STATE = "sensor_msgs/msg/JointState"


def mixed(kind: str, command: str = FLOAT64_MULTI_ARRAY) -> Contract:
    """Return the contract of a pose beside one action of another kind, called `other`."""
    document = pose_document()
    document["actions"]["names"].append("other")
    limit: dict[str, Any] = {"kind": kind, "min": -1.0, "max": 1.0}
    is_switch = kind == "switch"
    limit |= {"opens_below": -0.2, "closes_above": 0.2} if is_switch else {"max_velocity": 2.0}
    document["actions"]["limits"] = {"other": limit}
    document["state"].append(
        {"topic": "joints", "type": JOINT_STATE, "field": "position", "names": ["other"]}
    )
    document["commands"].append({"topic": "other", "type": command, "names": ["other"]})
    return pose_contract(document)


# -- moving and holding --------------------------------------------------------------------------------------


def test_the_first_step_begins_where_the_pose_is_measured():
    robot = PoseRobot()
    robot.see(pose_at(x=0.3, angle=1.0))
    robot.feed(pose_at())
    command = robot.tick().command
    assert command is not None
    assert angle_of(command, pose_at(angle=1.0)) == pytest.approx(min(ARC, 1.0 * STEP / 0.3), abs=1e-6)
    assert np.linalg.norm(command[:3] - [0.3, 0.0, 0.0]) == pytest.approx(STEP)


@pytest.mark.parametrize("measured", [None, np.zeros(7)])
def test_nothing_is_commanded_while_no_pose_is_measured(measured: np.ndarray | None):
    """Drivers publish zeros before they know where their robot is: no orientation."""
    robot = PoseRobot()
    robot.playback.control.change(measured=measured, measured_ns=0)
    robot.feed(pose_at())
    tick = robot.tick()
    assert tick.command is None
    assert tick.interventions == (SENSOR_AGE,)


def test_a_measured_quaternion_may_have_another_sign_and_length():
    robot = PoseRobot()
    robot.feed(*[pose_at(x=0.005 * place) for place in range(12)])
    for place in range(12):
        measured = pose_at(x=0.005 * place, sign=-1.0)
        measured[3:] *= 1.01
        robot.see(measured)
        tick = robot.tick()
        assert tick.source is CommandSource.CHUNK
        assert tick.interventions == ()
    assert robot.playback.not_following == ()


def test_a_row_that_says_no_orientation_is_not_executed():
    robot = PoseRobot()
    robot.feed(pose_at(x=0.01), np.zeros(7), pose_at(x=0.02))
    sources = [robot.tick() for _ in range(3)]
    assert [tick.source for tick in sources] == [
        CommandSource.CHUNK,
        CommandSource.NONE,
        CommandSource.CHUNK,
    ]
    assert sources[1].interventions == (ORIENTATION,)


def test_a_pose_is_held_by_silence():
    robot = PoseRobot()
    robot.feed(pose_at(x=0.01))
    assert robot.sent(robot.tick()) == ["target_pose"]
    for _ in range(20):
        assert robot.sent(robot.tick()) == []
    assert robot.playback.starved == "queue empty"


def test_repeat_last_commands_the_last_pose_again():
    robot = PoseRobot(fallback="repeat_last")
    robot.feed(pose_at(x=0.01, angle=0.05))
    robot.tick()
    for _ in range(20):
        tick = robot.tick()
        assert robot.sent(tick) == ["target_pose"]
        assert tick.command == pytest.approx(pose_at(x=0.01, angle=0.05), abs=1e-7)
        assert tick.interventions == ()


@pytest.mark.parametrize("order", [{"paused": True}, {"halted": True}, {"paused": True, "lose": True}])
def test_a_pause_or_an_end_sends_a_pose_nothing(order: dict[str, Any]):
    robot = PoseRobot()
    robot.feed(*5 * [pose_at(x=0.01)])
    robot.tick()
    robot.playback.control.change(**order)
    for _ in range(20):
        assert robot.sent(robot.tick()) == []
    assert robot.playback.finished == ("halted" in order)


def test_after_a_pause_the_pose_goes_on_from_where_it_was_moved_to():
    robot = PoseRobot()
    robot.feed(pose_at(x=0.01))
    robot.tick()
    robot.playback.control.change(paused=True)
    robot.tick()
    robot.see(pose_at(x=0.3, angle=2.0, sign=-1.0))
    robot.playback.control.change(paused=False, forget=True)
    robot.now_ns += ns(0.2)
    robot.see(pose_at(x=0.3, angle=2.0, sign=-1.0))
    robot.feed(pose_at(x=0.3, angle=2.0))
    command = robot.tick().command
    assert command == pytest.approx(pose_at(x=0.3, angle=2.0), abs=1e-6), (
        "with the sign of the command before"
    )


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_a_pose_holds_while_what_goes_on_beside_it_gets_zero(kind: str):
    robot = PoseRobot(mixed(kind))
    robot.feed(np.array([*pose_at(x=0.01), 0.1]))
    robot.see(np.array([*pose_at(), 0.0]))
    assert robot.sent(robot.tick()) == ["target_pose", "other"]
    for _ in range(10):
        tick = robot.tick()
        assert tick.source is CommandSource.ZERO
        assert robot.sent(tick) == ["other"]
        assert tick.command is not None
        assert tick.command == pytest.approx([*pose_at(x=0.01), 0.0], abs=1e-7)
    assert robot.sent(robot.tick()) == []


def test_a_hold_of_trajectories_sends_a_pose_nothing():
    robot = PoseRobot(mixed("position", JOINT_TRAJECTORY))
    robot.see(np.array([*pose_at(), 0.0]))
    robot.feed(*[np.array([*pose_at(x=0.01 * place), 0.01 * place]) for place in range(3)])
    tick = robot.tick()
    assert tick.horizon is not None
    assert tick.horizon[:, 0] == pytest.approx([0.0, 0.01, 0.02])
    robot.playback.control.change(paused=True)
    tick = robot.tick()
    assert tick.source is CommandSource.HOLD
    assert robot.sent(tick) == ["other"]


def test_a_switch_beside_a_pose_that_does_not_follow_stays():
    robot = PoseRobot(mixed("switch"))
    robot.see(np.array([*pose_at(), np.nan]))
    robot.feed(np.array([*pose_at(x=0.01), 0.9]))
    assert robot.tick().command[7] == 1.0
    robot.playback.listen(sink for sink in robot.contract.commands if sink.topic == "target_pose")
    robot.see(np.array([*pose_at(x=0.01), np.nan]))
    robot.feed(np.array([*pose_at(x=0.01), -0.9]))
    assert robot.tick().command[7] == 1.0


def test_a_pose_whose_controller_comes_back_begins_where_it_is_measured():
    robot = PoseRobot()
    robot.feed(*8 * [pose_at(x=0.01)])
    robot.tick()
    robot.playback.listen(robot.contract.commands)
    robot.stuck = True
    for _ in range(3):
        robot.see(pose_at(y=0.4, angle=1.0))
        robot.tick()
    robot.playback.listen(())
    robot.see(pose_at(y=0.4, angle=1.0))
    command = robot.tick().command
    assert np.linalg.norm(command[:3] - [0.0, 0.4, 0.0]) <= STEP + 1e-9
    assert angle_of(command, pose_at(angle=1.0)) <= ARC + 1e-9


def test_a_gentle_begin_slows_line_and_arc():
    robot = PoseRobot(ramp_begin=0.25, ramp_ns=ns(1000.0))
    robot.playback.control.change(blend_in=True)
    robot.feed(pose_at(x=0.4, angle=1.0))
    command = robot.tick().command
    assert max(command[0] / STEP, angle_of(command, pose_at()) / ARC) == pytest.approx(0.25)


def test_a_person_commands_poses_within_the_guard():
    human = HumanCommands(0.5)
    robot = PoseRobot(human=human)
    robot.playback.control.change(taken_over=True)
    human.deposit(2.0 * pose_at(x=0.1, angle=0.5, sign=-1.0), 0)  # a quaternion of length 2
    tick = robot.tick()
    assert tick.source is CommandSource.HUMAN
    assert tick.command[0] == pytest.approx(STEP)
    human.deposit(np.zeros(7), robot.now_ns)
    assert robot.tick().interventions == (ORIENTATION,)


def test_shadow_mode_compares_orientations_of_one_sign():
    robot = PoseRobot(is_shadow=True)
    shadow = robot.playback.shadow
    assert shadow is not None
    robot.feed(*5 * [pose_at(x=0.01, angle=0.1)])
    for _ in range(5):
        robot.see(pose_at(x=0.01, angle=0.1, sign=-1.0))
        tick = robot.tick()
        assert tick.shadow
    assert shadow.error.ticks == 5
    assert shadow.error.largest == pytest.approx(np.zeros(7), abs=1e-6)


# -- between the policy's rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_orientations_go_along_the_arc_between_two_rows(sign: float):
    ticks = 4
    robot = PoseRobot(pose_contract(ticks_per_row=ticks, max_velocity=10.0, max_angular_velocity=100.0))
    robot.feed(pose_at(), pose_at(x=0.2, angle=2.0, sign=sign))
    commands = [robot.tick().command for _ in range(ticks + 1)]
    expected = [pose_at(x=0.05 * place, angle=0.5 * place) for place in range(ticks + 1)]
    assert np.array(commands) == pytest.approx(np.array(expected), abs=1e-6)


def test_without_interpolation_a_pose_keeps_its_row():
    document = pose_document(ticks_per_row=4, max_velocity=100.0, max_angular_velocity=500.0)
    robot = PoseRobot(pose_contract(document | {"interpolation": "none"}))
    robot.feed(pose_at(), pose_at(x=0.2, angle=2.0))
    commands = [robot.tick().command for _ in range(5)]
    assert np.array(commands)[:, 0] == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.2])


SHORT = 0.05 * pose_at(x=8.0, angle=1.0)  # its quaternion says no orientation


@pytest.mark.parametrize("bad", [np.zeros(7), SHORT])
def test_no_way_leads_to_or_from_a_row_that_says_no_orientation(bad: np.ndarray):
    ticks_per_row, good = 5, pose_at(x=0.3, y=0.3)
    robot = PoseRobot(pose_contract(ticks_per_row=ticks_per_row))
    robot.see(good)
    robot.feed(good, bad, bad, good)
    ticks = [robot.tick() for _ in range(4 * ticks_per_row)]
    before, between, after = ticks[:5], ticks[5:15], ticks[15:]
    for tick in before + after:
        assert tick.command == pytest.approx(good, abs=1e-7)
        assert tick.interventions == ()
    assert {tick.interventions for tick in between} == {(ORIENTATION,)}
    assert {tick.source for tick in between} == {CommandSource.NONE}
    assert robot.guard.counts[ORIENTATION] == len(between)


def test_a_way_ends_where_it_is_when_the_next_row_now_says_no_orientation():
    robot = PoseRobot(pose_contract(ticks_per_row=4))
    robot.feed(pose_at(), pose_at(x=0.008))
    for _ in range(3):
        present = robot.tick().command
    robot.queue.clear()
    robot.feed(np.zeros(7))
    tick = robot.tick()
    assert tick.command == pytest.approx(present)
    assert tick.row_fraction == 0.75
    assert robot.tick().interventions == (ORIENTATION,)


@pytest.mark.parametrize("played", range(6))
def test_what_is_foreseen_of_poses_comes_true(played: int):
    contract = pose_contract(ticks_per_row=3)
    queue = make_queue(contract)
    masks = ActionMasks.of(contract.actions)
    steps = Steps(queue, 3, is_linear=True, masks=masks)
    rows = np.array([pose_at(), np.zeros(7), pose_at(x=0.1), pose_at(angle=1.0), SHORT], np.float32)
    queue.merge(make_source(), rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)
    for _ in range(played):
        steps.step()
    foreseen = steps.foresee()
    assert len(foreseen.points)
    for point in foreseen.points:
        step = steps.step()
        assert step is not None
        assert step.point.tolist() == point.tolist()


# -- following -----------------------------------------------------------------------------------------------

LED = np.ones(7, bool)


def watch_of(**pose: Any) -> FollowingWatch:
    return FollowingWatch(pose_contract(**pose))


def look(watch: FollowingWatch, command: np.ndarray, measured: np.ndarray, **changes: float) -> list[bool]:
    """Return whether the pose is led on, by each of its columns."""
    now = {"age_s": 0.0, "now_ns": 0} | changes
    ages_s = np.full(7, now["age_s"])
    return watch.look(command, measured, LED, ages_s=ages_s, now_ns=int(now["now_ns"]))[1].tolist()


@pytest.mark.parametrize(
    ("near", "far"),
    [
        (pose_at(x=0.99 * LAG_S * SPEED), pose_at(x=1.01 * LAG_S * SPEED)),
        (pose_at(angle=0.99 * LAG_S * TURN), pose_at(angle=-1.01 * LAG_S * TURN)),
    ],
)
def test_a_pose_is_astray_as_a_whole_by_its_distance_or_its_angle(near: np.ndarray, far: np.ndarray):
    watch = watch_of()
    assert look(watch, near, pose_at()) == 7 * [False]
    assert watch.not_following == ()
    assert look(watch, far, pose_at()) == 7 * [True]
    assert watch.not_following == ("tool",)


def test_the_bounds_of_the_contract_hold_for_distance_and_angle():
    watch = watch_of(max_following_error=0.02, max_following_angle=0.3)
    assert look(watch, pose_at(x=0.019, angle=0.29), pose_at()) == 7 * [False]
    assert look(watch, pose_at(x=0.021), pose_at()) == 7 * [True]
    watch.forget()
    assert look(watch, pose_at(angle=0.31), pose_at()) == 7 * [True]


def test_of_two_poses_the_one_that_does_not_follow_is_named():
    document = pose_document()
    other = [f"other_{name}" for name in POSE]
    document["actions"]["names"] += other
    document["actions"]["poses"]["other"] = pose_section(other, max_following_error=0.01)
    document["state"].append(pose_state("other_pose", other))
    document["commands"].append(pose_command("other_target", other))
    watch = FollowingWatch(pose_contract(document))
    still, near = np.array([*pose_at(), *pose_at()]), pose_at(x=0.02)
    led = np.ones(14, bool)
    lost, blocked = watch.look(np.array([*near, *near]), still, led, ages_s=np.zeros(14), now_ns=0)
    assert watch.not_following == ("other",)
    assert lost.tolist() == blocked.tolist() == [*7 * [False], *7 * [True]]


def test_the_distance_is_that_of_the_line_not_of_each_axis():
    watch = watch_of(max_following_error=0.1)
    assert look(watch, pose_at(0.07, 0.07, 0.07), pose_at()) == 7 * [True]


def test_what_a_pose_may_have_moved_since_it_was_measured_is_no_error():
    watch = watch_of()
    assert look(watch, pose_at(x=1.5 * LAG_S * SPEED), pose_at(), age_s=0.6 * LAG_S) == 7 * [False]
    assert look(watch, pose_at(angle=1.5 * LAG_S * TURN), pose_at(), age_s=0.6 * LAG_S) == 7 * [False]


@pytest.mark.parametrize(
    ("still", "moved"),
    [
        (pose_at(y=0.9 * STEP), pose_at(y=1.1 * STEP)),
        (pose_at(angle=0.9 * ARC), pose_at(angle=-1.1 * ARC)),
    ],
)
def test_a_pose_that_has_moved_or_turned_by_a_step_follows_again(still: np.ndarray, moved: np.ndarray):
    watch = watch_of()
    far = pose_at(x=0.4)
    look(watch, far, pose_at())
    assert look(watch, far, still) == 7 * [True]
    lost, blocked = watch.look(far, moved, np.zeros(7, bool), ages_s=np.zeros(7), now_ns=1)
    assert not blocked.any()
    assert lost.all(), "the next step begins where it is"
    assert watch.not_following == ()


def test_a_pose_that_does_not_follow_is_named_and_led_nowhere():
    robot = PoseRobot()
    robot.stuck = True
    robot.feed(*60 * [pose_at(x=0.4)])
    ticks = []
    for _ in range(20):
        robot.see(pose_at())
        ticks.append(robot.tick())
    assert robot.playback.not_following == ("tool",)
    assert robot.playback.starved == "tool: the arm does not follow"
    assert ticks[-1].interventions == (FOLLOWING_ERROR,)
    furthest = max(tick.command[0] for tick in ticks if tick.command is not None)
    assert furthest <= LAG_S * SPEED + 2.0 * STEP
    robot.now_ns += RETRY_NS
    robot.see(pose_at())
    robot.feed(pose_at(x=0.4))
    command = robot.tick().command
    assert command[0] == pytest.approx(STEP), "it is tried again by a step from where it is"


# -- where a step begins -------------------------------------------------------------------------------------


def test_a_pose_is_lost_as_a_whole():
    motion = Motion(make_rules(mixed("position")))
    last, measured = np.array([*pose_at(x=0.1), 0.5]), np.array([*pose_at(y=0.2, angle=1.0), 0.7])
    motion.unsubscribed = np.arange(8) == POSE.index("qy")
    motion.estimate()
    motion.follow(*last)
    assert motion.state.joints.unknown.tolist() == [*7 * [True], False]
    assert find_start(motion.state, measured, motion.rules) == pytest.approx([*measured[:7], 0.5])
    assert find_start(motion.state, None, motion.rules) is None


def test_a_late_tick_finds_the_pose_where_it_is_measured():
    robot = PoseRobot(given_up_after_ns=4 * PERIOD_NS)
    robot.feed(*30 * [pose_at(x=0.1)])
    robot.tick()
    robot.now_ns += ns(1.0)
    robot.see(pose_at(y=0.3))
    command = robot.tick().command
    assert command is not None
    assert np.linalg.norm(command[:3] - [0.0, 0.3, 0.0]) <= STEP + 1e-9
