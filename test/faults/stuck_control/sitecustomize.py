# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Loaded by a robot node's interpreter at its start: lets the control thread hang while a file exists."""

from __future__ import annotations

import os
import threading
import time

STUCK = os.environ["STUCK_CONTROL"]
_sleep = time.sleep


def sleep(seconds: float) -> None:
    _sleep(seconds)
    while threading.current_thread().name == "control" and os.path.exists(STUCK):
        _sleep(0.005)


time.sleep = sleep
