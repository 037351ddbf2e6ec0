# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs one verb, and ends as a shell program should: with a line and a code, never with a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from remote_inference.base.errors import UserError
from remote_inference.tools.cli.exit_codes import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, EXIT_USAGE
from remote_inference.tools.cli.output import print_error, results_apart
from remote_inference.tools.cli.parser import make_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    try:
        code = _run(argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # further output is discarded: Python flushes at its end, which would raise again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    return code


def _run(argv: Sequence[str] | None) -> int:
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    try:
        arguments = make_parser().parse_args(argv)
    except SystemExit:
        sys.stdout.flush()  # the help's reader may be gone
        raise
    try:
        if arguments.has_nodes:
            from remote_inference.tools.deployment.middleware import require_middleware  # noqa: PLC0415

            require_middleware()
        with results_apart():
            return int(arguments.run(arguments))
    except BrokenPipeError:
        raise
    except (UserError, OSError, ImportError) as error:
        print_error(arguments.verb, _describe(error))
        return EXIT_USAGE


def _complete() -> None:
    """Print the completions of the command line and exit, when the shell asks for them."""
    with suppress(ModuleNotFoundError):  # argcomplete is optional
        from argcomplete import autocomplete  # noqa: PLC0415  of no use to anybody else

        autocomplete(make_parser(complete=True))


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError):
        return f"found no Python package {error.name}: install it with pip or rosdep"
    return str(error)
