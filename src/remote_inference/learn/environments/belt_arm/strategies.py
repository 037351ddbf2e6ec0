# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Strategies for late chunks, as parameters of the robot's node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """One way to execute late chunks; the demo and the simulator's study compare them."""

    name: str
    label: str  # in pictures and tables
    help: str
    policy: str  # folder of config/models that the demo serves with it
    parameters: Mapping[str, str | float]  # of the robot's node
    sends_prefix: bool = False  # in the study alone: a robot's requests carry the prefix at all times


_TRIM: dict[str, str | float] = {"merge_mode": "replace", "delay_policy": "consumed"}
# Chunks of the plain policies last 1.33 s. Their first one comes late to a standing arm; the sooner another
# replaces it the better: 8 cubes of 10 at 450 ms, 1 when ten of its actions are executed first.
_PLAIN_BUFFER: dict[str, str | float] = {"buffer_time_s": 1.3}
# Those of the trained ones last 2.33 s. Ten actions of each plan are executed: an arm that plans anew in each
# tick wavers.
_TRAINED_BUFFER: dict[str, str | float] = {"buffer_time_s": 2.0}

BLOCKING = Strategy(
    "blocking",
    "stop and wait",
    "stop to ask, then execute ten actions, a third of a second, as users of synchronous inference do",
    "belt_arm_plain",
    {"merge_mode": "replace", "request_mode": "blocking", "execution_horizon": 10},
)
NO_TRIM = Strategy(
    "no_trim",
    "async, no trim",
    "requests overlap motion; the chunk replaces the queue from its first action",
    "belt_arm_plain",
    {"merge_mode": "replace", "delay_policy": "none", **_PLAIN_BUFFER},
)
TRIM = Strategy(
    "trim",
    "async + delay trim",
    "requests overlap motion; actions for ticks in which the arm moved meanwhile are dropped",
    "belt_arm_plain",
    _TRIM | _PLAIN_BUFFER,
)
GUIDANCE = Strategy(
    "guidance",
    "RTC by guidance",
    "as trim, and a flow policy is guided towards the actions still to execute",
    "belt_arm_guidance",
    _TRIM | _PLAIN_BUFFER,
    sends_prefix=True,
)
TRAINED = Strategy(
    "trained",
    "RTC by training",
    "as trim, and the policy was trained with the actions still to execute and the delay as inputs",
    "belt_arm",
    _TRIM | _TRAINED_BUFFER,
    sends_prefix=True,
)

STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy for strategy in (BLOCKING, NO_TRIM, TRIM, GUIDANCE, TRAINED)
}
