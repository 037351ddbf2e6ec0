# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a random world needs with a pose in place of its first joint: contract, policy and places."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.policy import Float32Array
from remote_inference.base.rotations import ROTATION_FORMS
from support.builders import JOINTS
from support.robot.pose_robot import BOX, POSE, pose_section, pose_state, rotation_of

NAMES = (*POSE, JOINTS[1])  # of the actions, and of what the policy sees
SPEED, TURN = 0.5, 2.0  # m/s, rad/s
NO_ORIENTATION = 0.01  # of a policy's rows
TURNED, RELATIVE = 0.5, 0.3  # of the poses: said in another form than a quaternion, and as motions
MOTION = 0.1  # of the way across the box that a motion is long


def choose_form(rng: random.Random) -> dict[str, Any]:
    """Return what a contract says of how a policy says a pose."""
    section: dict[str, Any] = {}
    if rng.random() < TURNED:
        section["rotation"] = rotation_of(rng.choice(ROTATION_FORMS.names))
    if rng.random() < RELATIVE:
        section["relative"] = {
            "to": rng.choice(["chunk_start", "previous"]),
            "frame": rng.choice(["tool", "base"]),
        }
    return section


def put_pose(document: dict[str, Any], form: Mapping[str, Any]) -> None:
    """Let a contract have a pose in place of its first joint, whose command and limits it takes."""
    document["state"][0]["names"] = [JOINTS[1]]
    document["state"].insert(0, pose_state())
    actions = document["actions"]
    del actions["limits"][JOINTS[0]]
    actions["names"] = list(NAMES)
    actions["poses"] = {"tool": pose_section(max_velocity=SPEED, max_angular_velocity=TURN, **form)}
    document["commands"][0]["names"] = list(POSE)


def make_home(rng: random.Random, *, with_joint: bool) -> dict[str, Any]:
    """Return a home of the pose, and of the joint beside it if that is a position."""
    *pose, joint = somewhere(rng, 0.9).tolist()
    return {"poses": {"tool": pose}, "positions": [joint] if with_joint else [], "duration_s": 1.0}


def wave(phase: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return a policy's rows `[rows, 8]` at phases of a wave: quaternions of any sign and length."""
    places = 1.1 * BOX * np.stack([np.sin(phase), np.cos(phase), np.sin(2.0 * phase)], axis=1)
    half = 0.5 * phase
    turns = np.stack([np.sin(half), 0.0 * half, np.sin(half), np.cos(half)], axis=1)
    turns *= np.array([rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 2.0) for _ in phase])[:, np.newaxis]
    turns[[rng.random() < NO_ORIENTATION for _ in phase]] = 0.0
    return np.concatenate([places, turns, 0.9 * np.cos(phase)[:, np.newaxis]], axis=1)


def said(contract: Contract, rows: np.ndarray) -> Float32Array:
    """Return rows `[rows, 8]` as the policy of a contract says them; what says no orientation stays so."""
    if contract.actions.is_relative:
        rows = rows * np.array([*3 * [MOTION], *5 * [1.0]])
    return np.nan_to_num(contract.action_units.to_policy(rows)).astype(np.float32)


def somewhere(rng: random.Random, most: float) -> np.ndarray:
    """Return a pose and a joint's position `[8]`, each number of a place at most `most` times its bound."""
    places = [most * BOX * rng.uniform(-1.0, 1.0) for _ in range(3)]
    turn = np.array([rng.gauss(0.0, 1.0) for _ in range(4)])
    return np.array([*places, *(turn / np.linalg.norm(turn)), most * rng.uniform(-1.0, 1.0)])
