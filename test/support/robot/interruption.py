# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs something between any two lines of a function, as another thread might."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

LOCKED = "action_queue.py"  # its threads wait for each other: one thread alone would wait for itself


def interrupt(function: Callable[[], Any], line: int, interruption: Callable[[], Any]) -> bool:
    """Call a function; before the `line`-th line of the package that it runs, call the interruption.

    Return whether the function has so many lines.
    """
    seen = 0
    done = False

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen, done
        file = frame.f_code.co_filename
        if "remote_inference" not in file or file.endswith(LOCKED):
            return None
        if event == "line" and not done:
            if seen == line:
                done = True
                sys.settrace(None)
                interruption()
            seen += 1
        return None if done else trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return done
