# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of policies that can be evaluated, by name, and their interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from remote_inference.base.documents.registry import Registry
from remote_inference.base.errors import UserError
from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.learn.environment import EnvironmentSpec


class ServerLostError(UserError):
    """A policy that runs elsewhere cannot be reached; the episode is played in a later run."""


@dataclass(frozen=True)
class PolicyPlace:
    """Where a document finds a policy. server: full name of a policy_server's node; empty: none.

    accepts_weight_updates: whether trainers may change the server's policy.
    """

    path: Path | None = None
    server: str = ""
    accepts_weight_updates: bool = True

    def check(self, needed: str = "", what: str = "") -> None:
        """Raise PolicyError unless `needed`, "path" or "server", is all it has. what: is expected there."""
        given = {"path": self.path.name if self.path else "", "server": self.server}
        for key, found in given.items():
            if key != needed and found:
                raise PolicyError(f"{key}: found {found!r}, expected none for this kind of policy")
        if needed and not given[needed]:
            raise PolicyError(f"{needed}: missing, expected {what}")


@dataclass(frozen=True)
class PolicyAnswer:
    """A chunk in both spaces `[H, A]`, in the policy's order.

    inference_s: what it took to get it [s]. session_wait_s: until there was a session to ask in, before [s].
    """

    chunk_model: Float32Array
    chunk_robot: Float32Array
    policy_version: str
    inference_s: float
    session_wait_s: float = 0.0


# A policy in one episode, for one thread: returns the chunk for an observation, after so many control ticks
# of the episode. Raises PolicyError, or ServerLostError.
EpisodePolicy = Callable[[PolicyObservation, int], PolicyAnswer]


class EvaluatedPolicy(Protocol):
    """A policy that plays several episodes at once, each on a thread of its own.

    By default nobody waits for it, and it holds nothing.
    """

    spec: PolicySpec

    def begin(self, seed: int) -> EpisodePolicy:
        """Begin an episode. seed: of everything that the policy itself draws."""

    def abort(self) -> None:
        """End the waits for the policy soon. For any thread."""
        return

    def close(self) -> None:
        """Free what the policy holds."""
        return


# Opens a policy for an environment, and for as many episodes at once. Raises PolicyError or DocumentError.
OpenPolicy = Callable[[PolicyPlace, EnvironmentSpec, int], EvaluatedPolicy]

POLICIES = Registry[OpenPolicy]("kind of policy")
POLICIES.add("manifest", f"{__package__}.local_policies:open_manifest")
POLICIES.add("random", f"{__package__}.local_policies:open_random")
POLICIES.add("trajectory", f"{__package__}.local_policies:open_trajectory")
POLICIES.add("server", "remote_inference.learn.nodes.evaluated_server:open_server")
