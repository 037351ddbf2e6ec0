# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who answers recorded requests, and what an answer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from remote_inference.core.exchange import SessionOffer
from remote_inference.core.policy import Float32Array
from remote_inference.errors import UserError


class ReplayError(UserError):
    """Recorded requests cannot be asked of a policy; the message says why."""


@dataclass(frozen=True)
class PolicyIdentity:
    """Which policy answers."""

    source: str  # path of its manifest, or name of its server
    name: str
    revision: str
    fingerprint: str
    chunk_size: int  # rows
    uses_prefix: bool  # its chunks continue the rows that the robot executes meanwhile


@dataclass(frozen=True)
class Answer:
    """A chunk `[chunk_size, action_dim]` in both spaces, or why there is none."""

    model: Float32Array
    robot: Float32Array
    problem: str = ""


class Answerer(Protocol):
    """Answers requests in the order in which a robot made them."""

    policy: PolicyIdentity

    def ask(self, session_id: str, request: bytes) -> Answer:
        """Return the answer to a serialized Observation. session_id: as it says, of the recorded session."""


def require_history(source: str, observation_steps: int, offer: SessionOffer) -> None:
    """Raise ReplayError unless the requests show as many control ticks as the policy sees."""
    if observation_steps != offer.max_observation_steps:
        raise ReplayError(
            f"{source} does not fit the bag (history): its policy sees {observation_steps} control ticks, "
            f"the recorded requests show {offer.max_observation_steps}"
        )
