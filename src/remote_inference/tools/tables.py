# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables that can be read anywhere: drawn by rich on a terminal, plain aligned text elsewhere.

Nothing is cut: in a pipe a line is as long as it needs to be,
and a terminal that is too narrow wraps cells.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from remote_inference.base.limits import visible

GAP = "  "


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings, which may have several lines; `numbers` are set flush right."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    numbers: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Return the table as plain text, one line per row."""
        lines = [*self._headings(), *self._cells()]
        widths = [max((len(line[index]) for line in lines), default=0) for index in range(len(self.columns))]
        sides = [">" if column in self.numbers else "<" for column in self.columns]
        texts = [
            GAP.join(f"{text:{side}{width}}" for text, side, width in zip(line, sides, widths, strict=True))
            for line in lines
        ]
        return "\n".join(text.rstrip() for text in [*([self.title] if self.title else []), *texts])

    def to_rich(self) -> Any:
        """Return the table for a terminal, where rich is installed."""
        from rich.box import SIMPLE_HEAD  # noqa: PLC0415  only where something is drawn
        from rich.table import Table as RichTable  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        drawn = RichTable(
            title=Text(self.title) if self.title else None,
            box=SIMPLE_HEAD,
            title_justify="left",
            min_width=max(map(len, self.title.splitlines()), default=0),  # else a long title is folded
            show_header=bool(self._headings()),
            padding=(0, 1, 0, 0),
            pad_edge=False,
        )
        for column in self.columns:
            justify = "right" if column in self.numbers else "left"
            drawn.add_column(Text(column), vertical="bottom", justify=justify, overflow="fold")  # type: ignore[arg-type]
        for row in self._cells():
            drawn.add_row(*map(Text, row))
        return drawn

    def _cells(self) -> list[list[str]]:
        """Return the rows, in which others' words may stand."""
        return [[visible(cell, in_lines=True) for cell in row] for row in self.rows]

    def _headings(self) -> list[tuple[str, ...]]:
        """Return the lines of the headings, which end on the same one."""
        if not any(column.strip() for column in self.columns):
            return []
        parts = [column.split("\n") for column in self.columns]
        depth = max(map(len, parts))
        return list(zip(*([""] * (depth - len(lines)) + lines for lines in parts), strict=True))


def print_table(table: Table) -> None:
    """Print a table on stdout."""
    if not sys.stdout.isatty():
        print(table.to_text())
        return
    from rich.console import Console  # noqa: PLC0415  only where something is drawn

    Console().print(table.to_rich())


def draw_forever(render: Callable[[], Any], wait: Callable[[], None]) -> None:
    """Draw what is rendered on the whole terminal, anew after each wait, without end."""
    from rich.live import Live  # noqa: PLC0415  only where something is drawn

    with Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(render(), refresh=True)
            wait()
