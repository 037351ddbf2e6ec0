# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's worker on the threads that a server has, in one process and without middleware."""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Console

from remote_inference.base.exchange import Chunk
from remote_inference.base.policy import Policy
from remote_inference.server.nodes.serving import TaskPool
from remote_inference.server.policy_watch import PolicyWatch
from remote_inference.server.requests.job import Consumers, Decoder
from remote_inference.server.requests.worker import Worker
from remote_inference.server.schedulers import SCHEDULERS, Scheduler
from remote_inference.server.sessions import Session
from remote_inference.tools.tables import Table, print_table

CLOSE_TIMEOUT_S = 5.0
Rows = list[tuple[str, ...]]


def begin(about: str | None, method: str, *, seconds: float) -> tuple[argparse.Namespace, Console]:
    """Read `--blocks` and `--seconds`, by default so long [s], and say how is measured, and on what.

    about: the script's own text.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=5, help="of each situation")
    parser.add_argument("--seconds", type=float, default=seconds, help="of a block")
    arguments = parser.parse_args()
    console = Console()
    load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
    console.print(method, load, sep="\n", highlight=False)
    return arguments, console


def compare_schedulers(
    about: str | None,
    method: str,
    measure: Callable[[str, int, float], Rows],
    title: str,
    columns: tuple[str, ...],
) -> None:
    """Print a table of what is measured with each scheduler: `measure(scheduler, blocks, seconds)`.

    about: the script's own text. method: how it measures. columns: the first two are words.
    """
    arguments, console = begin(about, method, seconds=4.0)
    rows: Rows = []
    for scheduler in SCHEDULERS.names:
        with console.status(f"measuring: {scheduler}"):
            rows += measure(scheduler, arguments.blocks, arguments.seconds)
    print_table(Table(title, columns, rows, columns[2:]))


class WorkerRig:
    """Serves sessions that ask for chunks."""

    def __init__(
        self,
        policy: Policy,
        new_scheduler: Callable[[], Scheduler],
        decoder: Decoder,
        sessions: Sequence[Session],
        *,
        take: Callable[[Session], None],
        threads: int,
    ) -> None:
        """take: called with the session of each chunk. threads: that prepare; 0: the device's own does."""
        self._sessions = sessions
        self._on_chunk = take
        self._failure = ""
        self._work, self._stop = threading.Event(), threading.Event()
        sizes = {"prepare": threads, "finish": 1} if threads else {}
        self._pools = [TaskPool(size, name, self._fail) for name, size in sizes.items()]
        self._pools = [TaskPool(size, name, self._fail) for name, size in sizes.items()]
        prepare, finish = (pool.submit for pool in self._pools) if threads else (None, None)
        self._worker = Worker(
            policy,
            new_scheduler,
            decoder,
            Consumers(self._take, lambda _: None),
            clock_ns=time.monotonic_ns,
            watch=PolicyWatch(lambda: None, max_consecutive_failures=10, inference_timeout_s=30.0),
            prepare=prepare,
            finish=finish,
            on_ready=self._work.set,
            on_slow=self._pools[0].add_thread if threads else lambda: None,
            on_free=self._tell_worker,
        )
        self._device = threading.Thread(target=self._serve, name="device")

    def start(self) -> None:
        self._device.start()

    def ask(self, session: Session, data: bytes) -> None:
        """Put a request into a session's mailbox. data: serialized Observation."""
        session.mailbox.put(data, time.monotonic_ns())
        self._tell_worker()

    def stop(self) -> None:
        """End the threads. Raises SystemExit if a request has failed."""
        self._stop.set()
        self._work.set()
        self._device.join(CLOSE_TIMEOUT_S)
        for pool in self._pools:
            pool.close(CLOSE_TIMEOUT_S)
        if self._failure:
            raise SystemExit(self._failure)

    def _take(self, session: Session, chunk: Chunk) -> None:
        if not chunk.robot.size:
            self._failure = f"a request failed: {chunk.message}"
        self._on_chunk(session)

    def _tell_worker(self) -> None:
        self._work.set()
        self._worker.intake.prepare(self._sessions)

    def _serve(self) -> None:
        while not self._stop.is_set():
            self._work.wait(self._worker.intake.wait_ns / 1e9 or 0.1)
            self._work.clear()
            while not self._stop.is_set() and self._worker.step(self._sessions):
                pass

    def _fail(self, error: Exception) -> None:
        self._failure = f"a pool's task failed: {type(error).__name__}: {error}"
