# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether the joints follow their commands: drives that are off, or a controller that is inactive, show here.

Steps that are bounded against the last command alone would lead away from an arm that stands still, and the
arm would jump when its drives come back.
"""

from __future__ import annotations

import numpy as np

from remote_inference.core.contract.sections import Actions, JointLimit
from remote_inference.core.robot.command import Float64Array
from remote_inference.core.robot.motion.step_reference import Joints

# By default a joint may be as far from its command as it gets at max_velocity in this time [s]: four times as
# far as the joints of the belt arm ever lag (0.06 s).
LAG_S = 0.25
RETRY_NS = 1_000_000_000  # pause before a joint that does not follow is offered single steps


def _bound(limit: JointLimit) -> float:
    if limit.max_following_error == "off":
        return np.inf
    return limit.max_following_error or LAG_S * limit.fastest


class FollowingWatch:
    """Watches the distance of position-controlled joints from their last command. For one thread."""

    def __init__(self, actions: Actions, period_s: float) -> None:
        limits = [actions.limits[name] for name in actions.names]
        self._names = actions.names
        speeds = [limit.max_velocity or 0.0 for limit in limits]  # 0: of a switch, which follows always
        self._max_velocity = np.array(speeds)
        self._bound = np.array([_bound(limit) for limit in limits])
        self._least_move = self._max_velocity * period_s
        self._astray = np.zeros(len(limits), bool)
        self._from = np.zeros(len(limits))  # where each joint was when it was found astray
        self._retry_ns = 0

    @property
    def astray(self) -> tuple[str, ...]:
        """Names of the joints that did not follow and have not moved since."""
        return tuple(name for name, astray in zip(self._names, self._astray, strict=True) if astray)

    def forget(self) -> None:
        """Judge anew from the next command on."""
        self._astray = np.zeros_like(self._astray)

    def look(
        self, command: Float64Array, measured: Float64Array, led: Joints, *, age_s: float, now_ns: int
    ) -> tuple[Joints, Joints]:
        """Return the joints whose last command does not hold, and those that must not be led on now.

        command: the last one. measured: the joints' positions, `age_s` old. led: joints for which the command
        holds. After a pause the joints may be led on, from where they are measured in each tick: a controller
        that holds its joint moves it only when commanded. A joint that has moved by a step follows again.
        """
        allowed = self._bound + self._max_velocity * age_s
        lost = led & (np.abs(command - measured) > allowed)
        if lost.any():
            self._from = np.where(lost & ~self._astray, measured, self._from)
            self._astray = self._astray | lost
            self._retry_ns = now_ns + RETRY_NS
        lost = self._astray
        self._astray = lost & (np.abs(measured - self._from) <= self._least_move)
        return lost, self._astray & (now_ns < self._retry_ns)
