# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Several requests in one call of the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from remote_inference.core.server.schedulers.scheduler import SchedulerOptions, Selection, Turns
from remote_inference.core.server.sessions.session import Session


class MicroBatchOptions(SchedulerOptions):
    """How many requests, and how long one waits for others."""

    max_batch: Annotated[int, Field(ge=1, le=1_024, description="micro_batch: most requests in one call")] = 8
    batch_window_ms: Annotated[
        float, Field(ge=0.0, le=1_000.0, description="micro_batch: longest wait for more requests [ms]")
    ] = 5.0

    @property
    def most(self) -> int:
        return self.max_batch


class MicroBatch:
    """Up to `max_batch` requests in one call, of the waiting sessions that have cost least.

    The session that has waited longest waits at most `window_ns` for others to join it, however often it
    asks meanwhile. It does not wait when no other session could join.
    """

    batches: ClassVar[bool] = True
    options: ClassVar[type[SchedulerOptions]] = MicroBatchOptions

    def __init__(self, max_batch: int, window_ns: int) -> None:
        self._turns = Turns()
        self._max_batch = max_batch
        self._window_ns = window_ns

    @classmethod
    def make(cls, options: MicroBatchOptions, most: int) -> MicroBatch:
        return cls(most, int(options.batch_window_ms * 1e6))

    def select(self, ready: Sequence[Session], joinable: int, now_ns: int, chosen: int = 0) -> Selection:
        if len(ready) < min(self._max_batch, joinable):
            begins = [session.mailbox.waiting_since_ns for session in ready]
            oldest_ns = min((begin for begin in begins if begin is not None), default=now_ns)
            wait_ns = oldest_ns + self._window_ns - now_ns
            if not ready or wait_ns > 0:
                return Selection(wait_ns=wait_ns if ready else 0)
        return Selection(self._turns.take(ready, self._max_batch - chosen))
