# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Becomes a command that ends with its parent, even when the parent is killed.

    python end_with_parent.py PARENT_PID COMMAND [ARGUMENT...]

Run this file by its path. It needs only the standard library: it must take effect before the command loads
anything. The kernel sends SIGTERM when the thread that started us ends, so a node stops its robot as for
every other stop. The request outlives `execv`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(parent: int, command: list[str]) -> None:
    """Turn into the command, unless the parent is gone already."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM)):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() == parent:  # read after the request: a parent that ended before it sends no signal
        os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
