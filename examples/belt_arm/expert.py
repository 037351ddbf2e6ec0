# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The scripted expert of the belt arm.

The expert keeps no memory: it plans a whole chunk from the commanded pose and the cube's true position alone,
so it can label any state of an episode. The plan: hover above the cube, descend, close, lift.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from remote_inference.learn.environments.belt_arm import kinematics
from remote_inference.learn.environments.belt_arm.scene import (
    CONTROL_HZ,
    GRIPPER_OPEN_M,
    LIMITS,
    MAX_STEP,
    BeltArm,
)

GRASP_HEIGHT_M = 0.012

_SIDEWAYS_STEP_M = 0.22 / CONTROL_HZ
_VERTICAL_STEP_M = 0.18 / CONTROL_HZ
_GRIPPER_STEP_M = GRIPPER_OPEN_M / 6
_HOVER_HEIGHT_M = 0.075
_LIFT_HEIGHT_M = 0.14
_ABOVE_CUBE_M = 0.012
_AROUND_CUBE_M = 0.022
_LOW_M = 0.03
_CLOSING_BELOW_M = 0.75 * GRIPPER_OPEN_M
_CLOSED_BELOW_M = 0.012
_RELEASED_ABOVE_M = 0.016
_ACTUATOR_LAG_S = 2 / CONTROL_HZ + 0.03


def is_held(arm: BeltArm) -> bool:
    """Return whether the gripper is closed with the cube between its fingers."""
    tip = kinematics.forward(arm.joint_positions().tolist())
    return bool(arm.command[5] <= _CLOSED_BELOW_M and math.dist(tip, arm.cube_position) < 0.03)


def plan_from(arm: BeltArm, horizon: int) -> NDArray[np.float32]:
    """Return the expert's chunk `[horizon, 6]` for the present state of `arm`."""
    return plan(arm.command, arm.cube_position, arm.belt_speed_m_s, is_held(arm), horizon)


def continue_prefix(
    arm: BeltArm, actions: NDArray[np.float32] | None, delay_ticks: int, horizon: int
) -> NDArray[np.float32]:
    """Return the chunk `[horizon, 6]` that goes on from the actions executed within the delay."""
    executed = np.empty((0, 6), np.float32) if actions is None else actions[:delay_ticks]
    return np.concatenate([executed, plan_after(arm, executed, delay_ticks, horizon - len(executed))])


def plan_after(
    arm: BeltArm, actions: NDArray[np.float32], delay_ticks: int, horizon: int
) -> NDArray[np.float32]:
    """Return the expert's chunk `[horizon, 6]` for the moment `delay_ticks` from now.

    actions: joint targets `[n, 6]` executed meanwhile, one a tick; with fewer of them than ticks the arm then
    stands still. What happens is foreseen without physics: the tip is where it is commanded to be, the cube
    moves with the belt or, once the gripper is closed on it, with the tip.
    """
    command, held = arm.command, is_held(arm)
    x, y, z = arm.cube_position.tolist()
    for tick in range(delay_ticks):
        if tick < len(actions):
            command = command + np.clip(actions[tick] - command, -MAX_STEP, MAX_STEP)
            command = np.clip(command, LIMITS.lower, LIMITS.upper)
        tip, gripper = kinematics.forward(command.tolist()), float(command[5])
        held = (held and gripper < _RELEASED_ABOVE_M) or _is_closed_on(tip, gripper, x, y)
        if held:
            x, y = tip[:2]
        else:
            y += arm.belt_speed_m_s / CONTROL_HZ
    return plan(command, (x, y, z), arm.belt_speed_m_s, held, horizon)


def plan(
    command: Sequence[float] | NDArray[np.float64],
    cube_position: Sequence[float] | NDArray[np.float64],
    belt_speed_m_s: float,
    held: bool,
    horizon: int,
) -> NDArray[np.float32]:
    """Return joint targets `[horizon, 6]`, the first for the control tick that starts now.

    command: `[6]` in force. cube_position: `[3]` metres. held: whether the cube is in the gripper.
    """
    *joints, gripper = (float(value) for value in command)
    cube_x, cube_y = float(cube_position[0]), float(cube_position[1])
    tip = kinematics.forward(joints)
    lead = belt_speed_m_s * _ACTUATOR_LAG_S
    held = held or _is_closed_on(tip, gripper, cube_x, cube_y)
    chunk = np.empty((horizon, 6), np.float32)
    for target in chunk:
        if held:
            tip, gripper = _lift(tip, gripper)
        else:
            tip, gripper = _grasp(tip, gripper, cube_x, cube_y + lead)
            held = _is_closed_on(tip, gripper, cube_x, cube_y)
        if not held:
            cube_y += belt_speed_m_s / CONTROL_HZ
        target[:] = (*kinematics.inverse(tip), gripper)
    return chunk


def _is_closed_on(tip: kinematics.Position, gripper: float, cube_x: float, cube_y: float) -> bool:
    distance = math.hypot(cube_x - tip[0], cube_y - tip[1])
    return gripper <= _CLOSED_BELOW_M and distance < _AROUND_CUBE_M and tip[2] < _LOW_M


def _lift(tip: kinematics.Position, gripper: float) -> tuple[kinematics.Position, float]:
    x, y, z = tip
    gripper = max(0.0, gripper - _GRIPPER_STEP_M)
    if gripper < 1e-6:
        z = min(z + _VERTICAL_STEP_M, _LIFT_HEIGHT_M)
    return (x, y, z), gripper


def _grasp(
    tip: kinematics.Position, gripper: float, target_x: float, target_y: float
) -> tuple[kinematics.Position, float]:
    x, y, z = tip
    offset_x, offset_y = target_x - x, target_y - y
    distance = math.hypot(offset_x, offset_y)
    if gripper < _CLOSING_BELOW_M and distance < 0.02 and z < _LOW_M:
        return (target_x, target_y, z), max(0.0, gripper - _GRIPPER_STEP_M)

    share = min(1.0, _SIDEWAYS_STEP_M / max(distance, 1e-9))
    gripper = min(GRIPPER_OPEN_M, gripper + _GRIPPER_STEP_M)
    if distance > _ABOVE_CUBE_M:
        z = _towards(z, _HOVER_HEIGHT_M)
    else:
        z = _towards(z, GRASP_HEIGHT_M)
        if z < GRASP_HEIGHT_M + 0.002 and gripper > 0.99 * GRIPPER_OPEN_M:
            # The first step must end below _CLOSING_BELOW_M, or the next would reopen the gripper.
            gripper -= 1.6 * _GRIPPER_STEP_M
    return (x + offset_x * share, y + offset_y * share, z), gripper


def _towards(height: float, target: float) -> float:
    return height + min(max(target - height, -_VERTICAL_STEP_M), _VERTICAL_STEP_M)
