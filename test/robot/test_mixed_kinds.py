# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm on a base: positions and velocities in one action vector, each treated by its kind at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import Measured, stop_controller
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.safety.guard import JOINT_LIMIT, SENSOR_AGE, VELOCITY_LIMIT
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    ns,
)
from support.robot.fed_playback import FedPlayback

ARM, BASE = JOINTS


def mixed_document(
    other: str = "velocity", command: str = FLOAT64_MULTI_ARRAY, **changes: Any
) -> dict[str, Any]:
    """Return the contract of a joint, commanded by position, on a base with actions of another kind."""
    document = contract_document() | changes
    document["actions"]["limits"][BASE]["kind"] = other
    document["commands"] = [
        {"topic": "arm", "type": command, "names": [ARM]},
        {"topic": "base", "type": FLOAT64_MULTI_ARRAY, "names": [BASE]},
    ]
    return document


def mixed(*arguments: Any, **named: Any) -> Contract:
    return parse_document(mixed_document(*arguments, **named), Contract, "mixed.contract.yaml")


class Robot(FedPlayback):
    """A playback that is fed, and what its two controllers get."""

    def __init__(
        self,
        other: str = "velocity",
        command: str = FLOAT64_MULTI_ARRAY,
        fallback: str = "hold",
        contract: Contract | None = None,
        **options: Any,
    ) -> None:
        super().__init__(contract or mixed(other, command), fallback, **options)
        self.see(0.0)

    def see(self, arm: float) -> None:
        """Measure the arm now. What stands in the base's column is no position and must not matter."""
        self.measure([arm, 77.0])

    def feed(self, *rows: tuple[float, float]) -> None:
        self.append(rows)

    def commanded(self, tick: Tick) -> dict[str, list[float]]:
        """Return what a tick publishes, by topic."""
        names = self.contract.actions.names
        return {
            sink.topic: [round(float(tick.command[names.index(sink.names[0])]), 6)]
            for sink in self.reached(tick)
        }

    def drive(self, arm: float = 0.05, base: float = 0.6) -> None:
        """Execute one row."""
        self.feed((arm, base))
        assert self.commanded(self.tick()) == {"arm": [arm], "base": [base]}
        self.see(arm)


def test_each_action_is_bounded_by_its_kind():
    """A position may change by a step; a velocity is bounded by itself, however it was before."""
    robot = Robot()
    robot.feed((0.05, 0.9), (0.5, -0.9))
    assert robot.commanded(robot.tick()) == {"arm": [0.05], "base": [0.9]}
    tick = robot.tick()
    assert robot.commanded(tick) == {"arm": [round(0.05 + MAX_STEP, 6)], "base": [-0.9]}
    assert tick.interventions == (VELOCITY_LIMIT,)


def test_a_velocity_beyond_its_limits_is_clamped_beside_a_position_within():
    robot = Robot()
    robot.feed((0.0, 4.0))
    tick = robot.tick()
    assert robot.commanded(tick) == {"arm": [0.0], "base": [1.0]}
    assert JOINT_LIMIT in tick.interventions


def test_an_effort_steps_from_zero_beside_a_position_that_steps_from_where_it_is_measured():
    robot = Robot("effort")
    robot.see(0.5)
    robot.feed((0.5, 1.0))
    assert robot.commanded(robot.tick()) == {"arm": [0.5], "base": [MAX_STEP]}


def test_a_base_stops_in_the_tick_in_which_the_arm_has_nothing_to_execute():
    robot = Robot()
    robot.drive()
    assert robot.commanded(robot.tick()) == {"base": [0.0]}


def test_a_base_under_an_arm_that_repeats_its_last_command_stops():
    robot = Robot(fallback="repeat_last")
    robot.drive()
    tick = robot.tick()
    assert tick.source is CommandSource.REPEAT_LAST
    assert robot.commanded(tick) == {"arm": [0.05], "base": [0.0]}


def test_the_stop_of_an_effort_is_no_step():
    robot = Robot("effort", fallback="repeat_last")
    for _ in range(8):
        robot.feed((0.05, 0.8))
        robot.tick()
        robot.see(0.05)
    tick = robot.tick()
    assert robot.commanded(tick) == {"arm": [0.05], "base": [0.0]}
    assert not tick.interventions


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_base_stops_when_nobody_knows_where_the_arm_is(fallback: str):
    robot = Robot(fallback=fallback)
    robot.drive()
    robot.playback.control.change(measured=None, forget=True)
    robot.feed((0.1, 0.9))
    tick = robot.tick()
    assert SENSOR_AGE in tick.interventions
    assert robot.commanded(tick) == {"base": [0.0]}


def test_stops_are_sent_several_times_and_then_nothing():
    robot = Robot()
    robot.drive()
    robot.playback.control.change(paused=True)
    stops = [robot.commanded(robot.tick()) for _ in range(12)]
    assert stops == 10 * [{"base": [0.0]}] + 2 * [{}]


def test_a_trajectory_ends_where_the_arm_is_while_the_base_stops():
    robot = Robot(command=JOINT_TRAJECTORY)
    robot.feed((0.05, 0.6), (0.1, 0.6), (0.15, 0.6))
    first = robot.tick()
    assert first.horizon is not None
    assert first.horizon[:, 0] == pytest.approx([0.05, 0.1, 0.15])
    robot.see(0.04)
    robot.playback.control.change(paused=True, forget=True)
    tick = robot.tick()
    assert tick.source is CommandSource.HOLD
    assert robot.commanded(tick)["base"] == [0.0]
    assert set(robot.commanded(tick)) == {"arm", "base"}


def test_a_base_stops_while_a_trajectory_cannot_be_ended_which_still_counts_as_in_force():
    robot = Robot(command=JOINT_TRAJECTORY)
    robot.feed(*[(0.01 * row, 0.6) for row in range(20)])
    robot.tick()
    robot.playback.control.change(paused=True, forget=True, lose=True, measured=None)
    before = robot.playback._state.sent.look_ahead.end_ns
    tick = robot.tick()
    assert robot.commanded(tick) == {"base": [0.0]}
    assert SENSOR_AGE in tick.interventions
    assert (
        robot.playback._state.sent.look_ahead.end_ns == before > robot.now_ns
    )  # the controller goes on executing it


def test_a_joint_that_was_stopped_by_hand_is_not_led_on_from_the_base_s_stops():
    """Zeros to the base are no command to the arm: its reference stays forgotten."""
    robot = Robot()
    robot.drive()
    robot.playback.control.change(paused=True, forget=True)
    robot.tick()
    robot.playback.control.change(paused=False)
    robot.see(0.8)
    robot.feed((0.0, 0.3))
    assert robot.commanded(robot.tick()) == {"arm": [round(0.8 - MAX_STEP, 6)], "base": [0.3]}


def test_a_base_is_never_astray():
    robot = Robot()
    for _ in range(3):
        robot.drive()
    assert robot.playback.not_following == ()


def test_the_arm_goes_home_and_the_base_stands():
    contract = mixed(home={"positions": [0.3], "duration_s": 0.5})
    robot = Robot(contract=contract)
    robot.drive()
    robot.playback.control.change(halted=True, wants_home=True)
    way = []
    while not robot.playback.finished:
        tick = robot.tick()
        way.append(robot.commanded(tick))
        robot.see(tick.command[0] if tick.command is not None else 0.3)
        assert len(way) < 100
    assert {tuple(commands["base"]) for commands in way} == {(0.0,)}
    assert [commands["arm"] for commands in way if "arm" in commands][-1] == [0.3]


def test_an_effort_beside_an_arm_that_goes_home_is_zero_from_the_first_tick_on():
    robot = Robot("effort", contract=mixed("effort", home={"positions": [0.3], "duration_s": 0.5}))
    robot.feed((0.05, MAX_STEP))
    robot.tick()
    robot.see(0.05)
    robot.playback.control.change(halted=True, wants_home=True)
    tick = robot.tick()
    assert tick.source is CommandSource.HOMING
    assert robot.commanded(tick)["base"] == [0.0]


def test_on_the_way_home_a_late_tick_waits_and_stops_the_base():
    """The watchdog may have stopped the arm meanwhile; its trajectory goes on for a period."""
    home = {"positions": [0.3], "duration_s": 0.5}
    robot = Robot(contract=mixed("velocity", JOINT_TRAJECTORY, home=home), **LATE)
    robot.feed(*[(0.0, 0.6)] * 5)
    robot.tick()
    robot.playback.control.change(halted=True, wants_home=True)
    tick = late_tick(robot)
    assert (tick.source, tick.in_force) == (CommandSource.ZERO, True)
    assert robot.commanded(tick) == {"base": [0.0]}
    robot.see(0.0)
    assert robot.tick().source is CommandSource.HOMING


def test_an_arm_goes_on_beside_a_base_without_a_controller_though_nobody_measures_it():
    """Only what holds a position may be elsewhere than where it was commanded."""
    robot = Robot()
    robot.drive()
    away(robot, "base")
    robot.playback.control.change(measured=None)
    robot.feed((0.1, 0.6))
    assert robot.commanded(robot.tick())["arm"] == [0.1]


def test_only_the_arm_is_compared_in_shadow_mode():
    robot = Robot(is_shadow=True)
    shadow = robot.playback.shadow
    assert shadow is not None
    robot.see(0.02)
    robot.feed((0.05, 0.6))
    robot.tick()
    assert shadow.error.largest == pytest.approx([0.03, 0.0])


def test_the_watchdog_stops_each_controller_by_its_kind():
    contract = mixed(command=JOINT_TRAJECTORY)
    arm, base = (stop_controller(contract, sink, {ARM: Measured(0.2)}) for sink in contract.commands)
    assert arm.outcome == "sent a hold of the measured position"
    assert base.outcome == "sent zero velocity"
    assert base.action is not None
    assert not base.action.any()


def test_foreseen_rows_pass_the_guard_as_they_will_be_checked():
    guard = Robot().guard
    rows = np.array([[0.05, 0.9], [0.1, -0.9], [0.9, -5.0]])
    foreseen = guard.foresee(rows, np.zeros(2))
    assert foreseen.actions == pytest.approx(np.array([[0.05, 0.9], [0.1, -0.9], [0.1 + MAX_STEP, -1.0]]))


# -- controllers that are away, joints that do not follow, late ticks ----------------------------------------

LATE = {"late_after_ns": int(1.5 * PERIOD_NS), "given_up_after_ns": ns(0.2) + PERIOD_NS}
COMMANDS = pytest.mark.parametrize("command", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])


def away(robot: Robot, topic: str) -> None:
    """Take a controller away, or with an empty topic bring all back."""
    robot.playback.listen(sink for sink in robot.contract.commands if sink.topic == topic)


@COMMANDS
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_base_that_was_out_of_reach_while_the_queue_ran_empty_is_stopped_when_it_is_back(
    fallback: str, command: str
):
    robot = Robot(fallback=fallback, command=command)
    robot.drive()
    away(robot, "base")
    for _ in range(20):
        robot.tick()
        robot.see(0.05)
    away(robot, "")
    assert robot.commanded(robot.tick())["base"] == [0.0]


@COMMANDS
def test_a_base_that_was_out_of_reach_during_a_pause_is_stopped_when_it_is_back(command: str):
    robot = Robot(command=command)
    robot.drive()
    robot.playback.control.change(paused=True)
    away(robot, "base")
    for _ in range(20):
        robot.tick()
        robot.see(0.05)
    away(robot, "")
    back = [robot.commanded(robot.tick()).get("base") for _ in range(12)]
    assert back[:10] == 10 * [[0.0]]
    assert back[10:] == [None, None]


def test_a_robot_that_gives_up_waits_for_no_base_that_is_away():
    robot = Robot()
    robot.drive()
    away(robot, "base")
    robot.playback.control.change(halted=True)
    for _ in range(10):
        robot.tick()
    assert robot.playback.finished


@COMMANDS
def test_a_base_stands_while_the_arm_does_not_follow_also_when_it_is_tried_again(command: str):
    robot = Robot(command=command)
    speeds = []
    for step in range(80):
        robot.feed((min(0.9, 0.05 * step), 0.6))
        robot.see(0.0)  # its drives are off
        tick = robot.tick()
        if robot.playback.not_following:
            speeds.append(robot.commanded(tick).get("base", [0.0]))
    assert len(speeds) > 30, "longer than the pause between two attempts"
    assert speeds == len(speeds) * [[0.0]]


def test_a_base_stands_while_the_arm_s_controller_is_away():
    robot = Robot()
    away(robot, "arm")
    robot.feed(*[(0.05 * step, 0.6) for step in range(10)])
    for _ in range(10):
        assert robot.commanded(robot.tick())["base"] == [0.0]
        robot.see(0.0)


def late_tick(robot: Robot) -> Tick:
    robot.now_ns += int(0.6 * PERIOD_NS)
    return robot.tick()


def test_where_every_tick_is_late_every_second_one_commands():
    robot = Robot(**LATE)
    robot.feed(*[(0.0, 0.6)] * 40)
    robot.tick()
    commanded = []
    for _ in range(8):
        robot.see(0.0)
        commanded.append("base" in robot.commanded(late_tick(robot)))
    assert commanded == 4 * [False, True]


def test_a_late_tick_does_not_wait_after_one_that_could_not_end_a_trajectory():
    """Two ticks in a row that command nothing would leave the arm to its rows for twice the time."""
    robot = Robot(command=JOINT_TRAJECTORY, **LATE)
    robot.feed(*[(0.05 * row, 0.0) for row in range(40)])
    robot.see(0.0)
    robot.tick()
    robot.playback.control.change(measured=None)
    robot.now_ns += ns(0.3)
    stuck = robot.tick()
    assert (stuck.source, stuck.in_force) == (CommandSource.ZERO, True), "nobody knows where the arm is"
    robot.now_ns += int(0.6 * PERIOD_NS)
    robot.see(0.3)
    assert robot.tick().source is CommandSource.CHUNK


def test_the_age_bound_ends_a_velocity_also_when_every_tick_is_late():
    robot = Robot(**LATE)
    robot.feed(*[(0.0, 0.6)] * 100)
    robot.tick()
    speed = [0.6]
    while robot.now_ns < ns(3.5):
        robot.see(0.0)
        speed = robot.commanded(late_tick(robot)).get("base", speed)
    assert speed == [0.0]


@pytest.mark.parametrize("stop", ["paused", "halted"])
def test_a_late_tick_stops_the_base_of_a_robot_whose_trajectory_waits(stop: str):
    robot = Robot(command=JOINT_TRAJECTORY, **LATE)
    robot.feed(*[(0.0, 0.6)] * 5)
    robot.tick()
    robot.playback.control.change(**{stop: True})
    tick = late_tick(robot)
    assert robot.commanded(tick) == {"base": [0.0]}
    assert tick.in_force
    for _ in range(30):
        robot.see(0.0)
        late_tick(robot)
    assert robot.playback.finished == (stop == "halted")


# -- contracts -----------------------------------------------------------------------------------------------


def problem_of(document: dict[str, Any]) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_document(document, Contract, "mixed.contract.yaml")
    return str(caught.value)


def test_a_controller_takes_actions_of_one_kind():
    document = mixed_document()
    document["commands"] = [{"topic": "all", "type": FLOAT64_MULTI_ARRAY, "names": list(JOINTS)}]
    assert "all takes position and velocity actions, expected one kind for each controller" in problem_of(
        document
    )


def test_a_trajectory_controller_takes_positions_of_a_mixed_vector_alone():
    document = mixed_document()
    document["commands"][1]["type"] = JOINT_TRAJECTORY
    assert "base takes a JointTrajectory, expected actions of kind position, found velocity" in problem_of(
        document
    )


def test_positions_alone_need_a_measured_one():
    state = [
        {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "position", "names": [ARM]}
    ]
    assert mixed(state=state).measured_actions == (ARM,)
    state[0]["names"] = [BASE]
    assert f"state holds no position of {ARM}" in problem_of(mixed_document(state=state))


def test_a_velocity_needs_a_range_with_zero_beside_positions_that_do_not():
    document = mixed_document()
    document["actions"]["limits"][ARM] |= {"min": 0.1}
    parse_document(document, Contract, "mixed.contract.yaml")
    document["actions"]["limits"][BASE] |= {"min": 0.1}
    assert f"limits.{BASE}: found 0.1 to 1.0 for velocity actions" in problem_of(document)


def test_home_has_a_target_for_each_position():
    home = {"positions": [0.1, 0.2], "duration_s": 1.0}
    assert "home.positions has 2 values, expected 1" in problem_of(mixed_document(home=home))


def test_each_action_has_the_unit_of_its_kind():
    actions = mixed().actions
    assert [actions.unit(name) for name in JOINTS] == ["rad", "rad/s"]


@pytest.mark.parametrize(
    ("kinds", "safe"),
    [
        (("position", "velocity"), {"hold", "repeat_last"}),
        (("velocity", "effort"), {"zero"}),
        (("effort", "position"), {"hold", "repeat_last"}),
        (("position", "switch"), {"hold", "repeat_last"}),
        (("switch", "velocity"), {"zero"}),
        (("switch",), {"hold", "repeat_last", "zero"}),
    ],
)
def test_the_fallback_of_a_mixed_vector_is_safe_for_what_moves(kinds: tuple[str, ...], safe: set[str]):
    for fallback in ("hold", "repeat_last", "zero"):
        config = RobotConfig(servers=("/a",), fallback=fallback)
        if fallback in safe:
            config.check_fallback(*kinds)
        else:
            with pytest.raises(ValueError, match=f"^fallback: found '{fallback}'"):
                config.check_fallback(*kinds)
