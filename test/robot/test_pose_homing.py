# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The way home of a pose: along the straight line and the shortest arc, within its speeds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.actions import Home
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Homing
from remote_inference.robot.pose_geometry import ActionMasks
from support.builders import make_config, make_spec, ns
from support.robot.pose_robot import SPEED, TURN, angle_of, pose_at, pose_contract, turned
from support.robot.random_watched_world import Wandering, make_contract
from support.robot.simulation import streaming
from support.robot.watched_world import WatchedWorld

FPS = 20.0
AT = (0.1, -0.2, 0.3)
TARGET = (*AT, *turned(0.5))
MASKS = ActionMasks.of(pose_contract().actions)
PLACE = st.floats(-0.5, 0.5)


def way(start: np.ndarray, duration_s: float = 2.0, target: tuple[float, ...] = TARGET) -> Homing:
    home = Home(poses={"tool": target}, duration_s=duration_s)
    return Homing(start, home, 0, MASKS)


def test_half_way_a_pose_is_turned_by_half_the_angle() -> None:
    start, half = pose_at(0.0, 0.0, 0.0, angle=-1.5), way(pose_at(0.0, 0.0, 0.0, angle=-1.5)).target(ns(1.0))
    assert np.linalg.norm(half[3:]) == pytest.approx(1.0, abs=1e-12)
    assert angle_of(start, half) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_pose_is_home_with_either_sign_of_its_quaternion(sign: float) -> None:
    homing = way(pose_at(0.0, 0.0, 0.0))
    assert homing.reached(np.array([*AT, *(sign * part for part in TARGET[3:])]))
    assert not homing.reached(pose_at(*AT))


@given(PLACE, PLACE, PLACE, st.floats(-3.0, 3.0), st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0]))
def test_the_way_leads_along_the_line_and_the_shortest_arc(
    x: float, y: float, z: float, angle: float, sign: float, other_sign: float
) -> None:
    """Whatever the signs of the two quaternions are: both of each are one orientation."""
    start = pose_at(x, y, z, angle=angle, sign=sign)
    goal = np.array([*AT, *(other_sign * part for part in TARGET[3:])])
    homing = way(start, target=tuple(goal))
    line, arc = goal[:3] - start[:3], angle_of(start, goal)
    for at_s in (0.0, 0.5, 1.0, 1.5, 2.0, 9.0):
        point = homing.target(ns(at_s))
        part = min(1.0, at_s / 2.0)
        progress = part**3 * (10 - 15 * part + 6 * part**2)
        assert point[:3] == pytest.approx(start[:3] + progress * line, abs=1e-9)
        assert np.linalg.norm(point[3:]) == pytest.approx(1.0, abs=1e-9)
        assert angle_of(start, point) == pytest.approx(progress * arc, abs=1e-3)
        assert angle_of(point, goal) == pytest.approx((1.0 - progress) * arc, abs=1e-3)
    assert homing.reached(homing.target(ns(2.0)))
    assert homing.reached(homing.target(ns(2.0)) * [1, 1, 1, -1, -1, -1, -1])


@pytest.mark.parametrize("off", [(1e-5, 0.0), (0.0, 1e-4)])
def test_a_pose_beside_home_is_not_home(off: tuple[float, float]) -> None:
    beside = np.array([AT[0] + off[0], *AT[1:], *turned(0.5 + off[1])])
    assert not way(pose_at()).reached(beside)


def test_the_way_may_cross_the_box_and_turn_half_around() -> None:
    actions = pose_contract().actions
    home = Home(poses={"tool": TARGET}, duration_s=0.1)
    longest_s = 0.1 + max(np.sqrt(3.0) / SPEED, np.pi / TURN)
    assert Homing.longest_s(home, actions) == pytest.approx(longest_s)


# -- the robot -----------------------------------------------------------------------------------------------


def home_world(kind: str, **home: Any) -> WatchedWorld:
    """Return a robot with a pose beside an action of some kind, whose server goes when it streams."""
    rng = random.Random(3)
    contract = make_contract(rng, ("pose", kind), FPS)
    (title,) = contract.actions.poses
    target = Home(poses={title: TARGET}, duration_s=1.0, **home)
    contract = contract.model_copy(update={"home": target})
    config = make_config(fallback="hold", max_action_age_s=1.0, max_offline_s=1.0)
    server = Wandering("/server_a", make_spec(trained_fps=FPS), rng)
    server.learn(contract)
    world = WatchedWorld(config, [server], contract=contract)
    world.engine.hear_stop("button", False, world.now_ns)
    streaming(world)
    world.server.up = False
    world.run_until(lambda: world.engine.dead)
    return world


def tool(world: WatchedWorld) -> np.ndarray:
    return world.position[world.poses.columns[0]].copy()


@pytest.mark.parametrize(("kind", "home"), [("position", {"positions": (0.25,)}), ("velocity", {})])
def test_a_robot_that_gives_up_takes_its_tool_home_and_stops_the_rest(
    kind: str, home: dict[str, Any]
) -> None:
    """Each command of the way is judged by the world: a step of the line, and of the arc."""
    world = home_world(kind, **home)
    world.run_until(lambda: world.engine.playback.finished)
    assert world.ticks[-1][1].source is not CommandSource.CHUNK
    assert CommandSource.HOMING in {tick.source for _, tick in world.ticks}
    assert tool(world)[:3] == pytest.approx(AT, abs=1e-5)
    assert angle_of(tool(world), np.array(TARGET)) < 1e-3
    if kind == "position":
        others = [place for place in range(len(world.position)) if place not in world.poses.columns]
        assert world.position[others] == pytest.approx(home["positions"], abs=1e-5)


def test_a_pause_ends_the_way_home_of_a_pose() -> None:
    world = home_world("velocity")
    world.run(0.3)
    world.pause()
    held = tool(world)
    world.run(2.0)
    assert tool(world) == pytest.approx(held)
    assert np.abs(held[:3] - AT).max() > 1e-3
    assert world.engine.playback.finished
