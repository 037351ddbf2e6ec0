# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference`: the package's verbs for people without ros2cli.

Nothing is imported before it is used: Ctrl-C is taken before the imports, which take a second or more.
"""

from __future__ import annotations

import os
import signal

# As those of `common` and of typing, which take time.
EXIT_INTERRUPTED = 130
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    from remote_inference.tools.cli import parser  # noqa: PLC0415

    return parser.main(argv)


def start() -> int:
    """Run the program; return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _interrupt)
    try:
        return main()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        if signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python itself is ending


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but out of an import, which would make another error of it: leave at once."""
    while frame is not None:
        if frame.f_code.co_filename in IMPORTING:
            os._exit(EXIT_INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
