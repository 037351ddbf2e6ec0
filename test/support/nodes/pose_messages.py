# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Poses `[7]`, x y z and a quaternion x y z w, as PoseStamped and back."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import PoseStamped


def message_of(pose: np.ndarray) -> PoseStamped:
    """Return the message of a pose, without a header."""
    message = PoseStamped()
    place, turn = message.pose.position, message.pose.orientation
    place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w = map(float, pose)
    return message


def pose_of(message: PoseStamped) -> np.ndarray:
    place, turn = message.pose.position, message.pose.orientation
    return np.array([place.x, place.y, place.z, turn.x, turn.y, turn.z, turn.w])
