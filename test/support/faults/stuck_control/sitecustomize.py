# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Loaded by a robot node's interpreter at its start: lets its threads hang or fail while a file exists."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path

STUCK = os.environ["STUCK_CONTROL"]
BROKEN = Path(os.environ["BROKEN_THREAD"])  # holds the name of the thread that fails
_sleep, _monotonic_ns = time.sleep, time.monotonic_ns


def sleep(seconds: float) -> None:
    _sleep(seconds)
    while threading.current_thread().name == "control" and os.path.exists(STUCK):
        _sleep(0.005)


def monotonic_ns() -> int:
    with suppress(FileNotFoundError):
        if BROKEN.read_text() == threading.current_thread().name:
            raise RuntimeError("broken by a test")
    return _monotonic_ns()


time.sleep, time.monotonic_ns = sleep, monotonic_ns
