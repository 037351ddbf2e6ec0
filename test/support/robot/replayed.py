# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays of journals, and what of them must be equal to the run that wrote the journal."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from remote_inference.robot.config import RobotConfig
from remote_inference.robot.journal import Entry
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.replay import Called, Diverged, Outcome, Played, Replay
from remote_inference.robot.safety.effects import Effect

UNCOMPARED = {"client_instance_id", "session_token", "content"}  # not in a journal


def replay(entries: Iterable[Entry], config: RobotConfig | None = None) -> list[Outcome]:
    """Return all outcomes of the replay of a whole journal."""
    begin, *rest = entries
    replayed = Replay(begin.arguments[0], config)
    outcomes = [outcome for entry in rest for outcome in replayed.feed(entry)]
    return [*outcomes, *replayed.finish()]


def ticks_of(outcomes: Iterable[Outcome]) -> list[Tick]:
    return [outcome.tick for outcome in outcomes if isinstance(outcome, Played)]


def effects_of(outcomes: Iterable[Outcome]) -> list[Effect]:
    return [effect for outcome in outcomes if isinstance(outcome, Called) for effect in outcome.effects]


def divergences_of(outcomes: Iterable[Outcome]) -> list[Diverged]:
    return [outcome for outcome in outcomes if isinstance(outcome, Diverged)]


def exact(value: Any) -> Any:
    """Return a value that is equal to another's only when every bit of their numbers is."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, float):
        return value.hex()
    if is_dataclass(value):
        named = ((field.name, getattr(value, field.name)) for field in fields(value))
        return type(value).__name__, *((name, exact(item)) for name, item in named if name not in UNCOMPARED)
    if isinstance(value, (list, tuple)):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    return value
