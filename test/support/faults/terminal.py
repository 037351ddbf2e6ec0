# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A terminal in which processes run as under `ros2 launch`: in one process group, which its keys reach."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import Self

from remote_inference.tools.deployment.bringup import Process
from support.waiting import DEADLINE_S, process_state, read_line, wait_until

POLL_S = 0.05
KEYS = {"Ctrl-C": b"\x03", "Ctrl-Z": b"\x1a", "Ctrl-\\": b"\x1c"}
ECHOES = {"Ctrl-C": b"^C", "Ctrl-Z": b"^Z", "Ctrl-\\": b"^\\"}
# The shell leads the session and its job has the foreground: a leader's own group cannot be suspended.
SHELL = """
import fcntl, os, signal, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], process_group=0)
os.tcsetpgrp(0, job.pid)
signal.pause()
"""
LAUNCH = """
import json, os, subprocess, sys
started = [subprocess.Popen(command, stdout=0, stderr=0) for command in json.loads(sys.argv[1])]
print(json.dumps([os.getpid(), *(process.pid for process in started)]), flush=True)
for process in started:
    process.wait()
"""


class Terminal:
    """A context manager; at its end nothing runs any more."""

    def __init__(self, log: Path) -> None:
        """log: takes what the processes print."""
        self._log = log
        self._master, self._slave = pty.openpty()
        self._closing = threading.Event()
        self._output = bytearray()  # since the last key
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.group = 0  # of the launch, and of all that it has started
        self.processes: list[int] = []  # ids, in the order of `run`

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.close()
        if self.group:
            self._shell.kill()
            self._shell.wait(DEADLINE_S)
            for number in (signal.SIGCONT, signal.SIGTERM):
                with suppress(ProcessLookupError):
                    os.killpg(self.group, number)
            wait_until(lambda: not self.alive, "every process of the terminal ends")

    def run(self, processes: Sequence[Process]) -> None:
        """Start processes as a launch's."""
        environment = dict(os.environ)
        for process in processes:
            environment.update(process.environment)
        commands = json.dumps([process.command() for process in processes])
        self._shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, LAUNCH, commands],
            env=environment,
            stdin=self._slave,
            stdout=subprocess.PIPE,
            stderr=self._slave,
            start_new_session=True,
        )
        self.group, *self.processes = json.loads(read_line(self._shell))

    def press(self, key: str) -> None:
        """Press one of KEYS; return when the terminal has echoed it, and so has sent the signal."""
        self._output.clear()
        os.write(self._master, KEYS[key])
        wait_until(lambda: ECHOES[key] in self._output, f"the echo of {key}")

    def close(self) -> None:
        """Close the window: what runs in it is hung up, and can print no more."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._reader.join()
        os.close(self._slave)
        os.close(self._master)
        if self.group:
            self._shell.wait(DEADLINE_S)

    @property
    def alive(self) -> list[int]:
        """The processes of `run` that have not ended."""
        return [pid for pid in self.processes if process_state(pid)]

    def _read(self) -> None:
        with self._log.open("wb") as log:
            while not self._closing.is_set():
                readable, _, _ = select.select([self._master], [], [], POLL_S)
                if readable:
                    self._output += (read := os.read(self._master, 1 << 16))
                    log.write(read)
                    log.flush()
