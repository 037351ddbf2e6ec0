# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/reference/robots.md and the files of config/robots name each other, and what is to be copied fits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.contract.contract import load_contract
from remote_inference.robot.config import RobotConfig

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "config" / "robots"
TEXT = (ROOT / "docs" / "reference" / "robots.md").read_text(encoding="utf-8")
FILES = sorted(FOLDER.glob("*.yaml"))
PIECE = re.compile(r"<!-- tested: (.+?) -->\n\n```yaml\n(.*?)```", re.DOTALL)
PIECES: dict[str, Any] = {name: yaml.safe_load(text) for name, text in PIECE.findall(TEXT)}
ROW = re.compile(r"^\| `(\S+\.contract\.yaml)` \|.*?\| `(\w+)` \|", re.MULTILINE)
FALLBACKS = dict(ROW.findall(TEXT))


def test_the_page_names_each_file_and_no_other() -> None:
    assert sorted(FALLBACKS) == [path.name for path in FILES]


def test_each_file_has_sources_on_the_page() -> None:
    for path in FILES:
        robot = path.name.partition(".")[0]
        rows = re.findall(rf"^\| `{robot}` \| .+ \| .*\]\(https://.+\) \|$", TEXT, re.MULTILINE)
        assert len(rows) >= 2, robot


def test_sources_on_github_are_named_by_their_commit() -> None:
    for link in re.findall(r"\((https://github\.com/[^)]+/blob/[^)]+)\)", TEXT):
        assert re.search(r"/blob/[0-9a-f]{40}/", link), link


def test_the_page_and_each_file_say_that_it_was_never_run() -> None:
    assert "None of them was run on the real robot." in TEXT
    for path in FILES:
        assert "Never run on the real " in path.read_text(), path.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_the_fallback_that_the_page_names_is_one_that_the_node_takes(path: Path) -> None:
    config = RobotConfig(servers=("/server",), fallback=FALLBACKS[path.name])
    config.check_fallback(*load_contract(path).actions.kinds)


@pytest.mark.parametrize("robot", ["ur_robotiq", "lekiwi"])
def test_a_controller_to_be_added_takes_the_joints_of_the_contract_in_order(robot: str) -> None:
    piece = PIECES[robot]
    (controller,) = set(piece) - {"controller_manager"}
    assert controller in piece["controller_manager"]["ros__parameters"]
    contract = load_contract(FOLDER / f"{robot}.contract.yaml")
    (sink,) = [sink for sink in contract.commands if sink.topic == f"{controller}/commands"]
    assert tuple(piece[controller]["ros__parameters"]["joints"]) == sink.names
