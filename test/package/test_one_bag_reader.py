# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One folder reads the files of bags: what it does not leave out without a word, nobody else does."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "remote_inference"
STORAGE = "bags/storage"
LIBRARIES = ("mcap", "rosbags.rosbag2", "rosbags.highlevel")
ENDINGS = (".mcap", ".db3")
ALLOWED = {
    "bags/checks/digests.py": {".mcap"},  # the names of files that are absent
    "tools/cli/common.py": {".mcap"},  # the size of what is still to be read
}


def find_reading(code: str) -> set[str]:
    """Return the libraries of bags that a module imports, and the endings of bags' files in its strings."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {ending for ending in ENDINGS if node.value.endswith(ending)}
        found |= {library for library in LIBRARIES for name in names if f"{name}.".startswith(f"{library}.")}
    return found


def test_nothing_but_the_storage_of_bags_reads_their_files() -> None:
    paths = {path.relative_to(SOURCE).as_posix(): path for path in SOURCE.rglob("*.py")}
    found = {name: find_reading(path.read_text()) for name, path in paths.items()}
    readers = {name: reading for name, reading in found.items() if reading and not name.startswith(STORAGE)}
    assert readers == ALLOWED
    assert {*LIBRARIES, *ENDINGS} - {"rosbags.highlevel"} <= set().union(*found.values()), "is it elsewhere?"


def test_a_module_that_reads_a_bag_by_itself_is_found() -> None:
    assert find_reading("from mcap.reader import make_reader") == {"mcap"}
    assert find_reading("from rosbags import rosbag2, interfaces") == {"rosbags.rosbag2"}
    assert find_reading("def read():\n    import rosbags.highlevel") == {"rosbags.highlevel"}
    assert find_reading('open(folder / "run_0.mcap")') == {".mcap"}
    assert find_reading("from rosbags.interfaces import Qos\nfrom mcap_of_ours import read") == set()
