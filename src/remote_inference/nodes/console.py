# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A console that takes no output must not hold a process that moves robots, watches or serves them."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress


def never_wait_for_the_console() -> None:
    """Let output be lost that nobody takes. Call it before the process logs anything.

    A terminal after Ctrl-S, or a pipe whose reader is stuck, holds whoever logs, and with it all threads: the
    middleware's console writes while it has the interpreter. Terminals and pipes are opened anew, so that
    others who share them still wait; a socket, such as the journal's, cannot be.
    """
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or of a system without /proc: it waits as before
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISFIFO(mode) or os.isatty(descriptor):
                own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
                os.dup2(own, descriptor)
                os.close(own)
            elif stat.S_ISSOCK(mode):
                flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
                fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_NONBLOCK)
