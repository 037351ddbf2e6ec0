# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the next step of each joint begins: at its last command, or where the joint is measured.

A joint is the target of an action, also of one that commands a velocity or an effort. A pose begins where it
is as a whole: where one of its seven actions is lost, all of them are.
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.robot.action_masks import ActionMasks
from remote_inference.core.robot.command import Float64Array

Joints = np.ndarray  # mask `[action_dim]`


class StepReference:
    """The last command, and the joints that may be elsewhere. For one thread."""

    def __init__(self, masks: ActionMasks) -> None:
        """masks: of the actions. What holds steps from where it is measured, a switch from no number: NaN."""
        self._holds = masks.holds
        self._is_switch = masks.is_switch
        self._poses = masks.poses
        self._astray = np.zeros(len(masks.holds), bool)
        self._strays = np.zeros(
            len(masks.holds), bool
        )  # of these, those whose controllers have the last command
        self._is_doubted = self._strays  # of these, those that rest at the last command, whatever is measured
        self._forgotten = False
        self.last: Float64Array | None = None  # last command `[action_dim]`, None before the first
        self._kept: Float64Array | None = None

    @property
    def forgotten(self) -> bool:
        """True when another may have moved the robot since its last command."""
        return self._forgotten or self.last is None

    @property
    def led(self) -> Joints:
        """Joints that should be at the last command, or on their way there: positions and poses only."""
        return np.zeros_like(self._astray) if self.forgotten else self._holds & ~self._astray

    @property
    def has_lost(self) -> Joints:
        """Joints that may be anywhere but at the last command."""
        return self._astray

    def forget(self) -> None:
        """Begin the next step of each joint where it is measured: another may have moved the robot."""
        self._forgotten = True

    def lose_all(self) -> None:
        """Take no joint for where it was commanded, nor any controller for having the command."""
        self._forgotten = True
        self._astray = np.ones_like(self._astray)
        self._strays = self._is_doubted = np.zeros_like(self._astray)

    def distrust(self, joints: Joints) -> None:
        """Take no measurement of joints that do not follow for where they rest: it is their last command."""
        self._is_doubted = self._is_doubted | (joints & self._strays)

    def lose(self, joints: Joints) -> None:
        """Take joints that do not follow their last command, and will not when they are heard again."""
        self._astray |= self._poses.whole(joints)

    def stray(self, joints: Joints) -> None:
        """Take joints that do not follow their last command, which their controllers have: as of `lose`."""
        joints = self._poses.whole(joints)
        self._strays = self._strays | joints
        self._astray |= joints

    @property
    def strays(self) -> Joints:
        """Joints that do not follow their last command, which their controllers have."""
        return self._strays

    def way_back(self, measured: Float64Array | None) -> tuple[Float64Array, Float64Array] | None:
        """Return begin and end of the way on which joints that do not follow are led back; others stay.

        It leads from the last command to where they are measured. None when each follows, or when it is not
        known where they are.
        """
        if self.last is None or measured is None or self._forgotten or not self._strays.any():
            return None
        lost = self._astray & self._holds
        return np.where(lost & ~self._strays, measured, self.last), np.where(lost, measured, self.last)

    def keep(self) -> None:
        """Remember the last command, for `take_back`."""
        self._kept = self.last

    def take_back(self) -> None:
        """Take that no command left since `keep`. Where the joints are, only a measurement says."""
        self.last = self._kept

    def take(self, command: Float64Array, unheard: Joints) -> None:
        """Take a command that the joints follow from now on, but for those whose controller is absent."""
        self.last = command
        self._forgotten = False
        self._astray = self._poses.whole(unheard.copy())
        self._strays = self._is_doubted = np.zeros_like(self._astray)

    def stop_others(self) -> Float64Array:
        """Return the last command with zeros for velocities and efforts; of others nothing new is known."""
        assert self.last is not None, "stops follow a command"
        self.last = np.where(self._holds | self._is_switch, self.last, 0.0)
        return self.last

    def reach(self, joints: Joints, position: Float64Array) -> None:
        """Take positions to which controllers have led some joints by themselves."""
        assert self.last is not None, "a controller is led before it goes on by itself"
        self.last = np.where(joints, position, self.last)

    def start(self, measured: Float64Array | None) -> Float64Array | None:
        """Return where the next step begins `[action_dim]`, None when some joint may be anywhere."""
        return self._find(self._astray | self.forgotten, measured)

    def rest(
        self, joints: Joints, measured: Float64Array | None, seen: Float64Array | None, unheard: Joints
    ) -> Float64Array | None:
        """Return where joints rest if nothing moves them any more, None when one of them may be anywhere.

        joints: mask; nothing is said of others. measured, seen: NaN for joints that may be anywhere. Unlike
        `start`, it trusts a forgotten command: controllers that followed it are still there. For joints whose
        controller is absent, which nothing moves, it is enough that they were seen lately.
        """
        astray = self._astray & joints & ~self._is_doubted
        moving = astray & self._holds
        found = measured if (moving & ~unheard).any() else seen
        if found is not None and np.isnan(found[moving]).any():
            found = None
        return self._find(astray, found)

    def _find(self, elsewhere: Joints, measured: Float64Array | None) -> Float64Array | None:
        elsewhere = elsewhere & ~self._is_switch
        if self.last is not None and not elsewhere.any():
            return self.last
        if measured is not None:
            found = np.where(self._holds, measured, 0.0)
        elif (self._holds if self.last is None else self._holds & elsewhere).any():
            return None
        else:
            found = np.zeros(len(elsewhere))
        if self.last is None:
            return np.where(self._is_switch, np.nan, found) if self._is_switch.any() else found
        return np.where(elsewhere, found, self.last)
