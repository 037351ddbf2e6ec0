# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The belt arm in MuJoCo: six joints, a red cube on a moving belt, and two cameras.

Physics runs at 500 Hz, control at 30 Hz. Joint vectors are float64 `[6]` in the order of `JOINT_NAMES`: five
angles in radians, then the gripper as the travel of each finger in metres (0 closed, 0.035 open).
"""

from __future__ import annotations

import atexit
import importlib
import math
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.learn.environment import ActionSpec
from remote_inference.learn.environments.belt_arm import kinematics

# -- Off-screen rendering of a MuJoCo model without a display, on EGL or else OSMesa ---------------------
#
# `MUJOCO_GL` names the backend when it is set; otherwise the first that can create a context in a child
# process is taken and `MUJOCO_GL` is set to it, so that processes started from here need not probe again.

_PROBED_BACKENDS = ("egl", "osmesa")
_KNOWN_BACKENDS = (*_PROBED_BACKENDS, "glfw")
_DEBIAN_PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
_PROBE = (
    "import sys, importlib; importlib.import_module('mujoco.' + sys.argv[1]).GLContext(16, 16).make_current()"
)
_PROBE_TIMEOUT_S = 30.0
_MAX_GEOMS = 200


class RenderingUnavailableError(RuntimeError):
    """No OpenGL backend can create a context; the message names the packages that bring one."""


class OffscreenRenderer:
    """Renders one model at one image size. All methods are for the thread that constructed it."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        backend = _choose_backend()
        # Mesa's worker threads do not render images of this size any faster.
        os.environ.setdefault("LP_NUM_THREADS", "0")
        try:
            self._gl_context: Any = importlib.import_module(f"mujoco.{backend}").GLContext(width, height)
            self._gl_context.make_current()
            self._mjr_context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        except Exception as error:  # every backend fails with its own types
            raise RenderingUnavailableError(_explain({backend: str(error)})) from error
        self._finalizer = weakref.finalize(self, _free, self._gl_context, self._mjr_context)
        # Exit handlers run newest first: this one must come before the backend's, which drops its display.
        self._finalizer.atexit = False
        atexit.register(self._finalizer)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._mjr_context)
        self._model = model
        self._scene = mujoco.MjvScene(model, _MAX_GEOMS)
        for flag in ("SHADOW", "REFLECTION", "HAZE"):
            self._scene.flags[getattr(mujoco.mjtRndFlag, f"mjRND_{flag}")] = False
        self._options = mujoco.MjvOption()
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._pixels = np.empty((height, width, 3), np.uint8)
        self._depth = np.empty((height, width), np.float32)

    def render(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.uint8]:
        """Return a new RGB image `[height, width, 3]` of `data`, whose kinematics must be up to date."""
        self._draw(data, camera_id)
        mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._mjr_context)
        return np.ascontiguousarray(self._pixels[::-1])

    def render_depth(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.float32]:
        """Return the distance of each pixel from the camera's plane, float32 `[height, width]` in metres."""
        self._draw(data, camera_id)
        mujoco.mjr_readPixels(None, self._depth, self._viewport, self._mjr_context)
        extent, clipping = self._model.stat.extent, self._model.vis.map
        near, far = clipping.znear * extent, clipping.zfar * extent
        # OpenGL's depth buffer of a perspective projection holds (1/near - 1/z) / (1/near - 1/far).
        return np.ascontiguousarray(near / (1.0 - self._depth[::-1] * (1.0 - near / far)), dtype=np.float32)

    def render_geoms(self, data: mujoco.MjData, camera_id: int) -> NDArray[np.int32]:
        """Return the geom that each pixel shows, int32 `[height, width]`, -1 where there is none."""
        flags = [mujoco.mjtRndFlag.mjRND_SEGMENT.value, mujoco.mjtRndFlag.mjRND_IDCOLOR.value]
        self._scene.flags[flags] = True
        try:
            self._draw(data, camera_id)
        finally:
            self._scene.flags[flags] = False
        mujoco.mjr_readPixels(self._pixels, None, self._viewport, self._mjr_context)
        drawn = self._pixels[::-1].astype(np.int32) @ np.array([1, 256, 65536], np.int32)
        geoms = np.full(self._scene.ngeom + 1, -1, np.int32)  # a pixel shows its object's place plus one
        for geom in self._scene.geoms[: self._scene.ngeom]:
            if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM:
                geoms[geom.segid + 1] = geom.objid
        return geoms[drawn]

    def _draw(self, data: mujoco.MjData, camera_id: int) -> None:
        if not self._finalizer.alive:
            raise RuntimeError("render() after close()")
        self._gl_context.make_current()
        self._camera.fixedcamid = camera_id
        every_category = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(
            self._model, data, self._options, None, self._camera, every_category, self._scene
        )
        mujoco.mjr_render(self._viewport, self._scene, self._mjr_context)

    def close(self) -> None:
        """Free the OpenGL context; safe to call again."""
        atexit.unregister(self._finalizer)
        self._finalizer()


def _free(gl_context: Any, mjr_context: mujoco.MjrContext) -> None:
    gl_context.make_current()
    mjr_context.free()
    gl_context.free()


def _choose_backend() -> str:
    wanted = os.environ.get("MUJOCO_GL", "").strip().lower()
    if wanted:
        if wanted not in _KNOWN_BACKENDS:
            raise RenderingUnavailableError(
                f"MUJOCO_GL={wanted}: expected one of {', '.join(_KNOWN_BACKENDS)}"
            )
        return wanted
    failures: dict[str, str] = {}
    for backend in _PROBED_BACKENDS:
        failure = _probe(backend)
        if failure is None:
            os.environ["MUJOCO_GL"] = backend
            return backend
        failures[backend] = failure
    raise RenderingUnavailableError(_explain(failures))


def _probe(backend: str) -> str | None:
    """Return why `backend` cannot create a context, or None when it can.

    The probe runs in a child process: PyOpenGL binds to one platform for good, and a broken driver may crash.
    """
    command = [sys.executable, "-c", _PROBE, backend]
    environment = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no context after {_PROBE_TIMEOUT_S:.0f} s"
    if child.returncode == 0:
        return None
    return next(reversed(child.stderr.strip().splitlines()), f"exit status {child.returncode}")


def _explain(failures: dict[str, str]) -> str:
    reasons = "; ".join(f"{backend}: {reason}" for backend, reason in failures.items())
    return f"cannot render without a display ({reasons}). On Debian or Ubuntu: apt install {_DEBIAN_PACKAGES}"


Float64Array = NDArray[np.float64]

JOINT_NAMES = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
CAMERA_NAMES = ("front", "wrist")
IMAGE_FEATURES = {camera: f"observation.images.{camera}" for camera in CAMERA_NAMES}
"""The policy's name for each camera's images."""
CONTROL_HZ = 30.0
IMAGE_WIDTH, IMAGE_HEIGHT = 320, 240
BELT_SPEED_M_S = 0.06
GRIPPER_OPEN_M = 0.035
CUBE_HALF_SIZE_M = 0.0175
SUCCESS_HEIGHT_M = 0.07

MODEL_PATH = Path(__file__).with_name("belt_arm.xml")
_ARM_JOINTS = JOINT_NAMES[:5]
_FINGERS = ("left_finger", "right_finger")

# Radians and rad/s, metres and m/s for the gripper.
LIMITS = ActionSpec(
    "position",
    JOINT_NAMES,
    lower=(-1.6, -1.6, -0.2, -1.0, -1.6, 0.0),
    upper=(1.6, 1.6, 3.0, 3.0, 1.6, GRIPPER_OPEN_M),
    max_velocity=(3.6, 3.6, 5.4, 3.6, 3.6, 0.42),
)
MAX_STEP: Float64Array = np.array(LIMITS.max_velocity) / CONTROL_HZ
"""Of each joint in one control tick."""


class BeltArm:
    """The simulated robot and its task: lift the cube before the belt carries it away.

    With `render=True` an OpenGL context is bound to the constructing thread: call every method there, `close`
    included. With `render=False` no OpenGL is touched. One instance serves one thread at a time in any case.
    """

    def __init__(
        self,
        *,
        belt_speed_m_s: float = BELT_SPEED_M_S,
        render: bool = True,
        image_width: int = IMAGE_WIDTH,
        image_height: int = IMAGE_HEIGHT,
    ) -> None:
        self._model = mujoco.MjModel.from_xml_path(str(MODEL_PATH))
        self._data = mujoco.MjData(self._model)
        self.belt_speed_m_s = belt_speed_m_s
        joints = [self._model.joint(name) for name in (*_ARM_JOINTS, *_FINGERS)]
        self._position_index = np.array([joint.qposadr[0] for joint in joints])
        self._velocity_index = np.array([joint.dofadr[0] for joint in joints])
        self._cube_position_index = int(self._model.joint("cube").qposadr[0])
        self._cube_velocity_index = int(self._model.joint("cube").dofadr[0])
        self._camera_ids = {name: self._model.camera(name).id for name in CAMERA_NAMES}
        self._image_size = (image_width, image_height)
        self._renderer = OffscreenRenderer(self._model, image_width, image_height) if render else None
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start an episode: arm and cube placed at random, a function of `seed` alone."""
        rng = np.random.default_rng(seed)
        tip = (rng.uniform(0.17, 0.22), rng.uniform(-0.10, 0.10), rng.uniform(0.10, 0.14))
        # A moving cube starts upstream, so that it passes in front of the arm.
        upstream, downstream = (-0.17, -0.02) if self.belt_speed_m_s else (-0.13, 0.13)
        cube = (rng.uniform(0.18, 0.27), rng.uniform(upstream, downstream), CUBE_HALF_SIZE_M)
        yaw = rng.uniform(-0.35, 0.35)

        mujoco.mj_resetData(self._model, self._data)
        command = np.array([*kinematics.inverse(tip), GRIPPER_OPEN_M])
        self._data.qpos[self._position_index] = (*command, GRIPPER_OPEN_M)
        pose = (*cube, math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
        self._data.qpos[self._cube_position_index : self._cube_position_index + 7] = pose
        self._data.qvel[self._model.joint("belt").dofadr[0]] = self.belt_speed_m_s
        self._data.qvel[self._cube_velocity_index + 1] = self.belt_speed_m_s
        self.set_command(command)
        mujoco.mj_forward(self._model, self._data)

    def set_command(self, command: ArrayLike) -> None:
        """Set the joint targets `[6]` that the controllers track from now on, clamped to `LIMITS`."""
        targets = np.asarray(command, np.float64)
        if targets.shape != (len(JOINT_NAMES),) or not np.isfinite(targets).all():
            raise ValueError(f"command: expected {len(JOINT_NAMES)} finite joint targets, found {command!r}")
        self._command: Float64Array = np.clip(targets, LIMITS.lower, LIMITS.upper)
        self._data.ctrl[:] = (*self._command, self._command[5], self.belt_speed_m_s)

    def step(self, command: ArrayLike) -> None:
        """Set `command` and run to the next control tick."""
        self.set_command(command)
        ticks = math.floor(self.sim_time_s * CONTROL_HZ + 1e-6) + 1
        self.advance_to(ticks / CONTROL_HZ)

    def advance_to(self, time_s: float) -> None:
        """Run physics until `sim_time_s` reaches `time_s`; at most one 2 ms step beyond it."""
        while self._data.time < time_s - 1e-9:
            mujoco.mj_step(self._model, self._data)

    def joint_positions(self) -> Float64Array:
        """Return measured positions `[6]`."""
        return _with_one_gripper(self._data.qpos[self._position_index])

    def joint_velocities(self) -> Float64Array:
        """Return measured velocities `[6]`."""
        return _with_one_gripper(self._data.qvel[self._velocity_index])

    def joint_accelerations(self) -> Float64Array:
        """Return accelerations `[6]`."""
        return _with_one_gripper(self._data.qacc[self._velocity_index])

    def render(self, camera: str) -> NDArray[np.uint8]:
        """Return what `camera` sees now, RGB `[image_height, image_width, 3]`."""
        return self._ready_renderer().render(self._data, self._camera_ids[camera])

    def render_depth(self, camera: str) -> NDArray[np.float32]:
        """Return how far away what `camera` sees is, float32 `[image_height, image_width]` in metres."""
        return self._ready_renderer().render_depth(self._data, self._camera_ids[camera])

    def render_bodies(self, camera: str) -> NDArray[np.int32]:
        """Return the body that each pixel of `camera` shows, int32 `[image_height, image_width]`.

        -1: none. 0: what stands still, which is the floor and the arm's base.
        """
        geoms = self._ready_renderer().render_geoms(self._data, self._camera_ids[camera])
        body_of_geom = np.append(self._model.geom_bodyid, -1).astype(np.int32)
        return body_of_geom[geoms]

    def intrinsics(self, camera: str) -> NDArray[np.float32]:
        """Return the camera matrix `[3, 3]` in pixels, of a pinhole in the middle of the image."""
        width, height = self._image_size
        fovy_rad = math.radians(float(self._model.cam_fovy[self._camera_ids[camera]]))
        focal = height / 2 / math.tan(fovy_rad / 2)
        rows = [[focal, 0.0, width / 2], [0.0, focal, height / 2], [0.0, 0.0, 1.0]]
        return np.array(rows, np.float32)

    def camera_to_world(self, camera: str) -> NDArray[np.float32]:
        """Return the pose `[4, 4]` of the camera's optical frame: x right, y down, z forward (REP 103)."""
        self._update_poses()
        index = self._camera_ids[camera]
        pose = np.eye(4)
        # MuJoCo's cameras have y up and look along -z.
        pose[:3, :3] = self._data.cam_xmat[index].reshape(3, 3) @ np.diag([1.0, -1.0, -1.0])
        pose[:3, 3] = self._data.cam_xpos[index]
        return pose.astype(np.float32)

    @property
    def robot_bodies(self) -> frozenset[int]:
        """The bodies of the arm that move, as in `render_bodies`."""
        root = self._model.body("shoulder").id
        return frozenset(np.flatnonzero(self._model.body_rootid == root).tolist())

    def _ready_renderer(self) -> OffscreenRenderer:
        if self._renderer is None:
            raise RuntimeError("render() of a BeltArm constructed with render=False")
        self._update_poses()
        return self._renderer

    def _update_poses(self) -> None:
        """Bring poses up to the joints: mj_step leaves them one step behind."""
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)

    @property
    def command(self) -> Float64Array:
        """The joint targets `[6]` in force."""
        return np.array(self._command, np.float64)

    @property
    def cube_position(self) -> Float64Array:
        """The centre of the cube `[3]`, metres in the base frame."""
        start = self._cube_position_index
        position: Float64Array = self._data.qpos[start : start + 3].copy()
        return position

    @property
    def success(self) -> bool:
        """True while the cube is lifted."""
        return bool(self._data.qpos[self._cube_position_index + 2] > SUCCESS_HEIGHT_M)

    @property
    def sim_time_s(self) -> float:
        """Simulated time since `reset`."""
        return float(self._data.time)

    def close(self) -> None:
        """Free the OpenGL context, if there is one."""
        if self._renderer is not None:
            self._renderer.close()


def _with_one_gripper(values: Float64Array) -> Float64Array:
    """Replace the two fingers of `[7]` by their mean."""
    return np.array([*values[:5], values[5:].mean()])
