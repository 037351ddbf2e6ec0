# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread's part of a robot by itself: a playback, its queue and its guard."""

from __future__ import annotations

from typing import Any

import numpy as np

from remote_inference.core.contract.contract import Contract
from remote_inference.core.robot.motion.playback import Playback
from remote_inference.core.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.core.robot.safety.guard import Guard
from support.builders import JOINTS, PERIOD_NS, make_contract, make_source, ns

MAX_AGE_NS = ns(3.0)
AGES = {"max_action_age_ns": MAX_AGE_NS, "max_sensor_age_ns": ns(0.5), "given_up_after_ns": MAX_AGE_NS}


class Arm:
    """A playback with its queue, unpaused, at zero."""

    def __init__(
        self,
        fallback: str = "hold",
        kind: str = "position",
        queue: ActionQueue | None = None,
        contract: Contract | None = None,
        **options: Any,
    ):
        contract = contract or make_contract(kind)
        self.queue = ActionQueue() if queue is None else queue
        self.guard = Guard(contract.actions, PERIOD_NS / 1e9)
        self.playback = Playback(self.queue, self.guard, contract, fallback=fallback, **AGES | options)
        self.now_ns = 0
        self.playback.control.change(paused=False)
        self.playback.control.change(measured=np.zeros(2))

    def feed(self, rows: np.ndarray, capture_ns: int = 0, mode: MergeMode = MergeMode.APPEND) -> None:
        feed(self.queue, rows, capture_ns, mode)


def feed(queue: ActionQueue, rows: np.ndarray, capture_ns: int, mode: MergeMode = MergeMode.APPEND) -> None:
    queue.merge(make_source(capture_ns=capture_ns), rows, rows, mode, latency_steps=0, executed_before=0)


TWO_CONTROLLERS = [
    {"topic": f"{joint}/commands", "type": "std_msgs/msg/Float64MultiArray", "names": [joint]}
    for joint in JOINTS
]
