# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference`: the package's verbs for people without ros2cli.

Nothing is imported before it is used: the program begins in `start`, which takes Ctrl-C first.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which takes time
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    from remote_inference.tools.cli import program  # noqa: PLC0415

    return program.main(argv)
