# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which actions are treated alike, by their kinds: one table of masks for all that looks at them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from remote_inference.base.contract.action_kinds import GOING_ON, STAYING, Kind
from remote_inference.base.contract.actions import Actions
from remote_inference.robot.command import BoolArray
from remote_inference.robot.pose_geometry import Poses


@dataclass(frozen=True)
class ActionMasks:
    """Masks `[action_dim]` of a contract's actions. Build it once: `Guard` has it for all others.

    holds: positions and poses, which stay at their last command by themselves, can be measured in the
    commands' unit and step from where they are. goes_on: velocities and efforts, which go on in silence until
    they get zero. is_switch: neither of them: a switch stays at its last command whatever happens.
    """

    kinds: tuple[Kind, ...]
    is_position: BoolArray
    is_velocity: BoolArray
    is_switch: BoolArray
    is_pose: BoolArray
    holds: BoolArray
    goes_on: BoolArray
    poses: Poses

    @classmethod
    def of(cls, actions: Actions) -> ActionMasks:
        """Return the masks of a contract's actions."""
        kinds = actions.kinds

        def mask(*wanted: Kind) -> BoolArray:
            return np.array([kind in wanted for kind in kinds])

        return cls(
            kinds,
            is_position=mask("position"),
            is_velocity=mask("velocity"),
            is_switch=mask("switch"),
            is_pose=mask("pose"),
            holds=mask(*STAYING),
            goes_on=mask(*GOING_ON),
            poses=Poses(actions.poses, actions.names),
        )
