# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated network path: runs each action after a latency drawn for it, or never, and blocks no sender."""

from __future__ import annotations

import heapq
import itertools
import random
import threading
import time
from collections.abc import Callable

JOIN_TIMEOUT_S = 1.0
SEED = 0  # the draws are the same after each start


class DelayLine:
    """Runs actions on a thread of its own, whichever is due first; at once where the path has no latency."""

    def __init__(
        self,
        delay_s: float,
        on_failure: Callable[[BaseException], None],
        *,
        jitter_s: float = 0.0,
        loss: float = 0.0,
    ) -> None:
        """on_failure: called on the line's thread with what an action raised; the line then ends.

        jitter_s: largest deviation from `delay_s`, either way; uniform, and no latency is below 0. loss:
        fraction of the actions that are lost.
        """
        self._delay_s = delay_s
        self._jitter_s = jitter_s
        self._loss = loss
        self._on_failure = on_failure
        self._random = random.Random(SEED)
        self._numbers = itertools.count()  # of two that are due at once, the first goes first
        self._waiting: list[tuple[float, int, Callable[[], None]]] = []  # heap, by when they are due
        self._changed = threading.Condition()
        self._closed = False
        self._running = False
        self._thread: threading.Thread | None = None
        if delay_s > 0.0 or jitter_s > 0.0:
            self._thread = threading.Thread(target=self._run, name="delay_line", daemon=True)
            self._thread.start()

    def put(self, action: Callable[[], None]) -> None:
        """Run an action once it is due, or lose it."""
        with self._changed:
            if self._random.random() < self._loss:
                return
            delay_s = self._delay_s + self._random.uniform(-self._jitter_s, self._jitter_s)
            if self._thread is not None:
                due_s = time.monotonic() + max(0.0, delay_s)
                heapq.heappush(self._waiting, (due_s, next(self._numbers), action))
                self._changed.notify_all()
                return
        action()

    @property
    def empty(self) -> bool:
        """True when every action has run or is lost."""
        with self._changed:
            return not self._waiting and not self._running

    def close(self) -> None:
        """Drop the actions that have not run yet."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while (action := self._take()) is not None:
            try:
                action()
            except Exception as error:
                self._on_failure(error)
                return
            with self._changed:
                self._running = False

    def _take(self) -> Callable[[], None] | None:
        """Wait until an action is due and return it, None once the line is closed."""
        with self._changed:
            while not self._closed:
                left_s = self._waiting[0][0] - time.monotonic() if self._waiting else None
                if left_s is not None and left_s <= 0.0:
                    self._running = True
                    return heapq.heappop(self._waiting)[2]
                self._changed.wait(left_s)
            return None
