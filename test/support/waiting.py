# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition or for another process's word, which every kind of test does."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

DEADLINE_S = 30.0  # for what takes far less on a machine that is busy with other work
POLL_S = 0.01


def wait_until(condition: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Wait until a condition holds. Fails after the deadline, naming what did not happen."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {deadline_s:g} s: {what}"
        time.sleep(POLL_S)


def read_line(process: subprocess.Popen[Any], deadline_s: float = DEADLINE_S) -> Any:
    """Return a process's next line, or an empty one when it ends; at the deadline it is killed."""
    assert process.stdout is not None
    killer = threading.Timer(deadline_s, process.kill)
    killer.start()
    try:
        return process.stdout.readline()
    finally:
        killer.cancel()


def process_state(pid: int) -> str:
    """Return the letter of a process's state (proc(5)), empty when it has ended, be it as a zombie."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0].strip("Z")
    return ""
