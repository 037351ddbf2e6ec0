# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The promises of docs/explanation/safety.md are tested where its tables say so, and explained."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "safety.md"
EXPLANATION = PAGE.with_name("how_safety_works.md")
PROOFS = PAGE.read_text(encoding="utf-8").partition("## The promises and their tests\n")[2]
GROUPS = {group.partition("\n")[0]: group for group in PROOFS.split("\n### ")[1:]}
PROMISES = [line for line in PROOFS.splitlines() if line.startswith("| ") and line != "| promise | tests |"]
NAMED = sorted(set(re.findall(r"`(test/[\w/]+\.py)::(\w+)`", PROOFS)))


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_a_named_test_exists(file: str, name: str):
    assert name in names_in(file)


@pytest.mark.parametrize("line", PROMISES, ids=[line.split("|")[1].strip()[:60] for line in PROMISES])
def test_every_promise_names_a_test(line: str):
    assert re.search(r"`test/[\w/]+\.py::test_\w+`", line.split("|")[2]), line


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_every_group_has_promises_and_an_explanation(group: str):
    assert "\n\nExplained in [" in group
    assert "\n\n| promise | tests |\n|---|---|\n| " in group


def test_every_section_of_the_explanation_has_promises():
    headings = re.findall(r"^##+ (.+)$", EXPLANATION.read_text(encoding="utf-8"), flags=re.MULTILINE)
    linked = re.findall(rf"\({EXPLANATION.name}#([\w-]+)\)", "".join(GROUPS.values()))
    assert set(linked) == {heading.lower().replace(" ", "-") for heading in headings}
