# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def make_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a bar in a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
