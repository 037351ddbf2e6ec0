# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which threads of this process belong to the middleware, for tests of how it ends."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def native_threads() -> list[str]:
    """Return the names of this process's threads, sorted, but those that begin with the main thread's.

    Threads of Python and of most libraries have its name; those of the middleware have names of their own.
    """
    python = Path("/proc/self/comm").read_text().strip()
    names = []
    for name in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # the thread has just ended
            names.append(name.read_text().strip())
    return sorted(name for name in names if not name.startswith(python))
