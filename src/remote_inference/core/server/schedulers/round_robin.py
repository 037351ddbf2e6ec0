# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One request after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from remote_inference.core.server.schedulers.scheduler import SchedulerOptions, Selection, Turns
from remote_inference.core.server.sessions.session import Session


class RoundRobin:
    """One request after the other, of the waiting session that has cost least."""

    batches: ClassVar[bool] = False
    options: ClassVar[type[SchedulerOptions]] = SchedulerOptions

    def __init__(self) -> None:
        self._turns = Turns()

    @classmethod
    def make(cls, options: SchedulerOptions, most: int) -> RoundRobin:  # noqa: ARG003
        return cls()

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:  # noqa: ARG002
        return Selection(self._turns.take(ready, 1 - chosen))
