# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Output that nobody takes holds no process: a terminal after Ctrl-S, a pipe whose reader is stuck."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

DEADLINE_S = 30.0
LOGS = """
import os, sys, threading
from remote_inference.base.nodes.runtime import make_console_nonblocking
make_console_nonblocking()
import rclpy
rclpy.init()
log = rclpy.create_node("talker").get_logger()
for _ in range(1000):
    log.error("x" * 100)
os.write(int(sys.argv[1]), b"still alive")
os._exit(0)
"""


def open_file() -> tuple[int, ...]:
    return (os.memfd_create("log"),)


@pytest.fixture(params=[os.pipe, pty.openpty, open_file], ids=["pipe", "terminal", "file"])
def console(request: pytest.FixtureRequest) -> Iterator[int]:
    """What nobody reads from, and a file."""
    make: Callable[[], tuple[int, ...]] = request.param
    taken = make()
    yield taken[-1]
    for descriptor in taken:
        os.close(descriptor)


def test_a_node_goes_on_when_nobody_takes_what_it_logs(console: int) -> None:
    there, here = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", LOGS, str(here)], stdout=console, stderr=console, pass_fds=(here,)
    )
    try:
        assert process.wait(DEADLINE_S) == 0
        assert os.read(there, 100) == b"still alive"
    finally:
        process.kill()
        process.wait()
        for descriptor in (there, here):
            os.close(descriptor)
