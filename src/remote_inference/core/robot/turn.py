# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One turn for all threads of a robot: who acts on what they share, and in what order.

A control tick is one turn, an operation of another thread (a look at the queue, a merge, a changed control
word) is one, too. So each tick falls between two operations, and a count of them says between which.
"""

from __future__ import annotations

import threading
from threading import get_ident
from types import TracebackType


class Turn:
    """A lock to be entered for one tick or one short operation. A thread that has it may enter it again.

    Operations count while their thread is in a call of the engine: only these need an order among the ticks
    and the inputs of other threads, which each fall between two of them.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # of the thread that has the lock
        self._caller: int | None = None  # the thread in a call of the engine
        self.number = 0  # operations counted so far

    def begin_call(self) -> None:
        """Count the operations of this thread from now on."""
        self._caller = get_ident()

    def end_call(self) -> None:
        """Count no operations until the next call."""
        self._caller = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if not self._depth and self._caller == get_ident():
            self.number += 1
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        self._lock.release()
