# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Playbacks by themselves: of a contract, with other rules than a robot's where a test says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.fallbacks import FALLBACKS
from remote_inference.robot.motion.command_mode import HumanCommands, StopInputs
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.safety.guard import Guard
from remote_inference.robot.step_lock import StepLock
from support.builders import make_config, ns

MAX_AGE_NS = ns(3.0)


def make_rules(contract: Contract, fallback: str = "hold", **changes: Any) -> MotionRules:
    """Return the rules of a robot that waits for nothing, but for changes by name."""
    rules = MotionRules.of(contract, Guard(contract.actions, contract.period_s), make_config())
    given_up_ns = changes.setdefault("given_up_after_ns", MAX_AGE_NS)
    known = {
        "fallback": FALLBACKS.get(fallback)(),
        "max_action_age_ns": MAX_AGE_NS,
        "max_sensor_age_ns": ns(0.5),
        "late_after_ns": given_up_ns,
    }
    return replace(rules, **known | changes)


def make_queue(contract: Contract, lock: StepLock | None = None) -> ActionQueue:
    """Return an empty queue for the actions of a contract."""
    return ActionQueue(lock=lock, to_robot=contract.action_units.to_robot)


def make_playback(
    contract: Contract,
    queue: ActionQueue,
    fallback: str = "hold",
    *,
    stops: StopInputs | None = None,
    human: HumanCommands | None = None,
    lock: StepLock | None = None,
    **changes: Any,
) -> Playback:
    """Return a playback that is not paused. changes: of the rules, as of `make_rules`."""
    rules = make_rules(contract, fallback, **changes)
    playback = Playback(rules, queue, stops=stops, human=human, lock=lock)
    playback.control.change(paused=False)
    return playback
