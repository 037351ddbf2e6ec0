# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated network path: runs actions in order, after a given latency, without blocking the sender."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

JOIN_TIMEOUT_S = 1.0


class DelayLine:
    """Runs actions `delay_s` after `put`, on a thread of its own; at once when the delay is 0."""

    def __init__(self, delay_s: float, on_failure: Callable[[Exception], None]) -> None:
        """on_failure: called on the line's thread with what an action raised; the line then ends."""
        self._delay_s = delay_s
        self._on_failure = on_failure
        self._queue: queue.Queue[tuple[float, Callable[[], None]] | None] = queue.Queue()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        if delay_s > 0.0:
            self._thread = threading.Thread(target=self._run, name="delay_line", daemon=True)
            self._thread.start()

    def put(self, action: Callable[[], None]) -> None:
        if self._thread is None:
            action()
        else:
            self._queue.put((time.monotonic() + self._delay_s, action))

    @property
    def empty(self) -> bool:
        """True when every action has run."""
        return self._queue.unfinished_tasks == 0

    def close(self) -> None:
        """Drop the actions that have not run yet."""
        self._closed.set()
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            due_s, action = item
            if self._closed.wait(max(0.0, due_s - time.monotonic())):
                return
            try:
                action()
            except Exception as error:
                self._on_failure(error)
                return
            self._queue.task_done()
