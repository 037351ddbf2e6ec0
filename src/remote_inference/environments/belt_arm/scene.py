# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The belt arm in MuJoCo: six joints, a red cube on a moving belt, and two cameras.

Physics runs at 500 Hz, control at 30 Hz. Joint vectors are float64 `[6]` in the order of `JOINT_NAMES`: five
angles in radians, then the gripper as the travel of each finger in metres (0 closed, 0.035 open).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
from numpy.typing import ArrayLike, NDArray

from remote_inference.environments.belt_arm import kinematics
from remote_inference.environments.belt_arm.rendering import OffscreenRenderer, RenderingUnavailableError

__all__ = [
    "BELT_SPEED_M_S",
    "CAMERA_NAMES",
    "CONTROL_HZ",
    "GRIPPER_OPEN_M",
    "IMAGE_FEATURES",
    "IMAGE_HEIGHT",
    "IMAGE_WIDTH",
    "JOINT_NAMES",
    "LIMITS",
    "MAX_STEP",
    "BeltArm",
    "JointLimits",
    "RenderingUnavailableError",
]

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


@dataclass(frozen=True)
class JointLimits:
    """Bounds per joint in the order of `names`; radians and rad/s, metres and m/s for the gripper."""

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    max_velocity: tuple[float, ...]


LIMITS = JointLimits(
    names=JOINT_NAMES,
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
        return frozenset(
            int(body) for body in range(self._model.nbody) if self._model.body_rootid[body] == root
        )

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
