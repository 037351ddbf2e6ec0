# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The scripted expert picks the cube, within the limits that guard the arm."""

from __future__ import annotations

import numpy as np
import pytest

from belt_arm import expert
from remote_inference.learn.environments.belt_arm import kinematics
from remote_inference.learn.environments.belt_arm.scene import LIMITS, MAX_STEP, BeltArm

UNSEEN_SEEDS = range(700, 710)


@pytest.fixture
def arm():
    scene = BeltArm(render=False)
    yield scene
    scene.close()


def test_expert_picks_moving_cubes_within_the_velocity_limits(arm):
    picked = 0
    for seed in UNSEEN_SEEDS:
        arm.reset(seed)
        while arm.sim_time_s < 5.0 and not arm.success:
            command = expert.plan_from(arm, 1)[0]
            assert (np.abs(command - arm.command) <= MAX_STEP).all()
            arm.step(command)
        picked += arm.success
    assert picked >= 9


def test_a_chunk_played_blind_picks_the_cube(arm):
    """Otherwise a policy that copies chunks could not survive latency."""
    picked = 0
    for seed in UNSEEN_SEEDS:
        arm.reset(seed)
        while arm.sim_time_s < 5.0 and not arm.success:
            for command in expert.plan_from(arm, 20):
                arm.step(command)
        picked += arm.success
    assert picked >= 9


def test_a_longer_chunk_begins_with_the_shorter_one(arm):
    arm.reset(4)
    np.testing.assert_array_equal(expert.plan_from(arm, 40)[:10], expert.plan_from(arm, 10))


@pytest.mark.parametrize("delay", [0, 8, 20])
def test_a_plan_for_later_is_the_plan_that_physics_then_leads_to(arm, delay):
    """Rows of a whole grasp, of which the delay executes none, some or all, and then a wait."""
    for seed in UNSEEN_SEEDS:
        for tick in (0, 15, 25):
            arm.reset(seed)
            for command in expert.plan_from(arm, tick):
                arm.step(command)
            actions = expert.plan_from(arm, 12)
            foreseen = expert.plan_after(arm, actions, delay, 30)
            for later in range(delay):
                arm.step(actions[later] if later < len(actions) else arm.command)
            then = expert.plan_from(arm, 30)
            tips = [[kinematics.forward(row.tolist()) for row in plan] for plan in (foreseen, then)]
            assert np.median(np.abs(np.subtract(*tips))) < 0.005  # m


def test_a_chunk_for_later_begins_with_what_is_executed(arm):
    arm.reset(4)
    actions = expert.plan_from(arm, 10)
    chunk = expert.continue_prefix(arm, actions, 6, 20)
    np.testing.assert_array_equal(chunk[:6], actions[:6])
    np.testing.assert_array_equal(chunk[6:], expert.plan_after(arm, actions[:6], 6, 14))
    assert (
        expert.continue_prefix(arm, None, 6, 20).tobytes()
        == expert.plan_after(arm, actions[:0], 6, 20).tobytes()
    )


def test_plans_stay_within_the_joint_limits(arm):
    for seed in UNSEEN_SEEDS:
        arm.reset(seed)
        chunk = expert.plan_from(arm, 40)
        assert (chunk >= np.float32(LIMITS.lower)).all()
        assert (chunk <= np.float32(LIMITS.upper)).all()


def test_a_held_cube_is_lifted_wherever_it_is():
    command = [*kinematics.inverse((0.22, 0.05, 0.012)), 0.0]
    chunk = expert.plan(
        command, cube_position=(0.22, 0.05, 0.0175), belt_speed_m_s=0.06, held=True, horizon=30
    )
    heights = [kinematics.forward(row.tolist())[2] for row in chunk]
    assert heights == sorted(heights)
    assert heights[-1] > 0.12
