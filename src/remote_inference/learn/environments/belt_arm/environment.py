# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The belt arm as an environment: its features, the end of an episode, and its metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environment import (
    EnvironmentObservation,
    EnvironmentSpec,
    Feature,
    FeatureKind,
    Metrics,
    Moment,
    Step,
    check_action,
)
from remote_inference.learn.environments.belt_arm import EPISODE_LIMIT_S, scene
from remote_inference.learn.environments.belt_arm.scene import BeltArm

TASK = "pick up the red cube"
STATE = "observation.state"
POINT_CLOUD = "observation.point_cloud"

Build = Callable[[BeltArm], NDArray[Any]]


def _robot_mask(arm: BeltArm, camera: str) -> NDArray[np.uint8]:
    return np.isin(arm.render_bodies(camera), list(arm.robot_bodies)).astype(np.uint8)


def _point_cloud(arm: BeltArm, camera: str) -> NDArray[np.float32]:
    """Return what a camera sees, without the arm, as points `[N, 3]` in the world [m]."""
    depth_m, matrix = arm.render_depth(camera), arm.intrinsics(camera)
    seen = arm.render_bodies(camera)
    rows, columns = np.nonzero((seen >= 0) & ~np.isin(seen, list(arm.robot_bodies)))
    pixels = np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))])
    in_camera = np.linalg.inv(matrix.astype(np.float64)) @ pixels * depth_m[rows, columns]
    pose = arm.camera_to_world(camera).astype(np.float64)
    points = pose[:3, :3] @ in_camera + pose[:3, 3:]
    return np.ascontiguousarray(points.T, np.float32)


def _features() -> Mapping[str, tuple[Feature, Build]]:
    joints, image = (len(scene.JOINT_NAMES),), (scene.IMAGE_HEIGHT, scene.IMAGE_WIDTH)
    features: dict[str, tuple[Feature, Build]] = {
        STATE: (Feature(FeatureKind.STATE, joints), lambda arm: arm.joint_positions().astype(np.float32)),
        "observation.qpos": (Feature(FeatureKind.QPOS, joints), BeltArm.joint_positions),
        "observation.qvel": (Feature(FeatureKind.QVEL, joints), BeltArm.joint_velocities),
        "observation.qacc": (Feature(FeatureKind.QACC, joints), BeltArm.joint_accelerations),
        POINT_CLOUD: (
            Feature(FeatureKind.POINT_CLOUD, (None, 3), "world"),
            partial(_point_cloud, camera=scene.CAMERA_NAMES[0]),
        ),
    }
    of_camera: Mapping[str, tuple[Feature, Callable[..., NDArray[Any]]]] = {
        "": (Feature(FeatureKind.RGB, (*image, 3)), BeltArm.render),
        ".depth": (Feature(FeatureKind.DEPTH, image), BeltArm.render_depth),
        ".segmentation": (Feature(FeatureKind.SEGMENTATION, image, "instance"), BeltArm.render_bodies),
        ".robot_mask": (Feature(FeatureKind.ROBOT_MASK, image), _robot_mask),
        ".intrinsics": (Feature(FeatureKind.INTRINSICS, (3, 3)), BeltArm.intrinsics),
        ".extrinsics": (Feature(FeatureKind.EXTRINSICS, (4, 4), "camera_to_world"), BeltArm.camera_to_world),
    }
    for camera in scene.CAMERA_NAMES:
        for ending, (feature, build) in of_camera.items():
            features[scene.IMAGE_FEATURES[camera] + ending] = (feature, partial(build, camera=camera))
    return features


FEATURES = _features()
SPEC = EnvironmentSpec(
    name="belt_arm",
    control_rate_hz=scene.CONTROL_HZ,
    actions=scene.LIMITS,
    state_names=scene.JOINT_NAMES,
    features={name: feature for name, (feature, _) in FEATURES.items()},
    tasks=(TASK,),
    episode_limit_s=EPISODE_LIMIT_S,
)


class BeltArmEnvironment:
    """Lift the cube before the belt carries it away: reward 1 for the step that lifts it."""

    spec = SPEC

    def __init__(self) -> None:
        self._arm = BeltArm()
        self._wanted: tuple[str, ...] = ()
        self._success_s = math.nan
        self._largest_height_m = 0.0

    def reset(self, seed: int, task: str, wanted: Sequence[str]) -> EnvironmentObservation:
        self.spec.check_task(task)
        self.spec.check_wanted(wanted)
        self._arm.reset(seed)
        self._wanted = tuple(wanted)
        self._success_s = math.nan
        self._largest_height_m = float(self._arm.cube_position[2])
        return self.observe()

    def step(self, action: NDArray[np.floating[Any]]) -> Step:
        succeeded_before = self._succeeded
        self._arm.step(check_action(self.spec, action))
        self._judge()
        lifted = self._succeeded and not succeeded_before
        return Step(
            self.observe(), float(lifted), self._succeeded, not self._succeeded and self._is_at_its_limit
        )

    def advance(self, action: NDArray[np.floating[Any]], time_s: float) -> Moment:
        self._arm.set_command(check_action(self.spec, action))
        self._arm.advance_to(time_s)
        self._judge()
        ended = self._succeeded or self._is_at_its_limit
        return Moment(self._arm.sim_time_s, float(self._succeeded), ended)

    def metrics(self) -> Metrics:
        values = {"largest_height_m": self._largest_height_m}
        if self._succeeded:
            values["success_s"] = self._success_s
        return Metrics(self._succeeded, values)

    def render(self) -> NDArray[np.uint8]:
        return self._arm.render(scene.CAMERA_NAMES[0])

    def close(self) -> None:
        self._arm.close()

    def observe(self) -> EnvironmentObservation:
        values = {name: FEATURES[name][1](self._arm) for name in self._wanted}
        return EnvironmentObservation(values, self._arm.sim_time_s)

    @property
    def _succeeded(self) -> bool:
        return not math.isnan(self._success_s)

    @property
    def _is_at_its_limit(self) -> bool:
        return self._arm.sim_time_s >= self.spec.episode_limit_s - 1e-9

    def _judge(self) -> None:
        self._largest_height_m = max(self._largest_height_m, float(self._arm.cube_position[2]))
        if self._arm.success and not self._succeeded:
            self._success_s = self._arm.sim_time_s
