# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The simulated belt arm: determinism, belt, limits, success and what the cameras see."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from belt_arm import expert
from remote_inference.learn.environments.belt_arm import scene
from remote_inference.learn.environments.belt_arm.scene import (
    BELT_SPEED_M_S,
    CAMERA_NAMES,
    CONTROL_HZ,
    IMAGE_HEIGHT,
    IMAGE_WIDTH,
    JOINT_NAMES,
    LIMITS,
    MODEL_PATH,
    BeltArm,
    RenderingUnavailableError,
)

GOLDEN = Path(__file__).with_name("golden")
GOLDEN_SEED = 7
GOLDEN_SIZE = (80, 60)
GOLDEN_TOLERANCE = 1.0
"""Mean absolute difference in grey levels: multisampling gives 0.3, a camera moved by 5 mm at least 1.9."""


@pytest.fixture
def arm():
    scene = BeltArm(render=False)
    yield scene
    scene.close()


@pytest.fixture
def camera_arm():
    scene = BeltArm()
    scene.reset(GOLDEN_SEED)
    yield scene
    scene.close()


def run(arm: BeltArm, seed: int, ticks: int) -> np.ndarray:
    """Return the trajectory `[ticks, 15]` of the expert's first commands held still."""
    arm.reset(seed)
    target = expert.plan_from(arm, ticks)
    rows = []
    for command in target:
        arm.step(command)
        rows.append(np.concatenate([arm.joint_positions(), arm.joint_velocities(), arm.cube_position]))
    return np.array(rows)


def test_one_seed_gives_one_trajectory(arm):
    first = run(arm, seed=5, ticks=40)
    np.testing.assert_array_equal(run(arm, seed=5, ticks=40), first)
    assert not np.array_equal(run(arm, seed=6, ticks=40), first)


@pytest.mark.parametrize("speed", [0.03, BELT_SPEED_M_S])
def test_the_belt_carries_the_cube_at_its_speed(speed):
    arm = BeltArm(belt_speed_m_s=speed, render=False)
    arm.reset(1)
    start = arm.cube_position
    arm.advance_to(2.0)
    travelled = arm.cube_position - start
    assert travelled[1] == pytest.approx(2.0 * speed, rel=0.02)
    assert np.abs(travelled[[0, 2]]).max() < 0.001


def test_a_step_lasts_one_control_period(arm):
    arm.reset(0)
    for tick in range(1, 61):
        arm.step(arm.command)
        assert tick / CONTROL_HZ - 1e-9 <= arm.sim_time_s < tick / CONTROL_HZ + 0.002


def test_advancing_in_small_pieces_equals_stepping(arm):
    arm.reset(3)
    target = arm.command + 0.05
    arm.step(target)
    stepped = arm.joint_positions()
    arm.reset(3)
    arm.set_command(target)
    for millisecond in range(34):
        arm.advance_to(millisecond / 1000)
    np.testing.assert_array_equal(arm.joint_positions(), stepped)


def test_a_held_command_is_reached(arm):
    arm.reset(2)
    target = arm.command + np.array([0.2, -0.1, 0.1, 0.1, 0.3, -0.015])
    for _ in range(60):
        arm.step(target)
    np.testing.assert_allclose(arm.joint_positions(), target, atol=0.005)
    assert np.abs(arm.joint_velocities()).max() < 0.01


def test_commands_are_clamped_to_the_limits_of_the_model(arm):
    model = mujoco.MjModel.from_xml_path(str(MODEL_PATH))
    ranges = np.array([model.joint(name).range for name in JOINT_NAMES[:5]])
    np.testing.assert_array_equal(ranges, np.transpose([LIMITS.lower[:5], LIMITS.upper[:5]]))
    arm.set_command(np.full(6, 10.0))
    np.testing.assert_array_equal(arm.command, LIMITS.upper)
    arm.set_command(np.full(6, -10.0))
    np.testing.assert_array_equal(arm.command, LIMITS.lower)


@pytest.mark.parametrize("command", [np.zeros(5), np.zeros((1, 6)), np.full(6, np.nan)])
def test_a_malformed_command_is_refused(arm, command):
    with pytest.raises(ValueError, match="6 finite joint targets"):
        arm.set_command(command)


def test_success_is_the_lifted_cube_and_ends_with_reset(arm):
    arm.reset(0)
    assert not arm.success
    for _ in range(90):
        arm.step(expert.plan_from(arm, 1)[0])
    assert arm.success
    assert arm.cube_position[2] > 0.07
    arm.reset(0)
    assert not arm.success


def test_cameras_publish_rgb_at_the_stated_size(camera_arm):
    for camera in CAMERA_NAMES:
        image = camera_arm.render(camera)
        assert image.shape == (IMAGE_HEIGHT, IMAGE_WIDTH, 3)
        assert image.dtype == np.uint8


def difference_to_golden(image: np.ndarray, camera: str) -> float:
    small = np.asarray(Image.fromarray(image).resize(GOLDEN_SIZE, Image.Resampling.BOX), np.float64)
    golden = np.asarray(Image.open(GOLDEN / f"{camera}.png"), np.float64)
    return float(np.abs(small - golden).mean())


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_rendering_equals_the_golden_frame(camera_arm, camera):
    """The shipped policy was trained on these pixels."""
    assert difference_to_golden(camera_arm.render(camera), camera) < GOLDEN_TOLERANCE


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_the_golden_frame_tells_swapped_colours(camera_arm, camera):
    assert difference_to_golden(camera_arm.render(camera)[:, :, ::-1], camera) > 2 * GOLDEN_TOLERANCE


@pytest.mark.parametrize("camera", CAMERA_NAMES)
def test_the_golden_frame_tells_a_moved_camera(camera_arm, camera):
    camera_arm._model.camera(camera).pos[2] += 0.01
    assert difference_to_golden(camera_arm.render(camera), camera) > 2 * GOLDEN_TOLERANCE


def test_images_show_the_present_and_not_the_last_physics_step(camera_arm):
    before = camera_arm.render("front")
    camera_arm.advance_to(0.5)
    assert not np.array_equal(camera_arm.render("front"), before)
    np.testing.assert_array_equal(camera_arm.render("front"), camera_arm.render("front"))


def test_two_scenes_render_side_by_side(camera_arm):
    """Each render must bind its own OpenGL context."""
    expected = camera_arm.render("front")
    other = BeltArm(image_width=64, image_height=48)
    assert other.render("front").shape == (48, 64, 3)
    np.testing.assert_array_equal(camera_arm.render("front"), expected)
    other.close()
    np.testing.assert_array_equal(camera_arm.render("front"), expected)


def test_close_can_be_repeated_and_ends_rendering():
    arm = BeltArm()
    arm.close()
    arm.close()
    with pytest.raises(RuntimeError, match="close"):
        arm.render("front")


def test_without_rendering_no_image_can_be_had(arm):
    with pytest.raises(RuntimeError, match="render=False"):
        arm.render("front")


def test_without_opengl_the_error_names_the_packages(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(scene, "_PROBE", "raise SystemExit('no driver')")
    with pytest.raises(
        RenderingUnavailableError, match=r"egl: no driver; osmesa: no driver.*libegl1 .*libosmesa6"
    ):
        BeltArm()


def test_osmesa_takes_over_where_egl_fails(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.setattr(scene, "_PROBE", "import sys; sys.exit(sys.argv[1] == 'egl')")
    assert scene._choose_backend() == "osmesa"
    assert os.environ["MUJOCO_GL"] == "osmesa"


def test_a_backend_chosen_by_the_user_is_not_replaced(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setattr(scene, "_probe", lambda backend: pytest.fail("probed"))
    assert scene._choose_backend() == "osmesa"


def test_an_unclosed_scene_leaves_the_interpreter_quietly():
    """Also where another library registered a finalizer before the OpenGL backend was loaded."""
    script = """
import weakref
weakref.finalize(weakref.WeakSet, print)
from remote_inference.learn.environments.belt_arm.scene import BeltArm
arm = BeltArm()
arm.render("front")
"""
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stderr) == (0, "")
