# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference`: the package's verbs for people without ros2cli.

Nothing is imported before it is used: the program begins in `start`, which takes Ctrl-C first.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's, which takes time
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["main", "make_parser"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    from remote_inference.tools.cli import program  # noqa: PLC0415

    return program.main(argv)


def make_parser(*, complete: bool = False) -> argparse.ArgumentParser:
    """Return the program's parser, as `parser.make_parser` does."""
    from remote_inference.tools.cli import parser  # noqa: PLC0415

    return parser.make_parser(complete=complete)
