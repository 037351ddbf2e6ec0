# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Guards with bounds of acceleration and jerk, and what they make of what is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from remote_inference.base.contract.actions import Actions
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.safety.acceleration import Motion
from remote_inference.robot.safety.guard import Guard
from support.builders import JOINTS, contract_document
from support.robot.pose_robot import pose_section

LIMIT, VELOCITY, ACCELERATION, JERK = 1.5, 2.0, 10.0, 150.0
ROUNDING = 1e-6
Targets = Iterator[tuple[np.ndarray, np.ndarray | None, float]]


def document_of(kind: str = "position", **bounds: Any) -> dict[str, Any]:
    document = contract_document(kind)
    limit = {
        "min": -LIMIT,
        "max": LIMIT,
        "max_velocity": VELOCITY,
        "max_acceleration": ACCELERATION,
        **bounds,
    }
    document["actions"]["limits"] = {name: dict(limit) for name in JOINTS}
    return document


def make_contract(kind: str = "position", command: str = "", **bounds: Any) -> Contract:
    document = document_of(kind, **bounds)
    document["commands"][0]["type"] = command or document["commands"][0]["type"]
    return parse_document(document, Contract, "bounded.contract.yaml")


def make_guard(period_s: float, kind: str = "position", **bounds: Any) -> Guard:
    return Guard(make_contract(kind, **bounds).actions, period_s)


def goes_on(guard: Guard, target: np.ndarray, onward: np.ndarray) -> np.ndarray:
    """Return where a straight plan goes on, `[ticks, 2]`. onward: in the next tick."""
    return target + np.array(guard.bounds.ahead)[:, np.newaxis] * (onward - target)


def follow(guard: Guard, plan: np.ndarray, begin: np.ndarray | None = None) -> tuple[np.ndarray, list[bool]]:
    """Return the commands for a plan `[ticks + 1, 2]`, from rest, and which of them were altered."""
    plan, ahead = plan[:-1], guard.bounds.look_ahead(plan)[:-1]
    command, motion = plan[0] if begin is None else begin, Motion.rest(2)
    commands, altered = [], []
    for target, onward in zip(plan, ahead, strict=True):
        guarded = guard.check(target, command, motion=motion, onward=onward)
        assert guarded.action is not None
        command, motion = guarded.action, guarded.motion
        commands.append(command)
        altered.append(guarded.interventions != ())
    return np.array(commands), altered


def play(guard: Guard, targets: Targets, ticks: int = 400) -> np.ndarray:
    """Return the commands of ticks from rest at zero `[ticks + 1, 2]`."""
    command, motion, commands = np.zeros(2), Motion.rest(2), [np.zeros(2)]
    for _ in range(ticks):
        target, onward, scale = next(targets)
        ahead = None if onward is None else goes_on(guard, target, onward)
        guarded = guard.check(target, command, velocity_scale=scale, motion=motion, onward=ahead)
        assert guarded.action is not None
        assert guarded.motion is not None
        command, motion = guarded.action, guarded.motion
        commands.append(command)
    return np.array(commands)


def differences(commands: np.ndarray, period_s: float, order: int) -> np.ndarray:
    """Return a difference of commands that begin at rest, over the period."""
    padded = np.vstack([*order * [commands[:1]], commands])
    return np.diff(padded, n=order, axis=0) / period_s**order


def pose_guard(period_s: float, **bounds: float) -> Guard:
    names = ("x", "y", "z", "qx", "qy", "qz", "qw")
    bounds = {"max_acceleration": 2.0, "max_angular_acceleration": 8.0, **bounds}
    pose = pose_section(**bounds)
    pose |= {"position": tuple(pose["position"]), "quaternion": tuple(pose["quaternion"])}
    pose |= {"min": tuple(pose["min"]), "max": tuple(pose["max"])}
    document = {"kind": "position", "names": names, "limits": {}, "poses": {"tool": pose}}
    return Guard(Actions.model_validate(document), period_s)


def spin(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Return the rotation vector between unit quaternions, by Hamilton's product."""
    (x, y, z, w), (a, b, c, d) = after, before * [-1.0, -1.0, -1.0, 1.0]
    axis = [w * a + x * d + y * c - z * b, w * b - x * c + y * d + z * a, w * c + x * b - y * a + z * d]
    real = w * d - x * a - y * b - z * c
    sine = np.linalg.norm(axis)
    return np.array(axis) * (2.0 * np.arctan2(sine, real) / sine if sine > 1e-12 else 2.0)
