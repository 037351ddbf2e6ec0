# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of two joints that has nothing to execute, and is asked moment by moment what is commanded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.motion.horizon import Horizon
from remote_inference.core.robot.motion.step_reference import StepReference
from remote_inference.core.robot.motion.stopping import Moment, Stopping
from remote_inference.core.robot.queue.action_queue import ActionQueue
from remote_inference.core.robot.queue.interpolation import Interpolation
from remote_inference.core.robot.safety.guard import Guard
from remote_inference.core.robot.tick import Tick
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, PERIOD_NS, contract_document
from support.robot.two_arms import NOBODY

STOPS = 3
UNSEEN = 5  # ticks


class StoppedRobot:
    """What stops two joints, each with a controller of its own, and the moments in which it is asked."""

    def __init__(
        self, kinds: Sequence[str], fallback: str, types: Sequence[str] = (), **sections: Any
    ) -> None:
        """types: of the controllers' messages, arrays unless given. sections: other ones of the contract."""
        document = contract_document(kinds[0])
        document["actions"]["limits"][JOINTS[1]]["kind"] = kinds[1]
        document["commands"] = [
            {"topic": name, "type": kind, "names": [name]}
            for name, kind in zip(JOINTS, types or [FLOAT64_MULTI_ARRAY] * 2, strict=True)
        ]
        self.contract = parse_document(document | sections, Contract, "test.contract.yaml")
        self.guard = Guard(self.contract.actions, self.contract.period_s)
        self.reference = StepReference(self.guard.masks)
        self.reference.take(np.zeros(2), unheard=NOBODY)
        self.horizon = Horizon(
            {
                sink.destination: np.array([name in sink.names for name in JOINTS])
                for sink in self.contract.commands
                if sink.interface.takes_horizon
            },
            Interpolation(ActionQueue(), self.contract.action_units, 1, is_linear=False),
            self.guard,
            period_ns=PERIOD_NS,
            max_action_age_ns=0,
        )
        self.stopping = Stopping(
            fallback,
            self.guard.masks,
            self.reference,
            self.guard,
            self.horizon,
            period_s=self.contract.period_s,
            stops_in_all=STOPS,
            unseen_in_all=UNSEEN,
        )

    def stop(self, **moment: Any) -> Tick:
        return self.stopping.stop(self.moment(**moment))

    def fall_back(self, **moment: Any) -> Tick:
        return self.stopping.fall_back(self.moment(**moment), ())

    def moment(self, measured: np.ndarray | None = None, **changes: Any) -> Moment:
        """Return one of a robot that is measured, and heard by all its controllers."""
        known = {
            "now_ns": 0,
            "halted": False,
            "is_late": False,
            "measured": measured,
            "found": measured,
            "seen": measured,
            "unheard": NOBODY,
            "ages_ns": np.zeros(2, np.int64),
        }
        return Moment(**known | changes)

    def count(self, most: int = 4 * STOPS, **moment: Any) -> int:
        """Return in how many ticks a stop is commanded, looking no further than `most`."""
        for tick in range(most):
            if self.stop(**moment).command is None:
                assert not self.stopping.left
                return tick
        return most
