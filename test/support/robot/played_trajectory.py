# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A playback whose joints go to trajectory controllers, and one that was stuck for a second."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from support.builders import (
    FPS,
    JOINT_TRAJECTORY,
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    make_rows,
    make_source,
    ns,
)
from support.robot import playbacks

GIVEN_UP_AFTER_NS = ns(0.25)


def make_playback(
    queue: ActionQueue,
    *,
    types: tuple[str, str] = (JOINT_TRAJECTORY, JOINT_TRAJECTORY),
    fallback: str = "hold",
    ticks_per_row: int = 1,
    fps: float = FPS,
    **changes: int,
) -> Playback:
    """Return a playback, unpaused at zero, whose two joints go to controllers of these types.

    changes: of the rules.
    """
    document = contract_document(fps=fps / ticks_per_row, ticks_per_row=ticks_per_row)
    document["commands"] = [
        {"topic": f"{name}/commands", "type": kind, "names": [name]}
        for name, kind in zip(JOINTS, types, strict=True)
    ]
    contract = parse_document(document, Contract, "test.contract.yaml")
    changes = {"given_up_after_ns": GIVEN_UP_AFTER_NS} | changes
    playback = playbacks.make_playback(contract, queue, fallback, **changes)
    playback.control.change(measured=np.zeros(2))
    return playback


def feed(queue: ActionQueue, rows: np.ndarray, capture_ns: int = 0) -> None:
    source = make_source(capture_ns=capture_ns)
    queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)


def horizon_of(tick: Tick) -> np.ndarray:
    assert tick.horizon is not None
    assert tick.command is not None
    assert tick.horizon[0] == pytest.approx(tick.command)
    return tick.horizon


def stalled(*, period_ns: int = PERIOD_NS, **options: float) -> Playback:
    """Return a playback whose control thread was stuck for a second, after a tick at zero.

    The arm was stopped meanwhile, nobody knows where; the last measurement is from before.
    """
    queue = ActionQueue()
    feed(queue, make_rows(round(1.5e9 / period_ns), step=0.4 * MAX_STEP))
    playback = make_playback(queue, **options)
    playback.control.change(measured=np.zeros(2), measured_ns=0)
    playback.tick(0)
    return playback
