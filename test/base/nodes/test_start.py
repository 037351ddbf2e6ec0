# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How an executable's process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEADLINE_S = 60.0
# A node whose `main` returns 3 while a thread is left, or none is.
SCRIPT = """
import atexit, sys, threading, types
from remote_inference.base.nodes import start

def main():
    if sys.argv[1] == "hangs":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    print("the last line")
    return 3

sys.modules["a_node"] = types.SimpleNamespace(main=main)
start.MODULES["a_node"] = "a_node"
atexit.register(print, "Python ends")
sys.exit(start.start("a_node"))
"""


@pytest.mark.parametrize(
    ("thread", "lines"), [("none", ["the last line", "Python ends"]), ("hangs", ["the last line"])]
)
def test_a_thread_that_hangs_does_not_outlive_python(thread: str, lines: list[str]) -> None:
    """It may be in a library whose state Python's end takes away: the process ends before."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, thread],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (ended.returncode, ended.stdout.splitlines()) == (3, lines)
