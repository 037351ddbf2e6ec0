# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What may happen to a chunk that took a while to arrive, as parameters of the robot's node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """One way to execute late chunks; the demo and the simulator's study compare them."""

    name: str
    label: str  # in pictures and tables
    help: str
    parameters: Mapping[str, str | int]  # of the robot's node
    sends_prefix: bool = False  # in the study alone: a robot's requests carry the prefix at all times


BLOCKING = Strategy(
    "blocking",
    "stop and wait",
    "stop to ask, then execute ten rows, a third of a second, as users of synchronous inference do",
    {"merge_mode": "replace", "request_mode": "blocking", "execution_horizon": 10},
)
NO_TRIM = Strategy(
    "no_trim",
    "async, no trim",
    "requests overlap motion; the chunk replaces the queue from its first row",
    {"merge_mode": "replace", "delay_policy": "none"},
)
TRIM = Strategy(
    "trim",
    "async + delay trim",
    "requests overlap motion; rows for ticks in which the arm moved meanwhile are dropped",
    {"merge_mode": "replace", "delay_policy": "consumed"},
)
RTC = Strategy(
    "rtc",
    "async + RTC",
    "as trim, and the policy continues the rows still to execute",
    TRIM.parameters,
    sends_prefix=True,
)

# What the robot's parameters tell apart, each once.
ROBOT_STRATEGIES: Mapping[str, Strategy] = {strategy.name: strategy for strategy in (BLOCKING, NO_TRIM, TRIM)}
