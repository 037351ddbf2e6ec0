# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What one episode has brought, a line of episodes.jsonl, or why it was lost, a line of lost.jsonl."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from typing_extensions import Self

from remote_inference.core.documents.document import Document
from remote_inference.core.environment import MetricValue
from remote_inference.environments.policy_view import Actions
from remote_inference.evaluation.document import Condition, EpisodeKey, Mode

Count = Annotated[int, Field(ge=0)]


class Times(Document):
    """How long something took, over `count` times; None over none [ms]."""

    count: Count
    mean_ms: float | None
    p95_ms: float | None
    p99_ms: float | None

    @classmethod
    def of(cls, durations_s: Sequence[float]) -> Self:
        if not durations_s:
            return cls(count=0, mean_ms=None, p95_ms=None, p99_ms=None)
        found_ms = np.asarray(durations_s) * 1e3
        p95_ms, p99_ms = np.quantile(found_ms, (0.95, 0.99))
        return cls(
            count=len(found_ms), mean_ms=float(found_ms.mean()), p95_ms=float(p95_ms), p99_ms=float(p99_ms)
        )


class EpisodeLine(Document):
    """A line about one episode."""

    task: str
    policy: str
    mode: Mode
    latency_ms: float
    seed: int

    @property
    def key(self) -> EpisodeKey:
        return EpisodeKey(Condition(self.task, self.policy, self.mode, self.latency_ms), self.seed)

    def to_line(self) -> bytes:
        """Return the line of the file, with its end."""
        return self.model_dump_json().encode() + b"\n"


class LostEpisode(EpisodeLine):
    """An episode that one run could not play. kind: of the last error. troubles: all errors, by kind."""

    kind: str
    troubles: Mapping[str, int]

    @classmethod
    def of(cls, key: EpisodeKey, kind: str, troubles: Mapping[str, int]) -> Self:
        return cls(**vars(key.condition), seed=key.seed, kind=kind, troubles=dict(troubles))


class EpisodeResult(EpisodeLine):
    """One finished episode.

    success, metrics: as the environment says; a number that is not finite is None. held_steps: in which a
    robot had no action to execute. digest: of executed actions and rewards, bit for bit. troubles: errors
    that it took to play the episode, by kind, those of earlier runs too. error: why the policy could not go
    on; empty otherwise. inference, step: durations of the policy's calls and the environment's steps.
    session_wait_ms: until a server had a session for the episode [ms]. film: file of the strip.
    """

    policy_versions: tuple[str, ...]
    success: bool
    steps: Count
    total_reward: float
    is_terminated: bool
    metrics: Mapping[str, MetricValue | None]
    held_steps: Count
    digest: str
    inference: Times
    step: Times
    session_wait_ms: Annotated[float, Field(ge=0)] = 0.0
    troubles: Mapping[str, int] = {}
    error: str = ""
    film: str = ""

    @property
    def outcome(self) -> dict[str, Any]:
        """What the same episode brings again: all but durations, troubles and the film strip."""
        return self.model_dump(exclude={"inference", "step", "session_wait_ms", "troubles", "film"})


def digest_actions(actions: Sequence[Actions], rewards: Sequence[float]) -> str:
    """Return 16 hexadecimal digits of executed actions `[A]` and rewards, bit for bit."""
    found = hashlib.sha256(np.asarray(rewards, np.float64).tobytes())
    for action in actions:
        found.update(np.asarray(action, np.float64).tobytes())
    return found.hexdigest()[:16]


def finite(values: Mapping[str, MetricValue]) -> dict[str, MetricValue | None]:
    """Return an environment's numbers for a result: None instead of one that is not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }
