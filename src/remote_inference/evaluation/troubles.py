# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What each kind of error costs an evaluation: never more than its own episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from remote_inference.core.environment import EnvError
from remote_inference.core.policy import PolicyError
from remote_inference.errors import UserError
from remote_inference.evaluation.policies import ServerLostError


class RobotLostError(UserError):
    """A robot that drives an environment in real time has not come up, has died or does not answer."""


@dataclass(frozen=True)
class Trouble:
    """What an error costs. attempts: at an episode in one run. is_result: the episode counts as failed."""

    kind: str
    meaning: str
    attempts: int
    is_result: bool = False


# By the error's class, the most special first. A policy that cannot go on has failed; for what others did
# to an episode no policy is to blame.
TROUBLES: Mapping[type[Exception], Trouble] = {
    ServerLostError: Trouble("network", "a policy that runs elsewhere cannot be reached", attempts=1),
    RobotLostError: Trouble("robot", "a node of an episode in real time dies or does not answer", attempts=3),
    PolicyError: Trouble("policy", "the policy cannot answer", attempts=1, is_result=True),
    EnvError: Trouble("environment", "the simulator raises, hangs or dies", attempts=3),
    Exception: Trouble("other", "any other", attempts=1),
}


def find_trouble(error: Exception) -> Trouble:
    """Return the row of TROUBLES for an error."""
    return next(trouble for kind, trouble in TROUBLES.items() if isinstance(error, kind))


def describe(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"
