# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of a deployment without `ros2 launch`, watches them and stops them as launch would."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import IO

from typing_extensions import Self

from remote_inference.deployment.bringup import Process

STOP_TIMEOUT_S = 10.0  # between SIGINT and SIGTERM, and between SIGTERM and SIGKILL
WATCH_PERIOD_S = 0.2
LOG_TAIL_LINES = 12
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ProcessError(Exception):
    """A process ended that should run; the message ends with the last lines of its log."""


class ProcessGroup:
    """A deployment's processes; a context manager that stops them in reverse order of their start."""

    def __init__(self, log_folder: Path | None = None) -> None:
        """log_folder: takes each process's output as `<name>.log`; None lets it through to the terminal."""
        self._log_folder = log_folder
        self._running: list[tuple[Process, subprocess.Popen[bytes]]] = []
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        """Let SIGINT and SIGTERM raise KeyboardInterrupt: no node may be left behind commanding a robot.

        A shell lets its background jobs ignore SIGINT, hence both.
        """
        self._old_handlers = {
            number: signal.signal(number, signal.default_int_handler) for number in STOP_SIGNALS
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # stopping is under way already
        try:
            self.stop()
        finally:
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)

    def start(self, process: Process) -> subprocess.Popen[bytes]:
        """Start one process. Its signals come from us, not from the terminal."""
        output: IO[bytes] | None = None
        if self._log_folder is not None:
            self._log_folder.mkdir(parents=True, exist_ok=True)
            output = self._log_path(process).open("ab")
            self._logs.append(output)
        started = subprocess.Popen(
            process.command(),
            env={**os.environ, **process.environment},
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )
        self._running.append((process, started))
        return started

    def check(self) -> None:
        """Raise ProcessError when a required process has ended."""
        for process, started in self._running:
            if process.required and (code := started.poll()) is not None:
                raise ProcessError(f"{process.name} ended with {_describe(code)}{self._tail(process)}")

    def stop(self) -> list[int]:
        """Stop all; return the exit codes in order of the starts."""
        codes: list[int] = []
        while self._running:
            codes.insert(0, _stop(self._running[-1][1]))
            self._running.pop()  # only now: an interrupted stop can be repeated
        for log in self._logs:
            log.close()
        self._logs.clear()
        return codes

    def wait(self) -> int:
        """Wait until a required process ends by itself; return its exit code."""
        while True:
            for _, started in (entry for entry in self._running if entry[0].required):
                if (code := _wait(started, WATCH_PERIOD_S)) is not None:
                    return code

    def _log_path(self, process: Process) -> Path:
        assert self._log_folder is not None
        return self._log_folder / f"{process.name}.log"

    def _tail(self, process: Process) -> str:
        if self._log_folder is None:
            return ""
        path = self._log_path(process)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"; the end of {path}:", *lines])


def _stop(started: subprocess.Popen[bytes]) -> int:
    for number in STOP_SIGNALS:
        if started.poll() is None:
            started.send_signal(number)
        if (code := _wait(started, STOP_TIMEOUT_S)) is not None:
            return code
    started.kill()
    return started.wait()


def _wait(started: subprocess.Popen[bytes], timeout_s: float) -> int | None:
    """Return the exit code, or None when the process still runs after the timeout."""
    try:
        return started.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None


def _describe(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
