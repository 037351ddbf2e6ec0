# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries found by name: imported when asked for, no name twice, unknown ones refused with the known ones."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import create_model

from remote_inference.base.documents.document import (
    Document,
    DocumentError,
    NameIn,
    allowed_names,
    parse_document,
)
from remote_inference.base.documents.registry import Registry


@pytest.fixture
def tools() -> Registry[object]:
    registry = Registry[object]("tool")
    registry.add("gripper", 1)
    registry.add("suction_cup", 2)
    return registry


def test_an_entry_is_found_by_its_name_and_names_keep_their_order(tools: Registry[object]):
    assert tools.get("suction_cup") == 2
    assert tools.names == ("gripper", "suction_cup")


def test_a_name_that_is_taken_is_refused_and_keeps_its_entry(tools: Registry[object]):
    with pytest.raises(ValueError, match=r"^tool 'gripper' is there already, expected another name$"):
        tools.add("gripper", 3)
    assert tools.get("gripper") == 1


@pytest.mark.parametrize(
    ("name", "found", "hint"),
    [
        ("griper", "'griper'", "; did you mean 'gripper'?"),
        ("welder", "'welder'", ""),
        ("", "''", ""),
        (3, "3", ""),
        (None, "nothing", ""),
        (("gripper",), "['gripper']", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    tools: Registry[object], name: object, found: str, hint: str
):
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        tools.check(name)
    assert str(refusal.value) == f"found {found}, expected 'gripper' or 'suction_cup'{hint}"


def test_a_module_is_imported_when_its_entry_is_asked_for(
    tools: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "welding_tools.py").write_text("WELDER = 'hot'\n")
    monkeypatch.syspath_prepend(tmp_path)
    tools.add("welder", "welding_tools:WELDER")
    assert tools.check("welder") == "welder"
    assert "welding_tools" not in sys.modules
    assert tools.get("welder") == "hot"
    monkeypatch.delitem(sys.modules, "welding_tools")


def test_a_library_that_is_missing_is_said_when_the_entry_is_asked_for(tools: Registry[object]):
    tools.add("laser", "no_such_library:LASER")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        tools.get("laser")


def test_a_document_takes_what_is_added_later_and_its_schema_lists_it(tools: Registry[object]):
    class Hand(Document):
        tool: Annotated[str, NameIn(tools)]

    with pytest.raises(DocumentError) as refusal:
        parse_document({"tool": "welder"}, Hand, "hand.yaml")
    assert str(refusal.value) == "hand.yaml: tool: found 'welder', expected 'gripper' or 'suction_cup'"
    tools.add("welder", 3)
    assert parse_document({"tool": "welder"}, Hand, "hand.yaml").tool == "welder"
    assert allowed_names(Hand.model_fields["tool"]) == ("gripper", "suction_cup", "welder")
    schema = json.loads(json.dumps(Hand.model_json_schema()))
    assert schema["properties"]["tool"]["enum"] == ["gripper", "suction_cup", "welder"]


def test_a_registry_that_takes_places_finds_what_nobody_has_added():
    tools = Registry[str]("tool", takes_places=True)
    assert tools.check("string:ascii_letters") == "string:ascii_letters"
    assert tools.get("string:ascii_letters").startswith("abc")
    for name in ("string:", ":x", "string", "a b:c", "string:ascii letters"):
        with pytest.raises(ValueError, match="expected 'module:attribute'"):
            tools.check(name)
    with pytest.raises(ImportError):
        tools.get("no_such_module:load")
    with pytest.raises(AttributeError):
        tools.get("string:no_such_attribute")


def test_a_registry_without_places_refuses_them():
    with pytest.raises(ValueError, match="found 'string:ascii_letters'"):
        Registry[object]("tool").check("string:ascii_letters")


@pytest.mark.parametrize(
    ("names", "expected"), [(["a"], "'a'"), (["a", "b"], "'a' or 'b'"), (["a", "b", "c"], "'a', 'b' or 'c'")]
)
def test_the_known_names_are_listed_as_those_of_a_literal(names: list[str], expected: str):
    registry = Registry[object]("tool")
    for name in names:
        registry.add(name, 0)

    class ByRegistry(Document):
        tool: Annotated[str, NameIn(registry)]

    by_literal = create_model("ByLiteral", __base__=Document, tool=Literal[tuple(names)])
    for model in (ByRegistry, by_literal):
        with pytest.raises(DocumentError) as refusal:
            parse_document({"tool": "welder"}, model, "hand.yaml")
        assert str(refusal.value) == f"hand.yaml: tool: found 'welder', expected {expected}"
