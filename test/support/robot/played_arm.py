# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The control thread's part of a robot by itself: a playback, its queue and its guard."""

from __future__ import annotations

from typing import Any

import numpy as np

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from support.builders import JOINTS, make_contract, make_source
from support.robot.playbacks import make_playback


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
        self.playback = make_playback(contract, self.queue, fallback, **options)
        self.guard = self.playback.rules.guard
        self.now_ns = 0
        self.playback.control.change(measured=np.zeros(2))

    def feed(self, rows: np.ndarray, capture_ns: int = 0, mode: MergeMode = MergeMode.APPEND) -> None:
        feed(self.queue, rows, capture_ns, mode)


def feed(queue: ActionQueue, rows: np.ndarray, capture_ns: int, mode: MergeMode = MergeMode.APPEND) -> None:
    queue.merge(make_source(capture_ns=capture_ns), rows, rows, mode, latency_steps=0, executed_before=0)


TWO_CONTROLLERS = [
    {"topic": f"{joint}/commands", "type": "std_msgs/msg/Float64MultiArray", "names": [joint]}
    for joint in JOINTS
]
