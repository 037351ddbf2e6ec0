# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts the processes of a deployment without `ros2 launch`, watches them and stops them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from typing_extensions import Self

from remote_inference.base.errors import UserError
from remote_inference.base.stop_signals import common_signals, handle
from remote_inference.tools.deployment import end_with_parent
from remote_inference.tools.deployment.bringup import Process
from remote_inference.tools.deployment.middleware import middleware_warnings

STOP_TIMEOUT_S = 20.0  # between SIGTERM and SIGKILL
WATCH_PERIOD_S = 0.2
LOG_TAIL_LINES = 12


class ProcessError(UserError):
    """A process ended that should run; the message ends with the last lines of its log."""


def run_in_foreground(processes: Sequence[Process], *, quiet: bool) -> int:
    """Run processes on this terminal until a required one ends or a signal comes; return the exit status.

    The status is the ended process's, or after a signal the worst of the required ones': 0 when all of them
    have stopped cleanly. quiet: without warnings of the middleware.
    """
    for warning in middleware_warnings(os.environ.get("RMW_IMPLEMENTATION", "")):
        if not quiet:
            print(f"remote-inference: {warning}", file=sys.stderr)
    with ProcessGroup() as group:
        with suppress(KeyboardInterrupt):
            for process in processes:
                group.start(process)
            return group.wait()
        codes = zip(processes, group.stop(), strict=False)  # a signal may come before all are started
        return max([0, *(exit_status(code) for process, code in codes if process.required)])


class ProcessGroup:
    """A deployment's processes; a context manager that stops them in reverse order of their start.

    On Linux the processes also end when this process is killed, or when the thread that started them ends.
    """

    def __init__(self, log_folder: Path | None = None) -> None:
        """log_folder: takes each process's output as `<name>.log`; None lets it through to the terminal."""
        self._log_folder = log_folder
        self._running: list[tuple[Process, subprocess.Popen[bytes]]] = []
        self._reported: set[str] = set()  # ended processes that are not required, reported already

    def __enter__(self) -> Self:
        """Let the first of the signals raise KeyboardInterrupt: no node may go on commanding a robot.

        Ctrl-Z suspends the processes, too, which are in no terminal's session.
        """
        self._old_handlers = {number: signal.signal(number, _interrupt_once) for number in common_signals()}
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            self._old_handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._suspend)
        return self

    def __exit__(self, *_: object) -> None:
        handle(common_signals(), signal.SIG_IGN)
        try:
            self.stop()
        finally:
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)

    def start(self, process: Process) -> subprocess.Popen[bytes]:
        """Start one process. Its signals come from this process, not from the terminal."""
        if self._log_folder is None:
            started = self.launch(process, None)
        else:
            self._log_folder.mkdir(parents=True, exist_ok=True)
            with (self._log_folder / f"{process.name}.log").open("ab") as output:  # the process keeps its own
                started = self.launch(process, output)
        self._running.append((process, started))
        return started

    def launch(self, process: Process, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own. output: None lets it through to the terminal."""
        binding: list[str] = []  # prefix of a command that makes it end with this process
        if sys.platform == "linux":
            binding = [sys.executable, "-I", "-S", end_with_parent.__file__, str(os.getpid())]
        return subprocess.Popen(
            [*binding, *process.command()],
            env={**os.environ, **process.environment},
            stdout=output,
            stderr=subprocess.STDOUT if output else None,
            start_new_session=True,
        )

    def check(self) -> None:
        """Raise ProcessError when a required process has ended; report any other ended process once."""
        if ended := self._find_end():
            raise ProcessError(ended[1])

    def stop(self) -> list[int]:
        """Stop all; return the exit codes in order of the starts."""
        codes: list[int] = []
        while self._running:
            codes.insert(0, _stop(*self._running[-1]))
            self._running.pop()  # only now: an interrupted stop can be repeated
        return codes

    def wait(self) -> int:
        """Wait until a required process ends by itself; report its end and return its exit status."""
        while not (ended := self._find_end()):
            time.sleep(WATCH_PERIOD_S)
        code, text = ended
        if code != 0:
            _print(text)
        return exit_status(code)

    def _suspend(self, *_: object) -> None:
        """Suspend the processes and this one, until SIGCONT comes to this one."""
        suspended = [started for process, started in self._running if process.is_suspended]
        for started in suspended:
            started.send_signal(signal.SIGSTOP)  # SIGTSTP does nothing to a session without a terminal
        os.kill(os.getpid(), signal.SIGSTOP)
        for started in suspended:
            started.send_signal(signal.SIGCONT)

    def _find_end(self) -> tuple[int, str] | None:
        """Return exit code and words of a required process that has ended; report other ends once."""
        for process, started in self._running:
            if process.name in self._reported or (code := started.poll()) is None:
                continue
            end = f"{process.name} {_describe(code)}"
            if process.required:
                return code, f"{end}{self._tail(process)}"
            self._reported.add(process.name)
            _print(f"{end}, the rest runs on without it{self._tail(process)}")
        return None

    def _tail(self, process: Process) -> str:
        if self._log_folder is None:
            return ""
        path = self._log_folder / f"{process.name}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"; the end of {path}:", *lines])


def exit_status(code: int) -> int:
    """Return an exit code as a shell gives it: 128 and the number of the signal that killed the process.

    A process that our SIGTERM killed before it could handle the signal has stopped cleanly.
    """
    if code == -signal.SIGTERM:
        return 0
    return 128 - code if code < 0 else code


def _interrupt_once(*_: object) -> None:
    # Stopping is under way: a second signal would leave nodes behind.
    handle(common_signals(), signal.SIG_IGN)
    raise KeyboardInterrupt


def _stop(process: Process, started: subprocess.Popen[bytes]) -> int:
    """Stop a process by SIGTERM: SIGINT would raise KeyboardInterrupt in a process that still imports."""
    started.terminate()
    try:
        return started.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        _print(f"{process.name} did not end within {STOP_TIMEOUT_S:g} s of SIGTERM: it is killed")
        started.kill()
        return started.wait()


def _describe(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _print(text: str) -> None:
    with suppress(OSError):  # a closed pipe: the robot runs on
        print(f"remote-inference: {text}", file=sys.stderr, flush=True)
