# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Closed-form kinematics of the belt arm with the hand pointing straight down.

Shoulder, elbow and wrist move in one vertical plane that `shoulder_pan` turns, so the inverse solves a
two-link triangle. Positions are in metres in the base frame, joints in radians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

SHOULDER_HEIGHT_M = 0.10
UPPER_ARM_M = 0.16
LOWER_ARM_M = 0.16
HAND_M = 0.13
"""From the wrist joint to the tip between the fingers."""

_MIN_REACH_M = 0.06
_MAX_REACH_M = 0.31  # near the straight arm, at 0.32, the elbow moves too fast

Position = tuple[float, float, float]
ArmJoints = tuple[float, float, float, float, float]


def forward(joints: Sequence[float]) -> Position:
    """Return the tip position of `joints`: pan, lift, elbow, wrist flex. Later joints do not move the tip."""
    pan, lift, elbow, wrist = joints[:4]
    upper, lower, hand = lift, lift + elbow, lift + elbow + wrist
    radius = UPPER_ARM_M * math.sin(upper) + LOWER_ARM_M * math.sin(lower) + HAND_M * math.sin(hand)
    height = UPPER_ARM_M * math.cos(upper) + LOWER_ARM_M * math.cos(lower) + HAND_M * math.cos(hand)
    return radius * math.cos(pan), radius * math.sin(pan), SHOULDER_HEIGHT_M + height


def inverse(tip: Sequence[float]) -> ArmJoints:
    """Return the elbow-up joints that put the tip at `tip`, without a roll.

    If `tip` is out of reach, the wrist stops on the line from the shoulder to its target.
    """
    x, y, z = tip
    radius = math.hypot(x, y)
    rise = z + HAND_M - SHOULDER_HEIGHT_M
    reach = min(max(math.hypot(radius, rise), _MIN_REACH_M), _MAX_REACH_M)
    lift = math.atan2(radius, rise) - _triangle_angle(UPPER_ARM_M, reach, LOWER_ARM_M)
    elbow = math.pi - _triangle_angle(UPPER_ARM_M, LOWER_ARM_M, reach)
    return math.atan2(y, x), lift, elbow, math.pi - lift - elbow, 0.0


def _triangle_angle(side_a: float, side_b: float, opposite: float) -> float:
    cosine = (side_a**2 + side_b**2 - opposite**2) / (2.0 * side_a * side_b)
    return math.acos(min(max(cosine, -1.0), 1.0))
