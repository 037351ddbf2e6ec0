# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Other distributions add entries by entry points: only the one asked for is imported, none is ambiguous."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import pytest

from remote_inference.base.documents.document import Document, DocumentError, NameIn, parse_document
from remote_inference.base.documents.registry import Registry
from support.entry_point_files import install


@pytest.fixture
def tools() -> Registry[object]:
    registry = Registry[object]("tool", takes_places=True, group="remote_inference.policies")
    registry.add("gripper", 1)
    return registry


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the path, to install into."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def refusal_of(tools: Registry[object], name: str) -> str:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        tools.check(name)
    return str(refusal.value)


def test_a_name_of_an_entry_point_is_found_and_only_its_module_is_imported(
    tools: Registry[object], site: Path
):
    for name in ("welder", "cutter"):
        install(site, f"my-{name}s", f"{name} = my_{name}s:TOOL")
        (site / f"my_{name}s.py").write_text(f"TOOL = {name!r}\n")
    assert tools.check("welder") == "welder"
    assert "my_welders" not in sys.modules
    assert tools.get("welder") == "welder"
    assert "my_cutters" not in sys.modules
    assert tools.describe("welder") == "'welder' of my-welders 1.0"


def test_entry_points_are_among_the_names_that_are_expected(tools: Registry[object], site: Path):
    install(site, "my-welders", "welder = my_welders:TOOL")
    assert refusal_of(tools, "weldr") == (
        "found 'weldr', expected 'gripper', 'welder' or 'module:attribute'; did you mean 'welder'?"
    )


def test_a_document_takes_an_entry_point_s_name_and_its_schema_too(tools: Registry[object], site: Path):
    class Hand(Document):
        tool: Annotated[str, NameIn(tools)]

    with pytest.raises(DocumentError):
        parse_document({"tool": "welder"}, Hand, "hand.yaml")
    install(site, "my-welders", "welder = my_welders:TOOL")
    assert parse_document({"tool": "welder"}, Hand, "hand.yaml").tool == "welder"
    jsonschema = pytest.importorskip("jsonschema", reason="requirements/dev.txt lists it")
    schema = json.loads(json.dumps(Hand.model_json_schema()))
    for name in ("gripper", "welder", "my_welders:TOOL", "acme.welder-2"):
        jsonschema.validate({"tool": name}, schema)
    for name in ("", "my welder", 3):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"tool": name}, schema)


def test_two_distributions_with_one_name_are_both_named(tools: Registry[object], site: Path):
    install(site, "my-welders", "welder = my_welders:TOOL")
    install(site, "your-welders", "welder = your_welders:TOOL", version="2.1")
    assert refusal_of(tools, "welder") == (
        "found 'welder', which is declared by my-welders 1.0 and your-welders 2.1; "
        "expected one of them installed"
    )


def test_a_name_that_shadows_a_built_in_one_is_refused_with_its_distribution(
    tools: Registry[object], site: Path
):
    install(site, "my-grippers", "gripper = my_grippers:TOOL")
    assert refusal_of(tools, "gripper") == (
        "found 'gripper', which is built in and declared by my-grippers 1.0, too; expected another name there"
    )


def test_one_distribution_in_two_folders_counts_once(
    tools: Registry[object], site: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch
):
    """An overlay in front of the installed version, as pip --target makes it."""
    overlay = tmp_path_factory.mktemp("overlay")
    install(site, "my-welders", "welder = my_welders:TOOL")
    install(overlay, "my-welders", "welder = my_welders:TOOL", version="1.1")
    monkeypatch.syspath_prepend(overlay)
    assert tools.check("welder") == "welder"
    assert tools.describe("welder") == "'welder' of my-welders 1.1"


def test_every_name_is_told_with_those_of_entry_points_and_at_once(tools: Registry[object], site: Path):
    assert tools.every_name == ("gripper",)
    install(site, "my-welders", "welder = my_welders:TOOL")
    assert tools.every_name == ("gripper", "welder")
