# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the notebooks of docs/tutorials and stores what their cells print.

python tools/notebooks.py

Cells may await, as in Jupyter. No kernel is needed; test/learn/rollouts/test_rollouts_notebook.py runs them.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

TUTORIALS = Path(__file__).parents[1] / "docs" / "tutorials"


def run_cells(notebook: dict[str, Any]) -> list[str]:
    """Return what each code cell prints, in order. Raises what a cell raises."""

    async def run() -> list[str]:
        names: dict[str, Any] = {"__name__": "__main__"}
        printed = []
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                code = compile("".join(cell["source"]), cell["id"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                with redirect_stdout(io.StringIO()) as out:
                    result = eval(code, names)
                    if inspect.isawaitable(result):
                        await result
                printed.append(out.getvalue())
        return printed

    return asyncio.run(run())


def read(path: Path) -> dict[str, Any]:
    """Return a notebook."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def stored(notebook: dict[str, Any]) -> list[str]:
    """Return what is stored as printed by each code cell."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return ["".join(line for output in cell["outputs"] for line in output["text"]) for cell in cells]


def store(notebook: dict[str, Any], printed: list[str]) -> None:
    """Put into each code cell what it prints."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(cells, printed, strict=True), start=1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []


def main() -> None:
    for path in sorted(TUTORIALS.glob("*.ipynb")):
        notebook = read(path)
        store(notebook, run_cells(notebook))
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
