# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How every executable begins: signals are caught before the imports, which take a second or more.

python -m remote_inference.base.nodes.start policy_server --ros-args -p manifest:=belt_arm.manifest.yaml
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from remote_inference.base.stop_signals import ending_signals, handle

# The module of each executable.
MODULES = {
    "policy_server": "remote_inference.server.nodes.policy_server",
    "remote_inference": "remote_inference.robot.nodes.remote_inference",
    "belt_arm": "remote_inference.learn.nodes.belt_arm",
    "bag_recorder": "remote_inference.bags.nodes.bag_recorder",
    "command_watchdog": "remote_inference.robot.nodes.command_watchdog",
    "environment": "remote_inference.learn.nodes.environment",
}


def start(executable: str) -> int:
    """Run an executable; return its exit code. A signal ends it at once until `run_node` takes over."""
    handle(ending_signals(), _leave)
    code = int(import_module(MODULES[executable]).main())
    handle(ending_signals(), signal.SIG_IGN)  # Python's own end would restore what kills the process
    if any(thread.daemon for thread in threading.enumerate()):
        # One that hangs, in a policy or on a disk: it must not outlive Python, whose end may crash in it.
        leave(code)
    return code


def leave(code: int) -> NoReturn:
    """End the process at once, without Python's own end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _leave(_number: int, _frame: FrameType | None) -> None:
    # The processes that a library runs while it is imported would print a traceback without us.
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):  # the thread, or the helper, has ended
            for helper in listing.read_text().split():
                os.kill(int(helper), signal.SIGKILL)
    os._exit(0)  # an exception would surface inside the module that is being imported


policy_server = partial(start, "policy_server")
remote_inference = partial(start, "remote_inference")
belt_arm = partial(start, "belt_arm")
bag_recorder = partial(start, "bag_recorder")
command_watchdog = partial(start, "command_watchdog")
environment = partial(start, "environment")

if __name__ == "__main__":
    sys.exit(start(sys.argv[1]))
