# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts node processes without their imports, which take most of a node's start on a busy machine.

A helper process imports what the nodes import, and forks for each of them. The fork is a process like any
other: with a session, an environment, arguments and an output of its own, in which `nodes.start` runs. How a
node starts from nothing is tested in test_process_group.py and wherever verbs start nodes.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from remote_inference.base.nodes.start import MODULES, start
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.end_with_parent import PR_SET_PDEATHSIG

STARTER = "remote_inference.base.nodes.start"

# What a node reads while it is imported, or the loader before it runs.
READ_EARLY = ("LD_PRELOAD", "LD_LIBRARY_PATH")
EARLY = {name: os.environ.get(name) for name in READ_EARLY}
MESSAGE_BYTES = 1 << 20
POLL_S = 0.01
ANSWER_S = 120.0  # the first answer comes after the imports


def is_possible(process: bringup.Process) -> bool:
    """Return whether a process may be a fork: a node of this package whose environment is read late."""
    environment = {**os.environ, **process.environment}
    early = {name: environment.get(name) for name in READ_EARLY}
    return STARTER in process.command() and early == EARLY and not _is_customized(environment)


def _is_customized(environment: Mapping[str, str]) -> bool:
    """Return whether Python would begin with a module of the test's."""
    folders = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    return any(Path(folder, "sitecustomize.py").exists() for folder in folders)


def launch(process: bringup.Process, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
    """Start a process as a fork. It must be possible."""
    return cast("subprocess.Popen[bytes]", HELPER.start(process, output))


class Forked:
    """What tests use of `subprocess.Popen`, for a process that the helper has forked."""

    def __init__(self, helper: Helper, pid: int, command: list[str]) -> None:
        self.pid = pid
        self.args = command
        self.returncode: int | None = None
        self._helper = helper

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._helper.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end_s = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end_s is not None and time.monotonic() >= end_s:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(POLL_S)
        return code

    def send_signal(self, number: int) -> None:
        """Send it at once: the helper may be slow to answer, and reaps nothing but when it is asked here."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Helper:
    """The process that forks, as its client sees it. Started by the first use; ends with this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def start(self, process: bringup.Process, output: IO[bytes] | None) -> Forked:
        command = process.command()
        request = {
            "arguments": command[command.index(STARTER) :],
            "environment": {**os.environ, **process.environment},
            "folder": os.getcwd(),
        }
        pid = self.ask(request, output.fileno() if output is not None else 2)
        return Forked(self, pid, command)

    def ask(self, request: Mapping[str, Any], output: int | None = None) -> Any:
        content = json.dumps(request).encode()
        with self._lock:
            if self._socket is None:
                self._socket = self._launch()
            socket.send_fds(self._socket, [content], [output] if output is not None else [])
            answer = self._socket.recv(MESSAGE_BYTES)
        assert answer, "the process that forks nodes has ended"
        return json.loads(answer)

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * MESSAGE_BYTES)
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env={**os.environ, **bringup.environment()},
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(ANSWER_S)
        atexit.register(_end, ours, process)
        return ours


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait(30.0)


HELPER = Helper()


def serve(connection: socket.socket) -> int:
    """Fork on request until the client is gone; return the exit code, in a fork that of its node."""
    for module in MODULES.values():
        import_module(module)
    with suppress(ImportError):
        import_module("torch")  # of the servers that need it, which takes them two seconds
    gc.collect()
    gc.freeze()  # otherwise the first collection in a fork copies all these pages
    running: set[int] = set()
    while True:
        content, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 1)
        if not content:
            break
        request = json.loads(content)
        if "poll" in request:
            answer = _look(request["poll"], running)
        else:
            (output,) = descriptors
            answer = os.fork()
            if answer == 0:
                connection.close()
                return _become(request, output)
            os.close(output)
            running.add(answer)
        connection.send(json.dumps(answer).encode())
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return 0


def _look(pid: int, running: set[int]) -> int | None:
    """Return the exit code of a fork as `subprocess` gives it, None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    running.discard(pid)
    return os.waitstatus_to_exitcode(status)


def _become(request: Mapping[str, Any], output: int) -> int:
    """Become the node; return its exit code."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [os.getcwd(), *filter(None, added)]  # as `python -m` has it
    sys.argv = list(request["arguments"])
    return start(sys.argv[1])


if __name__ == "__main__":
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
