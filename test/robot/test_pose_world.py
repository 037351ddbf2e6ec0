# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A whole robot with a pose: its engine, controllers, watchdog and person; each command is judged."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from remote_inference.base.rotations import ROTATION_FORMS
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, make_spec
from support.robot import random_poses
from support.robot.pose_robot import rotation_of
from support.robot.random_watched_world import Wandering, make_contract
from support.robot.simulation import streaming
from support.robot.watched_world import WatchedWorld

FPS = 20.0


def make_world(
    kind: str = "position", fallback: str = "hold", seed: int = 3, form: Mapping[str, Any] | None = None
) -> WatchedWorld:
    """Return a robot with a pose beside a joint of some kind; its policy wanders."""
    rng = random.Random(seed)
    contract = make_contract(rng, ("pose", kind), FPS, form)
    server = Wandering("/server_a", make_spec(trained_fps=FPS), rng)
    server.learn(contract)
    config = make_config(fallback=fallback, max_action_age_s=1.0)
    world = WatchedWorld(config, [server], contract=contract)
    world.engine.hear_stop("button", False, world.now_ns)
    return world


def tool(world: WatchedWorld) -> np.ndarray:
    """Return where the tool is `[7]`."""
    return world.position[world.poses.columns[0]].copy()


def test_the_tool_moves_and_keeps_its_pose_while_there_is_no_server():
    world = streaming(make_world())
    begin = tool(world)
    world.run(1.0)
    assert np.abs(tool(world)[:3] - begin[:3]).max() > 0.05
    world.server.up = False
    world.run(2.0)
    held = tool(world)
    world.run(2.0)
    assert tool(world).tolist() == held.tolist()
    assert world.ticks[-1][1].source is CommandSource.NONE
    world.server.restart()
    world.run_until(lambda: world.state is State.STREAMING and tool(world).tolist() != held.tolist())


@pytest.mark.parametrize("form", ROTATION_FORMS.names)
def test_the_policy_s_form_of_an_orientation_changes_no_motion(form: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(random_poses, "NO_ORIENTATION", 0.0)  # which not every form can say
    ours = streaming(make_world(form={"rotation": rotation_of(form)})).run(3.0)
    others = streaming(make_world()).run(3.0)
    commands = [
        (one.command, other.command)
        for (_, one), (_, other) in zip(ours.ticks, others.ticks, strict=True)
        if one.source is CommandSource.CHUNK and other.source is CommandSource.CHUNK
    ]
    assert len(commands) > 2.0 * FPS
    for one, other in commands:
        np.testing.assert_allclose(one, other, atol=1e-5)
    prefixes = [request.prefix_robot for request in ours.sent if request.prefix_robot is not None]
    assert prefixes, "the policy continues rows of its own form"
    assert {prefix.shape[1] for prefix in prefixes} == {len(ours.server.spec.action_names)}


@pytest.mark.parametrize("kind", ["position", "velocity", "effort", "switch"])
def test_a_pause_keeps_the_pose_and_the_next_step_begins_where_it_was_moved_to(kind: str):
    world = streaming(make_world(kind))
    world.pause()
    world.run(1.0)
    held = tool(world)
    world.run(0.5)
    assert tool(world).tolist() == held.tolist()
    world.shove(random_poses.somewhere(random.Random(5), 0.8))
    world.run(0.1)
    world.resume()
    world.run_until(lambda: world.ticks[-1][1].source is CommandSource.CHUNK)


def test_a_stop_input_keeps_the_pose():
    world = streaming(make_world())
    world.engine.hear_stop("button", True, world.now_ns)
    world.run(0.2)
    held = tool(world)
    world.run(1.0)
    assert tool(world).tolist() == held.tolist()


def test_a_person_leads_the_tool_and_the_policy_goes_on_from_there():
    world = streaming(make_world("velocity"))
    assert world.take_over() == ""
    goal = random_poses.somewhere(random.Random(6), 0.5)
    world.target = goal * np.array([1.0, 1.0, 1.0, -2.0, -2.0, -2.0, -2.0, 1.0])
    world.run(5.0)
    reached = tool(world)
    assert reached[:3] == pytest.approx(goal[:3], abs=1e-6)
    assert abs(np.dot(reached[3:], goal[3:7])) == pytest.approx(1.0, abs=1e-9)
    world.target = None
    assert world.release() == ""
    world.run_until(lambda: world.ticks[-1][1].source is CommandSource.CHUNK)


def test_drives_that_come_back_let_the_tool_go_on_from_where_it_is():
    world = streaming(make_world(fallback="repeat_last"))
    world.drive_off()
    world.run_until(lambda: "tool" in world.engine.playback.not_following and world.state is State.STALLED)
    world.drive_on(held=True)
    world.run_until(lambda: not world.engine.playback.not_following)
    world.run(1.0)
    assert world.ticks[-1][1].source is CommandSource.CHUNK
