# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One request after the other."""

from __future__ import annotations

from collections.abc import Sequence

from remote_inference.core.server.scheduler import Selection, Turns
from remote_inference.core.server.session import Session


class RoundRobin:
    """One request after the other, of the waiting session that has cost least."""

    batches = False

    def __init__(self, max_batch: int = 1, window_ns: int = 0) -> None:  # noqa: ARG002
        self._turns = Turns()

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:  # noqa: ARG002
        return Selection(self._turns.take(ready, 1 - chosen))
