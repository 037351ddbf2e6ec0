# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot that gives up goes home if its contract has a home: within the guard, once, and not when paused."""

from __future__ import annotations

import numpy as np
import pytest
from builders import MAX_STEP, contract_document, make_config, make_spec, ns
from hypothesis import given
from hypothesis import strategies as st
from simulation import World, stopped, streaming

from remote_inference.core.contract import Contract
from remote_inference.core.contract_sections import Home
from remote_inference.core.document import parse_document
from remote_inference.core.robot.guard import SENSOR_AGE
from remote_inference.core.robot.homing import Homing
from remote_inference.core.robot.playback import STOP_TICKS
from remote_inference.core.robot.state_machine import State
from remote_inference.core.robot.tick import CommandSource

HOME = (0.5, -0.25)


def contract_with_home(duration_s: float = 1.0) -> Contract:
    document = contract_document() | {"home": {"positions": list(HOME), "duration_s": duration_s}}
    return parse_document(document, Contract, "test.contract.yaml")


def die(world: World) -> World:
    """Let a streaming robot lose its server for ever."""
    streaming(world)
    world.server.up = False
    return world.run_until(lambda: stopped(world))


def homing_ticks(world: World) -> list[np.ndarray]:
    return [tick.command for _, tick in world.ticks if tick.source is CommandSource.HOMING]


def home_world(duration_s: float = 1.0) -> World:
    return World(make_config(max_offline_s=1.0), contract=contract_with_home(duration_s))


def test_the_path_begins_at_rest_at_the_start_and_ends_at_rest_at_home():
    start = np.array([-0.5, 0.75])
    homing = Homing(start, Home(positions=HOME, duration_s=2.0), begin_ns=ns(10))
    assert homing.target(ns(10)) == pytest.approx(start)
    assert homing.target(ns(11)) == pytest.approx((start + HOME) / 2)
    assert homing.target(ns(12)) == pytest.approx(HOME)
    assert homing.target(ns(99)) == pytest.approx(HOME)
    for at_rest_ns, sign in ((ns(10), 1), (ns(12), -1)):
        step = homing.target(at_rest_ns + sign * ns(0.02)) - homing.target(at_rest_ns)
        assert np.abs(step).max() < 1e-4


@given(st.floats(0.0, 3.0))
def test_the_path_is_straight_and_monotone(at_s: float):
    homing = Homing(np.zeros(2), Home(positions=HOME, duration_s=2.0), begin_ns=0)
    now, later = homing.target(ns(at_s)), homing.target(ns(at_s + 0.01))
    assert now[1] == pytest.approx(now[0] * HOME[1] / HOME[0])
    assert later[0] >= now[0]


def test_a_robot_that_was_driven_goes_home_when_it_gives_up_and_is_finished_there():
    world = die(home_world())
    assert not world.engine.playback.finished
    world.run_until(lambda: world.engine.playback.finished)
    assert world.position == pytest.approx(HOME)
    count = len(homing_ticks(world))
    assert 20 <= count - (STOP_TICKS - 1) <= 22  # one second at 20 Hz
    world.run(2)
    assert len(homing_ticks(world)) == count


def test_home_is_commanded_several_times_because_the_last_command_may_be_lost():
    world = die(home_world())
    world.run_until(lambda: world.engine.playback.finished)
    last = np.stack(homing_ticks(world)[-STOP_TICKS:])
    assert len(last) == STOP_TICKS
    assert last == pytest.approx(np.tile(HOME, (STOP_TICKS, 1)))


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


def test_a_robot_that_this_node_never_moved_is_not_moved_at_the_end_either():
    world = home_world()
    world.server.spec = make_spec(action_names=("elbow", "shoulder"))
    world.run_until(lambda: world.engine.dead)
    world.run(3)
    assert homing_ticks(world) == []
    assert world.engine.playback.finished


def test_a_paused_robot_is_not_moved():
    world = streaming(home_world())
    world.pause()
    world.server.up = False
    world.run_until(lambda: stopped(world))
    world.run(3)
    assert homing_ticks(world) == []
    assert world.engine.playback.finished


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
