# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Threads that run tasks in the order in which the tasks come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable


class TaskPool:
    """A fixed number of threads.

    Unlike those of `concurrent.futures` they are daemons: a processor that hangs must not keep the process
    from ending.
    """

    def __init__(self, threads: int, name: str, on_failure: Callable[[BaseException], None]) -> None:
        """on_failure: called on the pool's thread with what a task raised; that thread then ends."""
        self._on_failure = on_failure
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}_{index}", daemon=True)
            for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Callable[[], None]) -> None:
        self._tasks.put(task)

    def close(self, timeout_s: float) -> bool:
        """Run the tasks that wait, and end the threads; return whether they ended in time."""
        for _ in self._threads:
            self._tasks.put(None)
        end_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException as error:
                self._on_failure(error)
                return
            del task  # it holds a request while the thread waits for the next one
