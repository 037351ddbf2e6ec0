# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What can be evaluated: kinds of policies by name, and what an evaluation asks of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from typing_extensions import Self

from remote_inference.core.documents.registry import Registry
from remote_inference.core.environment import EnvironmentSpec
from remote_inference.core.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.errors import UserError


class ServerLostError(UserError):
    """A policy that runs elsewhere cannot be reached; the episode is played in a later run."""


@dataclass(frozen=True)
class PolicyPlace:
    """Where a document says that a policy is. server: full name of a policy_server's node; empty: none.

    accepts_weight_updates: whether trainers may change the server's policy.
    """

    path: Path | None = None
    server: str = ""
    accepts_weight_updates: bool = True

    @classmethod
    def of(cls, path: str, server: str, home: Path, *, accepts_weight_updates: bool = True) -> Self:
        """Return what a document in the folder `home` says."""
        return cls(home / path if path else None, server, accepts_weight_updates)

    def check(self, needed: str = "", what: str = "") -> None:
        """Raise PolicyError unless it says `needed`, "path" or "server", and nothing else.

        what: what is expected there.
        """
        said = {"path": self.path.name if self.path else "", "server": self.server}
        for key, found in said.items():
            if key != needed and found:
                raise PolicyError(f"{key}: found {found!r}, expected none for this kind of policy")
        if needed and not said[needed]:
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


class EpisodePolicy(Protocol):
    """A policy in one episode. One thread asks it."""

    def answer(self, observation: PolicyObservation, step: int) -> PolicyAnswer:
        """Return the chunk for an observation. step: control ticks of the episode before it.

        Raises PolicyError, or ServerLostError.
        """


class EvaluatedPolicy(Protocol):
    """A policy that plays several episodes at once, each on a thread of its own."""

    spec: PolicySpec

    def begin(self, seed: int) -> EpisodePolicy:
        """Begin an episode. seed: of everything that the policy itself draws."""

    def abort(self) -> None:
        """Let threads that wait for the policy give up soon. For any thread."""

    def close(self) -> None:
        """Free what the policy holds."""


class OpenPolicy(Protocol):
    """Opens a policy of one kind."""

    def __call__(self, place: PolicyPlace, environment: EnvironmentSpec, num_envs: int) -> EvaluatedPolicy:
        """Open the policy for an environment. num_envs: episodes that are played at once.

        Raises PolicyError or DocumentError.
        """


POLICIES = Registry[OpenPolicy]("kind of policy")
POLICIES.add("manifest", f"{__package__}.local_policy:open_manifest")
POLICIES.add("random", f"{__package__}.scripted_policies:open_random")
POLICIES.add("trajectory", f"{__package__}.scripted_policies:open_trajectory")
POLICIES.add("server", "remote_inference.nodes.clients.evaluated_server:open_server")
