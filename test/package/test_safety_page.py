# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The promises of docs/explanation/safety.md are tested where its last table says so."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "safety.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("## Which test proves it\n")[2]
PROMISES = [line for line in TABLE.splitlines() if line.startswith("| ") and "section | promise" not in line]
NAMED = re.findall(r"`(test/[\w/]+\.py)::(\w+)`", TABLE)


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(file: str, name: str):
    assert name in names_in(file)


@pytest.mark.parametrize("line", PROMISES, ids=[line.split("|")[2].strip()[:60] for line in PROMISES])
def test_every_promise_names_a_test(line: str):
    assert re.search(r"`test/[\w/]+\.py::test_\w+`", line.split("|")[3]), line
