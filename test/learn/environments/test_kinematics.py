# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The closed-form kinematics invert each other and agree with the MuJoCo model."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from remote_inference.learn.environments.belt_arm import kinematics, scene

bearings = st.floats(-1.2, 1.2)
radii = st.floats(0.12, 0.30)
heights = st.floats(0.01, 0.18)


def reachable_tip(bearing: float, radius: float, height: float) -> tuple[float, float, float]:
    assume(math.hypot(radius, height + kinematics.HAND_M - kinematics.SHOULDER_HEIGHT_M) < 0.309)
    return radius * math.cos(bearing), radius * math.sin(bearing), height


@given(bearings, radii, heights)
def test_forward_undoes_inverse_within_reach(bearing, radius, height):
    tip = reachable_tip(bearing, radius, height)
    assert kinematics.forward(kinematics.inverse(tip)) == pytest.approx(tip, abs=1e-9)


@given(bearings, radii, heights)
def test_inverse_points_the_hand_down_and_respects_the_joint_limits(bearing, radius, height):
    joints = kinematics.inverse(reachable_tip(bearing, radius, height))
    assert sum(joints[1:4]) == pytest.approx(math.pi)
    assert all(
        low <= joint <= high
        for low, joint, high in zip(scene.LIMITS.lower[:5], joints, scene.LIMITS.upper[:5], strict=True)
    )


@given(bearings, st.floats(0.35, 1.0))
def test_out_of_reach_stops_short_in_the_same_direction(bearing, radius):
    x, y, _ = kinematics.forward(
        kinematics.inverse((radius * math.cos(bearing), radius * math.sin(bearing), 0.05))
    )
    assert math.atan2(y, x) == pytest.approx(bearing)
    assert math.hypot(x, y) < radius


@given(bearings, radii, heights)
def test_forward_agrees_with_the_simulated_arm(bearing, radius, height):
    joints = kinematics.inverse(reachable_tip(bearing, radius, height))
    data = mujoco.MjData(MODEL)
    for name, value in zip(scene.JOINT_NAMES[:5], joints, strict=True):
        data.joint(name).qpos = value
    mujoco.mj_kinematics(MODEL, data)
    np.testing.assert_allclose(data.site("tip").xpos, kinematics.forward(joints), atol=1e-9)


MODEL = mujoco.MjModel.from_xml_path(str(scene.MODEL_PATH))
