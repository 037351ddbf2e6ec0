# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What other packages import from `remote_inference` itself."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import remote_inference

SOURCE = Path(__file__).parents[2] / "src" / "remote_inference"
NAMES = [name for names in remote_inference.FACE.values() for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_face_can_be_imported(name: str) -> None:
    assert getattr(remote_inference, name) is not None
    assert name in dir(remote_inference)


def test_no_name_stands_for_two_things() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_a_name_that_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'remote_inference' has no attribute 'Policey'"):
        remote_inference.Policey  # noqa: B018


def test_checkers_of_types_know_each_name_from_the_same_module() -> None:
    stub = ast.parse((SOURCE / "__init__.pyi").read_text())
    known = {
        (alias.name, node.module)
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("remote_inference")
        for alias in node.names
    }
    assert known == {
        (name, f"remote_inference.{module}")
        for module, names in remote_inference.FACE.items()
        for name in names
    }
    assert (SOURCE / "py.typed").exists()


def test_the_package_itself_imports_none_of_its_rooms() -> None:
    code = "import sys, remote_inference; print([name for name in sys.modules if name.startswith('remote_')])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "['remote_inference']"
