# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs calls on the one thread that may make them: of simulators with graphics, of libraries with handles."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")

JOIN_S = 0.5  # for a thread to end that has nothing left to do


class Calls:
    """A queue of calls that one thread runs for others."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        """Serve on a thread of a name. One that hangs does not keep the process alive."""
        self._thread = threading.Thread(target=self.serve, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        future: Future[Result] = Future()
        self._calls.put((call, future))
        return future

    def serve(self) -> None:
        """Run the calls on this thread until `close`."""
        while not self._closed.is_set():
            entry = self._calls.get()
            if entry is None:  # closed
                return
            call, future = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # the caller gets whatever it raises
                future.set_exception(error)
            del entry, call, future  # free arguments and result while this waits for the next call

    def close(self) -> None:
        """Let `serve` return once its present call has returned; wait a moment for the thread of `start`.

        Python breaks off a thread that still runs when the process ends, and C++ below it ends the process.
        """
        self._closed.set()
        self._calls.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)
