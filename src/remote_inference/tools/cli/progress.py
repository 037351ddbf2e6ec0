# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A progress bar on stderr, for verbs that read gigabytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_CHARACTERS = 32  # of what is done: a long path would leave no room for the bar


@contextmanager
def show_progress(what: str, total: int, *, is_quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how much of a total is done; yield what takes each advance. Only on a terminal."""
    if is_quiet or not sys.stderr.isatty():
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
def show_bag_progress(what: str, bag: Path, *, is_quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """Show how much of a bag is read; yield what takes the fraction that is done."""
    size = sum(file.stat().st_size for file in bag.glob("*.mcap"))
    done = 0
    with show_progress(what, size, is_quiet=is_quiet) as advance:

        def report(fraction: float) -> None:
            nonlocal done
            now = int(fraction * size)
            if now - done > size // 1000:  # not for each of a million messages
                advance(now - done)
                done = now

        yield report
