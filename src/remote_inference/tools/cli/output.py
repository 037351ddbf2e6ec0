# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a verb prints: text for people, JSON for programs, only errors with `--quiet`, and bars on stderr."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MOST_CHARACTERS = 32  # of what is done: a long path would leave no room for the bar


def add_output_arguments(
    parser: argparse.ArgumentParser, *, json_shape: str, quiet: str = "print nothing but errors"
) -> None:
    """Declare `--json`, whose one shape the help says, and `--quiet`, unless `quiet` is empty."""
    parser.add_argument("--json", action="store_true", help=f"print JSON: {json_shape.replace('%', '%%')}")
    if quiet:
        add_quiet(parser, quiet)


def add_quiet(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare `--quiet`. text: what is still printed."""
    parser.add_argument("--quiet", action="store_true", help=text)


def print_error(verb: str, text: str) -> None:
    """Print an error of a verb: each of its lines says whose it is."""
    sys.stdout.flush()
    for line in text.splitlines() or [""]:
        print(f"remote-inference {verb}: {line}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Print one JSON value on one line; numbers that are not finite become null, because JSON lacks them."""
    print(json.dumps(_finite(value), allow_nan=False), flush=True)


@contextmanager
def results_apart() -> Iterator[None]:
    """Let only results reach the standard output: within the block, file descriptor 1 is standard error.

    rmw_zenoh logs to file descriptor 1, where its lines would stand between those of `--json`. What Python
    prints goes to a copy of what that descriptor was before.
    """
    stream = sys.stdout
    if not _is_descriptor_1(stream):  # there is none, or it is a test's
        yield
        return
    stream.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(original), "w", encoding=stream.encoding, errors=stream.errors) as results:
            sys.stdout = results
            yield
    finally:
        sys.stdout = stream
        os.dup2(original, 1)
        os.close(original)


def _is_descriptor_1(stream: Any) -> bool:
    try:
        return bool(stream.fileno() == 1)
    except (AttributeError, OSError, ValueError):  # None, a stream without one, or closed
        return False


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


# -- A progress bar on stderr, for verbs that read gigabytes ---------------------------------------------


@contextmanager
def show_progress(what: str, total: int, arguments: argparse.Namespace) -> Iterator[Callable[[int], None]]:
    """Show how much of a total is done; yield what takes each advance. Only on a terminal.

    arguments: with `--quiet` or `--json` nothing is shown.
    """
    if arguments.quiet or arguments.json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415  takes a tenth of a second
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        shown = what if len(what) <= MOST_CHARACTERS else f"...{what[3 - MOST_CHARACTERS :]}"
        task = progress.add_task(shown, total=total)
        yield lambda advance: progress.advance(task, advance)


@contextmanager
def show_bag_progress(
    what: str, bag: Path, arguments: argparse.Namespace
) -> Iterator[Callable[[float], None]]:
    """Show how much of a bag is read; yield what takes the fraction that is done."""
    size = sum(file.stat().st_size for file in bag.glob("*.mcap"))
    done = 0
    with show_progress(what, size, arguments) as advance:

        def report(fraction: float) -> None:
            nonlocal done
            now = int(fraction * size)
            if now - done > size // 1000:  # not for each of a million messages
                advance(now - done)
                done = now

        yield report
