# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot that gives up goes home if its contract has a home: within the guard, once, and not when paused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.actions import Home
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import STOPS, max_stopping_s
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.engine import Engine
from remote_inference.robot.motion.rules import END_MARGIN_S
from remote_inference.robot.motion.state import Homing
from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.safety.guard import FOLLOWING_ERROR, SENSOR_AGE
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    make_config,
    make_contract,
    make_spec,
    ns,
)
from support.robot.fed_playback import FedPlayback
from support.robot.simulation import World, stopped, streaming

HOME = (0.5, -0.25)
MASKS = ActionMasks.of(make_contract().actions)
FAR = (0.9, -0.9)  # farther than an arm may be from its command


def contract_with_home(
    duration_s: float = 1.0,
    home: tuple[float, float] = HOME,
    command: str = FLOAT64_MULTI_ARRAY,
    *,
    takeover: bool = False,
) -> Contract:
    document = contract_document() | {"home": {"positions": list(home), "duration_s": duration_s}}
    if takeover:
        document["takeover"] = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    document["commands"][0]["type"] = command
    return parse_document(document, Contract, "test.contract.yaml")


def die(world: World) -> World:
    """Let a streaming robot lose its server for ever."""
    streaming(world)
    world.server.up = False
    return world.run_until(lambda: stopped(world))


def homing_ticks(world: World) -> list[np.ndarray]:
    return [tick.command for _, tick in world.ticks if tick.source is CommandSource.HOMING]


def home_world(duration_s: float = 1.0, fallback: str = "hold", **options: Any) -> World:
    config = make_config(max_offline_s=1.0, fallback=fallback)
    return World(config, contract=contract_with_home(duration_s, **options))


def test_the_path_begins_at_rest_at_the_start_and_ends_at_rest_at_home():
    start = np.array([-0.5, 0.75])
    homing = Homing(start, Home(positions=HOME, duration_s=2.0), ns(10), MASKS)
    assert homing.target(ns(10)) == pytest.approx(start)
    assert homing.target(ns(11)) == pytest.approx((start + HOME) / 2)
    assert homing.target(ns(12)) == pytest.approx(HOME)
    assert homing.target(ns(99)) == pytest.approx(HOME)
    for at_rest_ns, sign in ((ns(10), 1), (ns(12), -1)):
        step = homing.target(at_rest_ns + sign * ns(0.02)) - homing.target(at_rest_ns)
        assert np.abs(step).max() < 1e-4


@given(st.floats(0.0, 3.0))
def test_the_path_is_straight_and_monotone(at_s: float):
    homing = Homing(np.zeros(2), Home(positions=HOME, duration_s=2.0), 0, MASKS)
    now, later = homing.target(ns(at_s)), homing.target(ns(at_s + 0.01))
    assert now[1] == pytest.approx(now[0] * HOME[1] / HOME[0])
    assert later[0] >= now[0]


@pytest.mark.parametrize(("off", "reached"), [(0.0, True), (0.9e-6, True), (1.1e-6, False)])
def test_a_command_is_home_within_a_millionth_of_each_joint_s_unit(off: float, reached: bool):
    homing = Homing(np.zeros(2), Home(positions=HOME, duration_s=2.0), 0, MASKS)
    for joint in range(2):
        command = np.array(HOME)
        command[joint] += off
        assert homing.reached(command) is reached


@pytest.mark.parametrize(
    ("duration_s", "fps", "longest_s"), [(0.1, 20.0, 1.1), (7.0, 20.0, 8.0), (7.0, 40.0, 7.5)]
)
def test_the_way_home_may_lead_from_one_limit_to_the_other(duration_s: float, fps: float, longest_s: float):
    """fps: with it the velocity limits grow."""
    home = Home(positions=HOME, duration_s=duration_s)
    assert Homing.longest_s(home, make_contract(fps=fps).actions) == pytest.approx(longest_s)


def test_a_robot_that_was_driven_goes_home_when_it_gives_up_and_is_finished_there():
    world = die(home_world())
    assert not world.engine.playback.finished
    world.run_until(lambda: world.engine.playback.finished)
    assert world.position == pytest.approx(HOME)
    count = len(homing_ticks(world))
    assert 20 <= count - (STOPS - 1) <= 22  # one second at 20 Hz
    world.run(2)
    assert len(homing_ticks(world)) == count
    assert world.engine.playback.stranded == ""


def test_home_is_commanded_several_times_because_the_last_command_may_be_lost():
    world = die(home_world())
    world.run_until(lambda: world.engine.playback.finished)
    commands = np.stack(homing_ticks(world))
    is_home = np.isclose(commands, HOME, rtol=0.0, atol=1e-6).all(axis=1)
    assert is_home.tolist() == [False] * (len(commands) - STOPS) + [True] * STOPS


def test_a_way_home_that_is_planned_too_fast_is_slowed_down_by_the_guard_and_still_ends_there():
    world = die(home_world(duration_s=0.1))
    begin = world.position.copy()
    world.run_until(lambda: world.engine.playback.finished)
    path = np.stack([begin, *homing_ticks(world)])
    assert (np.abs(np.diff(path, axis=0)) <= MAX_STEP + 1e-9).all()
    assert world.position == pytest.approx(HOME)
    assert world.engine.guard.counts["velocity_limit"] > 0


def test_a_robot_without_a_home_stays_where_it_is():
    world = die(World(make_config(max_offline_s=1.0)))
    position = world.position.copy()
    world.run(3)
    assert homing_ticks(world) == []
    assert world.position == pytest.approx(position)
    assert world.engine.playback.finished
    assert world.engine.playback.stranded == ""


def test_a_robot_that_this_node_never_moved_is_not_moved_at_the_end_either():
    world = home_world()
    world.server.spec = make_spec(action_names=("elbow", "shoulder"))
    world.run_until(lambda: world.engine.dead)
    world.run(3)
    assert homing_ticks(world) == []
    assert world.engine.playback.finished
    assert world.engine.playback.stranded == "this node never commanded it"


def test_a_paused_robot_is_not_moved():
    world = streaming(home_world())
    world.pause()
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    world.run(3)
    assert homing_ticks(world) == []
    assert world.engine.playback.finished


def test_a_robot_that_is_paused_goes_nowhere_whatever_it_wanted():
    robot = FedPlayback(contract_with_home())
    robot.measure([0.0, 0.0])
    robot.append([[0.0, 0.0]])
    robot.tick()
    robot.playback.control.change(halted=True, wants_home=True, paused=True)
    assert robot.tick().command is None
    assert robot.playback.finished


def test_pause_ends_the_way_home():
    world = die(home_world(duration_s=10.0))
    world.run(1)
    world.pause()
    count = len(homing_ticks(world))
    world.run(3)
    assert count
    assert len(homing_ticks(world)) == count
    assert world.state is State.DEAD
    assert world.engine.playback.finished


LATE_ORDERS: dict[str, Callable[[World], str]] = {
    "resume": World.resume,
    "take over": World.take_over,
    "release": World.release,
    "clear a stop": World.clear_stop,
}
each_late_order = pytest.mark.parametrize("order", LATE_ORDERS.values(), ids=LATE_ORDERS)


@each_late_order
def test_a_paused_robot_that_gave_up_carries_out_no_order_that_was_called_before(
    order: Callable[[World], str],
):
    world = streaming(home_world(takeover=True))
    if order is World.release:
        world.take_over()
    world.pause()
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    taken_over = world.engine.taken_over
    assert order(world) == "stopped: another policy"
    assert world.engine.paused
    assert world.engine.taken_over is taken_over
    world.run(3)
    assert homing_ticks(world) == []


def test_a_robot_on_its_way_home_is_not_taken_over():
    world = die(home_world(duration_s=10.0, takeover=True))
    world.run(1)
    assert world.take_over() == "stopped: no server for 1 s"
    assert not world.engine.taken_over


@pytest.mark.parametrize("resumed_before_a_tick", [True, False])
def test_a_pause_ends_the_way_home_for_good(resumed_before_a_tick: bool):
    world = die(home_world(duration_s=10.0))
    world.run(1)
    world.pause()
    if not resumed_before_a_tick:
        world.run(0.1)
    count = len(homing_ticks(world))
    world.engine.control.resume(None, world.now_ns)  # whoever might
    world.run(3)
    assert len(homing_ticks(world)) == count
    assert world.engine.playback.finished


def test_a_robot_that_was_halted_does_not_go_home_when_it_gives_up():
    """Its node ends."""
    world = streaming(home_world())
    world.engine.halt_at_once()
    world.server.up = False
    world.run_until(lambda: stopped(world))
    world.run(3)
    assert homing_ticks(world) == []


def test_after_a_reset_the_way_home_begins_where_the_arm_is_measured():
    """Somebody may have moved it since the last command."""
    world = streaming(home_world())
    world.server.up = False
    world.reset()
    world.run(0.1)
    world.position = np.array([0.9, 0.9])
    world.run_until(lambda: stopped(world))
    world.run_until(lambda: bool(homing_ticks(world)))
    assert homing_ticks(world)[0] == pytest.approx([0.9, 0.9], abs=0.01)


def test_a_robot_that_does_not_hear_is_not_sent_home():
    """Its controller could come back in the middle of the way."""
    world = die(home_world(duration_s=10.0))
    world.run_until(lambda: bool(homing_ticks(world)))
    world.heard = False
    count = len(homing_ticks(world))
    world.run(3)
    assert len(homing_ticks(world)) == count
    assert world.engine.playback.finished
    assert world.engine.playback.stranded == "no controller hears its commands"


def test_an_arm_whose_place_is_unknown_is_not_moved():
    world = streaming(home_world())
    world.server.up = False
    world.reset()
    world.sensors = dict.fromkeys(world.sensors, False)
    world.run_until(lambda: stopped(world))
    counted = world.engine.guard.counts[SENSOR_AGE]
    world.run(3)
    assert homing_ticks(world) == []
    assert world.engine.guard.counts[SENSOR_AGE] == counted + 1
    assert world.engine.playback.finished
    assert world.engine.playback.stranded == "it has not been measured lately"


def going_home(world: World) -> World:
    """Let a robot give up and go on its way for a moment."""
    die(world)
    world.run_until(lambda: len(homing_ticks(world)) > 6)
    return world


def test_an_arm_that_stops_following_on_the_way_home_is_not_led_on():
    """The world judges each step against where the arm is."""
    world = going_home(home_world(duration_s=2.0, home=FAR))
    world.driven = False
    world.run(4)
    assert np.abs(homing_ticks(world)[-1] - world.position).max() <= world.max_following_error + MAX_STEP
    assert homing_ticks(world)[-1] != pytest.approx(FAR)
    assert world.engine.guard.counts[FOLLOWING_ERROR] == 1
    assert world.engine.playback.finished
    assert world.engine.playback.stranded.endswith(": it does not follow its commands")


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_a_robot_that_does_not_follow_when_it_gives_up_is_not_sent_home(fallback: str):
    """Not when the joint is due for another try either."""
    world = streaming(home_world(fallback=fallback, home=FAR))
    world.driven = False
    world.run_until(lambda: bool(world.engine.playback.not_following), limit_s=5)
    world.server.up = False
    world.run_until(lambda: stopped(world))
    world.run(10)
    assert homing_ticks(world) == []
    assert world.engine.playback.finished


def test_a_way_home_ends_when_nobody_measures_the_arm_any_more():
    world = going_home(home_world(duration_s=10.0))
    world.sensors = dict.fromkeys(world.sensors, False)
    silent_ns = world.now_ns
    world.run(5)
    last_ns = [at_ns for at_ns, tick in world.ticks if tick.command is not None][-1]
    assert last_ns - silent_ns <= ns(world.config.max_sensor_age_s) + PERIOD_NS
    assert world.engine.playback.finished


def test_a_robot_that_was_frozen_on_the_way_home_stays_where_it_is():
    world = going_home(home_world(duration_s=10.0))
    assert world.engine.play(world.now_ns + ns(4.0), ()).command is None
    assert world.engine.playback.finished
    reason = world.engine.playback.stranded
    assert reason == "it has not been measured since its control thread stood still for 4.00 s"


@pytest.mark.parametrize("command", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])
def test_a_tick_whose_command_did_not_leave_interrupts_the_way_home_until_the_arm_is_measured(command: str):
    """It has stood still for a moment, and the arm is where it was, or on its way to the command before."""
    robot = FedPlayback(contract_with_home(duration_s=0.5, command=command))
    robot.measure([0.0, 0.0])
    robot.append([[0.0, 0.0]])
    at = robot.tick().command
    robot.playback.control.halt(wants_home=True)
    sources = []
    while not robot.playback.finished:
        was_withheld = len(sources) == 4
        if was_withheld:
            robot.playback.control.change(lose=True, withhold=True)
        else:
            robot.measure(at)
        tick = robot.tick()
        sources.append(tick.source)
        if tick.source is CommandSource.HOMING and len(sources) != 4:
            assert np.abs(tick.command - at).max() <= MAX_STEP + 1e-9
            at = tick.command
    assert sources[:6] == [CommandSource.HOMING] * 4 + [CommandSource.NONE, CommandSource.HOMING]
    assert at == pytest.approx(HOME)
    assert robot.playback.stranded == ""


def test_trajectory_controllers_of_an_arm_that_does_not_follow_are_told_to_stay_where_it_is():
    world = going_home(home_world(duration_s=2.0, home=FAR, command=JOINT_TRAJECTORY))
    world.driven = False
    world.run(4)
    last = [tick for _, tick in world.ticks if tick.command is not None][-STOPS:]
    assert {tick.source for tick in last} == {CommandSource.HOLD}
    astray = np.array([name in world.engine.playback.not_following for name in JOINTS])
    assert astray.any()
    assert last[-1].command[astray] == pytest.approx(world.position[astray])


ENDS: dict[str, Callable[[Engine], None]] = {
    "a pause": Engine.pause_at_once,
    "a stop": lambda engine: engine.stops.latch("too many clamped commands"),
    "the node's end": Engine.halt_at_once,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_whoever_ends_the_way_home_trajectory_controllers_are_told_to_stay(end: Callable[[Engine], None]):
    world = going_home(home_world(duration_s=10.0, home=FAR, command=JOINT_TRAJECTORY))
    end(world.engine)
    assert not world.engine.playback.finished, "the process lives until they were"
    ended_ns = world.now_ns
    world.run(2)
    assert [tick.source for tick in world.commands_since(ended_ns)] == [CommandSource.HOLD] * STOPS
    assert world.engine.playback.finished


def test_trajectory_controllers_that_were_brought_home_are_not_told_to_stay_short_of_it():
    """Home was commanded as often as a stop is, and an arm that lags is not there yet."""
    world = streaming(home_world(command=JOINT_TRAJECTORY))
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    world.run_until(lambda: world.engine.playback.finished)
    ended_ns = world.now_ns
    world.run(2)
    assert world.commands_since(ended_ns) == []
    last = [tick for _, tick in world.ticks if tick.command is not None][-STOPS:]
    assert {tick.source for tick in last} == {CommandSource.HOMING}
    assert last[-1].command == pytest.approx(HOME)


@pytest.mark.parametrize("home_s", [None, 1.0, 30.0])
def test_a_dead_robot_may_end_in_bounded_time_even_if_its_control_thread_is_stuck(home_s: float | None):
    contract = make_contract() if home_s is None else contract_with_home(home_s)
    world = die(World(make_config(max_offline_s=1.0), contract=contract))
    died_ns = world.now_ns
    world.stuck = True
    world.run_until(lambda: world.engine.has_ended(world.now_ns), limit_s=40)
    stops_s = max_stopping_s(PERIOD_NS / 1e9)
    way_s = 0.0 if home_s is None else home_s + 1.0  # from one limit to the other
    assert (world.now_ns - died_ns) / 1e9 == pytest.approx(way_s + stops_s + END_MARGIN_S, abs=0.1)
    assert bool(world.engine.playback.stranded) == (home_s is not None)


def test_a_dead_robot_that_is_home_may_end_at_once():
    world = die(home_world())
    assert not world.engine.has_ended(world.now_ns)
    world.run_until(lambda: world.engine.playback.finished)
    assert world.engine.has_ended(world.now_ns)


def test_a_robot_that_lives_does_not_end():
    world = streaming(World())
    world.engine.halt_at_once()
    world.run(1)
    assert not world.engine.has_ended(world.now_ns + ns(100))


def test_no_action_is_executed_on_the_way_home():
    world = home_world()
    streaming(world)
    world.run_until(lambda: len(world.engine.queue) > 10)
    world.server.restart()
    world.server.spec = make_spec(fingerprint="f2")
    world.run_until(lambda: world.engine.dead)
    assert len(world.engine.queue)
    dead_ns = world.now_ns
    world.run(3)
    assert {tick.source for at_ns, tick in world.ticks if at_ns > dead_ns} == {
        CommandSource.HOMING,
        CommandSource.NONE,
    }
