# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two joints, each with a trajectory controller of its own, and the rows that these were handed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from remote_inference.core.robot.motion.horizon import Horizon
from remote_inference.core.robot.motion.step_reference import StepReference
from remote_inference.core.robot.queue.action_queue import ActionQueue
from remote_inference.core.robot.queue.interpolation import Interpolation
from remote_inference.core.robot.safety.guard import Guard
from support.builders import PERIOD_NS, make_contract, make_rows, ns
from support.robot.played_trajectory import feed

FIRST, SECOND, NOBODY = np.array([True, False]), np.array([False, True]), np.zeros(2, bool)
ROWS = 4
MAX_ACTION_AGE_NS = ns(3.0)


class TwoArms:
    """Two joints, each with a trajectory controller of its own, that may be handed four rows at time 0."""

    def __init__(
        self, controllers: Sequence[str] = ("first", "second"), max_action_age_ns: int = MAX_ACTION_AGE_NS
    ) -> None:
        """controllers: of trajectories; the first is that of the first joint."""
        self.contract = make_contract()
        self.queue = ActionQueue()
        feed(self.queue, make_rows(ROWS, first=0.01))
        self.guard = Guard(self.contract.actions, self.contract.period_s)
        self.reference = StepReference(self.guard.masks)
        self.reference.take(np.zeros(2), NOBODY)
        self.horizon = Horizon(
            dict(zip(controllers, (FIRST, SECOND), strict=False)),
            Interpolation(self.queue, self.contract.action_units, 1, is_linear=False),
            self.guard,
            period_ns=PERIOD_NS,
            max_action_age_ns=max_action_age_ns,
        )

    def hand_over(
        self, now_ns: int = 0, *, unheard: np.ndarray = NOBODY, alone: bool = False, lag_ns: int = 0
    ) -> np.ndarray:
        return self.horizon.hand_over(
            np.zeros(2), now_ns, 1.0, 0, unheard=unheard, alone=alone, lag_ns=lag_ns
        )

    @property
    def ends_ns(self) -> tuple[int, int]:
        """Until when each joint's controller goes on."""
        return self.horizon.goes_on_ns(FIRST), self.horizon.goes_on_ns(SECOND)
