# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A run that learns, while it goes on: a live line on the terminal, and a picture that is drawn anew."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from remote_inference.demo.console import Display, state_text
from remote_inference.demo.learn import Attempt, Learning, Tell
from remote_inference.demo.learning import WINDOW, draw_learning
from remote_inference.demo.options import DemoOptions


@contextmanager
def live_learning(display: Display, options: DemoOptions, duration_s: float, folder: Path) -> Iterator[Tell]:
    """Show a run; yield a function that takes its progress, and draws learning.png after each attempt."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[version]}"),
        TextColumn("{task.fields[picked]}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=display.console, disable=not display.is_live) as bar:
        task = bar.add_task(
            f"learn, {options.latency_ms:g} ms", total=duration_s, version="", picked="", state=""
        )
        drawn = 0

        def tell(learning: Learning) -> None:
            nonlocal drawn
            bar.update(
                task,
                completed=learning.since_s,
                version=f"version {learning.version}" if learning.version else "beginner",
                picked=_picked(learning.attempts),
                state=state_text(learning.state),
            )
            if len(learning.attempts) > drawn:
                drawn = len(learning.attempts)
                draw_learning(options, learning.attempts, time.time() - learning.since_s, folder)

        yield tell


def _picked(attempts: Sequence[Attempt]) -> str:
    last = [attempt.episode.success for attempt in attempts[-WINDOW:]]
    return f"picked {sum(last)} of {len(last)}" if last else ""
