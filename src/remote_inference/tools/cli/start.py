# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How the program begins: Ctrl-C is taken before the imports, which take a second or more."""

from __future__ import annotations

import os
import signal
from types import FrameType

from remote_inference.tools.cli.exit_codes import EXIT_INTERRUPTED

IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")


def start() -> int:
    """Run the program; return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background job ignores it
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from remote_inference.tools.cli.program import main  # noqa: PLC0415

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
