# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The mutation run finds what no test notices, and believes an explanation as long as its mutant exists."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from mutations import find_mutants

ROOT = Path(__file__).parents[2]
MODULE = """BOUND = 2.0


def clamp(value: float, bound: float) -> float:
    if value > bound:
        return bound
    return value
"""
TEST = """from remote_inference.base.tiny import BOUND, clamp


def test_what_is_too_much_is_clamped():
    assert clamp(3.0, 2.0) == 2.0
    assert clamp(1.0, 2.0) == 1.0


def test_the_bound_is_two():
    assert BOUND == 2.0
"""
SURVIVOR = """
  - function: clamp
    line: "if value > bound:"
    becomes: ["if value >= bound:"]
    reason: both are the bound then
"""
STALE = SURVIVOR.replace(">= bound", "!= bound")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A package of one function with one test."""
    for name, text in {
        "pyproject.toml": "[tool.pytest.ini_options]\n",
        "src/remote_inference/base/__init__.py": "",
        "src/remote_inference/base/tiny.py": MODULE,
        "test/base/test_tiny.py": TEST,
        "tools/equivalent_mutants.yaml": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "mutants.py"), "tiny", "--root", str(checkout)]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_change_that_no_test_notices_is_shown_with_its_place(checkout: Path) -> None:
    result = run(checkout)
    assert result.returncode == 1, result.stderr
    assert "| tiny | 6 | 5 | 0 | 1 | 0 |" in result.stdout
    assert "base/tiny.py:5: survived\n  function: clamp\n  line: if value > bound:\n" in result.stdout
    assert "  becomes: if value >= bound:\n" in result.stdout
    assert (checkout / "src/remote_inference/base/tiny.py").read_text() == MODULE


@pytest.mark.parametrize(("explained", "code"), [(SURVIVOR, 0), (SURVIVOR + STALE, 1)])
def test_an_explanation_holds_as_long_as_its_mutant_exists(checkout: Path, explained: str, code: int) -> None:
    (checkout / "tools" / "equivalent_mutants.yaml").write_text("tiny:" + explained)
    (checkout / "src/remote_inference/base/tiny.py").write_text("\n\n" + MODULE)  # lines may move
    result = run(checkout)
    assert result.returncode == code, result.stderr
    assert f"| tiny | 6 | 5 | 1 | 0 | {code} |" in result.stdout


def test_every_explanation_is_of_a_mutant_that_exists() -> None:
    explained = yaml.safe_load((ROOT / "tools" / "equivalent_mutants.yaml").read_text())
    in_vain = set()
    for module, entries in explained.items():
        (path,) = (ROOT / "src" / "remote_inference").rglob(f"{module}.py")
        known = {mutant.identity for mutant in find_mutants(path.read_text())}
        in_vain |= {
            identity
            for entry in entries
            for becomes in entry["becomes"]
            if (identity := (entry["function"], entry["line"], becomes)) not in known
        }
    assert in_vain == set()


def test_no_mutant_is_tried_with_tests_that_fail(checkout: Path) -> None:
    (checkout / "test/base/test_tiny.py").write_text("def test_fails():\n    assert False\n")
    result = run(checkout)
    assert result.returncode == 1
    assert "no mutant was tried" in result.stderr


@pytest.mark.parametrize(
    ("source", "becomes"),
    [
        ("a and b", {"a", "b"}),
        ("not a", {"a"}),
        ("a + b * c", {"a - b * c", "a + b / c"}),
        ("x if a else y", {"x", "y"}),
        ("max(a, b)", {"min(a, b)"}),
        ("a.any()", {"a.all()"}),
        ("f(a, strict=True)", set()),
        ("f(a, strictly=True)", {"f(a)", "f(a, strictly=False)"}),
        ("a[b:]", {"a[:]"}),
        ("(1, 1000, 0.5, '')", {"(0,", "(2,", "500,", "2000,", "0.25,", "1.0,", "'mutant')"}),
        ("'a text'", set()),
        ("[a for a in b if a]", {"[a for a in b if True]"}),
    ],
)
def test_each_part_of_an_expression_is_changed(source: str, becomes: set[str]) -> None:
    found = {mutant.becomes for mutant in find_mutants(f"result = {source}\n")}
    assert len(found) == len(becomes)
    for part in becomes:
        assert any(part in text for text in found), (part, found)


def test_calls_conditions_and_what_is_kept_are_changed_and_annotations_are_not() -> None:
    source = "class A:\n  def f(self, a: 3 | 4) -> 5:\n    if a:\n      self.b = a  # why\n    self.g()\n"
    assert [(mutant.function, mutant.line, mutant.becomes) for mutant in find_mutants(source)] == [
        ("A.f", "if a:", "if False:"),
        ("A.f", "if a:", "if True:"),
        ("A.f", "self.b = a", "pass"),
        ("A.f", "self.g()", "pass"),
    ]
