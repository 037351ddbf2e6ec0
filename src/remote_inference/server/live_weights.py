# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Interfaces for weights that trainers change while they are served; `TRAINER_ACCESS` names their entry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from remote_inference.base.policy import Policy
from remote_inference.server.manifest.manifest import Manifest


@dataclass(frozen=True)
class WeightsView:
    """Counts of the updates so far. refused: by the value of their Reason.

    version: that is served; 0 is what was loaded, and -1 where no updates are accepted. apply_s: that the
    last exchange took [s]. behind: versions between that which is served and the newest that the trainer has
    begun to send: one for each that is on its way, was refused or was taken back.
    """

    version: int
    applied: int
    rolled_back: int
    refused: Mapping[str, int]
    received_bytes: int
    apply_s: float
    behind: int


CLOSED = WeightsView(-1, 0, 0, {}, 0, 0.0, 0)
"""Of a server that accepts no updates."""


class LiveWeights(Protocol):
    """The weights of a served policy that trainers may change. `apply` is for the policy's thread."""

    @property
    def view(self) -> WeightsView: ...

    def apply(self) -> int:
        """Apply updates that have arrived; return the version that is served."""

    def close(self) -> None:
        """Stop receiving updates."""


class TrainerAccess(Protocol):
    """A server's access for trainers. `open` is for the policy's thread, all else for the executor's."""

    def listen(self, manifest: Manifest) -> None:
        """Let trainers connect from now on, as the manifest says."""

    def open(
        self, manifest: Manifest, policy: Policy, rehearse: Callable[[], object], on_error: OnError
    ) -> LiveWeights | None:
        """Let trainers change a policy's weights; None when the manifest lets nobody.

        rehearse: asks the policy, and raises when it cannot answer. on_error: notes what the policy has
        raised with new weights, and raises what is no error of its author's. Raises PolicyError for a policy
        whose weights cannot be changed while it is served.
        """

    def stop(self) -> None:
        """End all connections, and accept no more."""


OnError = Callable[[BaseException], object]

# The room above has it: a TrainerAccess, made with a node and its schedule.
TRAINER_ACCESS = "remote_inference.learn.nodes.weights_link:WeightsAccess"
