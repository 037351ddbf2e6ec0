# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of two joints that has nothing to execute, and is asked moment by moment what is commanded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.motion.emit import Outcome, fall_back, stop
from remote_inference.robot.motion.estimate import Estimate
from remote_inference.robot.motion.state import Tick
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document
from support.robot.motions import NOBODY, Motion
from support.robot.playbacks import make_rules

STOPS = 3
UNSEEN = 5  # ticks
OLD_NS = -1_000_000_000


class StoppedRobot(Motion):
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
        contract = parse_document(document | sections, Contract, "test.contract.yaml")
        super().__init__(make_rules(contract, fallback, stops_in_all=STOPS, unseen_in_all=UNSEEN))
        self.follow(0.0, 0.0)

    @property
    def must_stop(self) -> bool:
        return self.state.sent.must_stop

    def pend(self, stops: int = STOPS) -> None:
        """Let stops be pending for what was commanded."""
        self.state = self.state.pend(stops)

    def keep_going(self, until_ns: int) -> None:
        """Let both trajectories go on until then."""
        ahead = replace(self.state.sent.look_ahead, end_ns=until_ns, ends_ns=np.full(2, until_ns))
        self.state = self.state.send(look_ahead=ahead)

    def stop(self, **moment: Any) -> Tick:
        """Return what a stop commands in a moment, as of `look`."""
        found = self.look(**moment)
        return self._take(stop(self.state, found, self.rules))

    def fall_back(self, **moment: Any) -> Tick:
        """Return what the fallback commands in a moment, as of `look`."""
        found = self.look(**moment)
        return self._take(fall_back(self.state, found, self.rules, ()))

    def _take(self, outcome: Outcome) -> Tick:
        self.state = outcome.state
        return outcome.tick

    def look(
        self,
        measured: np.ndarray | None = None,
        *,
        seen: np.ndarray | None = None,
        now_ns: int = 0,
        halted: bool = False,
        is_late: bool = False,
        unsubscribed: np.ndarray = NOBODY,
    ) -> Estimate:
        """Return what a tick knows. seen: where each joint was measured lately, if that is not known now."""
        operator = replace(self.state.operator, paused=False, halted=halted)
        joints = replace(self.state.joints, unsubscribed=unsubscribed)
        timing = replace(self.state.timing, waits=is_late)
        self.state = replace(self.state, operator=operator, joints=joints, timing=timing)
        positions = seen if measured is None else measured
        lately_ns = 0 if measured is None else now_ns
        times_ns = (
            np.full(2, lately_ns) if positions is None else np.where(np.isnan(positions), OLD_NS, lately_ns)
        )
        since_ns = now_ns if measured is not None else now_ns + 1
        return Estimate(now_ns, measured, positions, times_ns, since_ns, min(0, now_ns), True, 0, 1.0)

    def count(self, most: int = 4 * STOPS, **moment: Any) -> int:
        """Return in how many ticks a stop is commanded, looking no further than `most`."""
        for tick in range(most):
            if self.stop(**moment).command is None:
                assert not self.must_stop
                return tick
        return most
