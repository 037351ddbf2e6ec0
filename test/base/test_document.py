# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML documents: what cannot be read or validated is said with file, key, found and expected."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import pytest
import yaml
from pydantic import Field

from remote_inference.base.documents.document import (
    Document,
    DocumentError,
    load_document,
    parse_document,
    parse_json,
    parse_yaml,
)
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.errors import MAX_LINE


class Gripper(Document):
    width: float
    open: bool = False
    fingers: tuple[str, ...] = ()


class Arm(Document):
    name: str
    gripper: Gripper


def write(folder: Path, content: bytes) -> Path:
    path = folder / "arm.yaml"
    path.write_bytes(content)
    return path


def test_a_valid_file_becomes_a_frozen_model(tmp_path: Path):
    arm = load_document(write(tmp_path, b"name: a\ngripper: {width: 1, fingers: [l, r]}\n"), Arm)
    assert arm == Arm(name="a", gripper=Gripper(width=1.0, fingers=("l", "r")))
    with pytest.raises(ValueError, match="frozen"):
        arm.name = "b"  # type: ignore[misc]


def test_anchors_and_merge_keys_are_read(tmp_path: Path):
    """Six joints with equal limits are written once."""
    content = b"name: a\ngripper: &left {width: 1.0}\nother: {<<: *left, open: true}\n"

    class TwoHands(Arm):
        other: Gripper

    arm = load_document(write(tmp_path, content), TwoHands)
    assert arm.other == Gripper(width=1.0, open=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"name: [\n", ["not valid YAML"]),
        (b'name: "a\n', ["not valid YAML"]),
        (b"name: \xff\xfe\n", ["not UTF-8", "byte 6"]),
        (b"", ["found nothing", "mapping"]),
        (b"- a\n- b\n", ["found ['a', 'b']", "mapping"]),
        (b"just words\n", ["'just words'", "mapping"]),
        (b"name: a\nname: b\n", ["'name'", "twice"]),
        (b"? [a, b]\n: c\n", ["not valid YAML"]),
        (b"name: !!python/object:os.system {}\n", ["not valid YAML"]),
        (b"[" * 5000, ["not valid YAML", "nested too deeply"]),
        (b"name: 2001-99-99\n", ["not valid YAML", "month"]),
        (b"name: " + b"9" * 5000 + b"\n", ["not valid YAML", "digits"]),
        (b"name: &a [*a]\n", ["not valid YAML", "an alias holds itself"]),
        (b"name: " + b"x" * 5000 + b"\nname: b\n" + b"x" * 5000 + b": [\n", ["not valid YAML"]),
    ],
)
def test_a_file_that_is_no_document_is_named(tmp_path: Path, content: bytes, words: list[str]):
    path = write(tmp_path, content)
    with pytest.raises(DocumentError) as refusal:
        load_document(path, Arm)
    assert str(refusal.value).startswith(f"{path}: ")
    assert all(word in str(refusal.value) for word in words)
    assert "\n" not in str(refusal.value)


def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(tmp_path: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(DocumentError, match="with aliases written out, expected at most 100000"):
        load_document(write(tmp_path, "\n".join(lines).encode()), Arm)


@pytest.mark.parametrize("depth", [400, 900, 5_000])
def test_json_that_is_nested_too_deeply_is_refused(tmp_path: Path, depth: int):
    path = tmp_path / "arm.json"
    path.write_text('{"name": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(DocumentError) as refusal:
        load_document(path, Arm)
    assert str(refusal.value).startswith(f"{path}: ")


def test_an_error_quotes_only_the_beginning_of_a_long_value(tmp_path: Path):
    with pytest.raises(DocumentError) as refusal:
        load_document(write(tmp_path, b"n" * 100_000 + b": 1\n"), Arm)
    assert all(len(line) <= MAX_LINE for line in str(refusal.value).splitlines())


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path):
    with pytest.raises(DocumentError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_document(tmp_path / "nowhere.yaml", Arm)
    with pytest.raises(DocumentError, match="cannot be read"):
        load_document(tmp_path, Arm)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"gripper": {"width": 1.0}}, "f: name: missing, expected a value"),
        (
            {"name": "a", "gripper": {"width": 1.0, "colour": 1}},
            "f: gripper.colour: unknown key, expected one of fingers, open, width",
        ),
        ({"name": 7, "gripper": {"width": 1.0}}, "f: name: found 7, expected text"),
        (
            {"name": "a", "gripper": {"width": "1.0"}},
            "f: gripper.width: found '1.0', expected a number",
        ),
        ({"name": "a", "gripper": {"width": True}}, "f: gripper.width: found true, expected a number"),
        (
            {"name": "a", "gripper": {"width": 1.0, "fingers": ["l", 2]}},
            "f: gripper.fingers.1: found 2, expected text",
        ),
    ],
)
def test_a_problem_is_one_line_of_file_key_found_and_expected(content: dict, line: str):
    with pytest.raises(DocumentError) as refusal:
        parse_document(content, Arm, "f")
    assert str(refusal.value) == line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"wdth": 1.0}, "f: wdth: unknown key, did you mean 'width'?"),
        ({"tips": [{"kind": "soft", "siz": 1}]}, "f: tips.0.siz: unknown key, did you mean 'size'?"),
        ({"by_name": {"l": {"siz": 1}}}, "f: by_name.l.siz: unknown key, did you mean 'size'?"),
        ({"spare": {"siz": 1}}, "f: spare.siz: unknown key, did you mean 'size'?"),
        ({"width": "wide"}, "f: width: found 'wide', expected a number or 'auto'"),
        ({"width": None}, "f: width: found nothing, expected a number or 'auto'"),
        ({"count": 1.5}, "f: count: found 1.5, expected a whole number"),
        ({"count": 0}, "f: count: found 0, expected at least 1"),
        ({"count": 9}, "f: count: found 9, expected at most 5"),
        ({"count": [1, 2]}, "f: count: found [1, 2], expected a whole number"),
        ({"open": "yes"}, "f: open: found 'yes', expected true or false"),
        ({"tips": {"kind": "soft"}}, "f: tips: found {'kind': 'soft'}, expected a list"),
        ({"tips": ["soft"]}, "f: tips.0: found 'soft', expected a mapping of keys"),
        ({"tips": [{"kind": "wet"}]}, "f: tips.0.kind: found 'wet', expected 'soft' or 'hard'"),
        ({"by_name": [1]}, "f: by_name: found [1], expected a mapping of keys"),
        ({"path": ""}, "f: path: found '', expected at least 1 character"),
        ({"path": None}, "f: path: found nothing, expected text"),
    ],
)
def test_a_problem_is_told_in_the_words_of_who_wrote_the_file(content: dict, line: str):
    class Tip(Document):
        kind: Literal["soft", "hard"] = "soft"
        size: float = 1.0

    class Hand(Document):
        width: float | Literal["auto"] = "auto"
        count: Annotated[int, Field(ge=1, le=5)] = 1
        open: bool = False
        tips: tuple[Tip, ...] = ()
        by_name: Mapping[str, Tip] = {}
        spare: Tip | None = None
        path: Annotated[str, Field(min_length=1)] = "."

    with pytest.raises(DocumentError) as refusal:
        parse_document(content, Hand, "f")
    assert str(refusal.value) == line


def test_what_is_missing_is_described():
    class Robot(Document):
        contract: Annotated[str, Field(description="path of the contract")]

    with pytest.raises(DocumentError, match="contract: missing, expected path of the contract"):
        parse_document({}, Robot, "f")


def test_the_text_below_a_key_describes_it_also_where_its_type_has_a_description():
    class Robot(Document):
        contract: Annotated[str, Field(min_length=1, description="a path")]
        """path of the contract,
        which a person has written"""
        rate: float = 30.0

    class Arm(Robot):
        home: tuple[Robot, ...] = ()
        """where it goes"""

    expected = {"contract": "path of the contract, which a person has written", "home": "where it goes"}
    with pytest.raises(DocumentError, match=f"contract: missing, expected {expected['contract']}"):
        parse_document({}, Arm, "f")
    shown = {key: field.description for key, field in Arm.every_key().items()}
    assert shown == {"contract": expected["contract"], "rate": None, "home": expected["home"]}
    properties = Arm.model_json_schema()["properties"]
    assert {key: properties[key].get("description") for key in properties} == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"name": }', "line 1, column 10: Expecting value"),
        ('{"name": "a", "name": "b"}', "key 'name' found twice"),
        ("name: a", "line 1, column 1"),
    ],
)
def test_a_json_file_that_is_none_is_not_called_yaml(tmp_path: Path, text: str, words: str):
    path = tmp_path / "policy.json"
    path.write_text(text)
    with pytest.raises(DocumentError) as refusal:
        load_document(path, Arm)
    assert str(refusal.value).startswith(f"{path}: is not valid JSON: ")
    assert words in str(refusal.value)


def test_a_yaml_problem_is_told_with_its_line(tmp_path: Path):
    with pytest.raises(DocumentError) as refusal:
        load_document(write(tmp_path, b"name: a\ngripper: [1, 2\nother: 3\n"), Arm)
    assert "is not valid YAML: line 3, column 6: expected ',' or ']'" in str(refusal.value)
    assert "<" not in str(refusal.value).replace(str(tmp_path), "")


def test_every_problem_is_told_at_once():
    with pytest.raises(DocumentError) as refusal:
        parse_document({"gripper": {"width": None, "open": 1}}, Arm, "f")
    assert len(str(refusal.value).splitlines()) == 3


def test_a_long_value_is_shortened():
    with pytest.raises(DocumentError) as refusal:
        parse_document({"name": ["x" * 500], "gripper": {"width": 1.0}}, Arm, "f")
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e3", 1000.0),
        ("-2.5E-1", -0.25),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("1:30", "1:30"),  # YAML 1.1 reads 90
        ("1_6", "1_6"),  # and here 16
        ("0b11", "0b11"),
        ("12e4", 120000.0),
    ],
)
def test_a_number_is_what_people_and_ros_read(text: str, value: object):
    found = parse_yaml(f"a: {text}", "f")["a"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(("text", "expected"), [("010", "10"), ("-007", "7"), ("00", "0")])
def test_a_number_that_some_read_as_octal_is_refused(text: str, expected: str):
    words = f"f: is not valid YAML: line 1, column 4: found {text}, which some readers take for octal, "
    with pytest.raises(DocumentError, match=re.escape(f"{words}expected {expected}")):
        parse_yaml(f"a: {text}", "f")


@pytest.mark.parametrize(
    "text", ["12e4", "010", "0o17", "1:30", "1_000", "null", "on", "", "~", "0x1f", "12"]
)
def test_a_text_that_looks_like_something_else_is_written_as_a_text(text: str):
    written = dump_yaml({"revision": text})
    assert parse_yaml(written, "f") == yaml.safe_load(written) == {"revision": text}


def test_a_section_that_is_merged_twice_has_each_key_once():
    text = "x: {y: {z: &d {<<: {a: 1, b: 2}, a: 3}}}\nw: {<<: *d, b: 9}"
    assert parse_yaml(text, "f")["w"] == {"a": 3, "b": 9}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: a\ngripper: {on: 1}", "gripper: found the key true (YAML reads on, off, yes and no so)"),
        ("on: 1", "found the key true (YAML reads on, off, yes and no so)"),
        ("gripper: {fingers: [{1: a}]}", "gripper.fingers.0: found the key 1"),
        ("~: 1", "found the key nothing"),
    ],
)
def test_a_key_that_is_no_text_is_told_so(text: str, problem: str):
    with pytest.raises(DocumentError) as refusal:
        parse_document(parse_yaml(text, "f"), Arm, "f")
    assert str(refusal.value) == f"f: {problem}, expected text: quote it"


def test_of_very_many_problems_the_first_are_shown_and_the_others_counted():
    """A document with a hundred thousand unknown keys costs no more than one with a hundred."""
    with pytest.raises(DocumentError) as refusal:
        parse_document({f"k{index}": 1 for index in range(100_000)}, Gripper, "f")
    lines = str(refusal.value).splitlines()
    assert len(lines) == 21
    assert re.fullmatch(r"f: and \d{5} more problems", lines[-1])


def test_a_very_long_key_is_shortened():
    with pytest.raises(DocumentError) as refusal:
        parse_document({"w" * 1_000_000: 1, "width": 1.0}, Gripper, "f")
    assert len(str(refusal.value)) < 2_000


def test_a_key_that_stands_twice_among_very_many_is_named():
    keys = ", ".join(f'"k{index}": 1' for index in range(100_000))
    with pytest.raises(DocumentError, match=r"key 'k99999' found twice"):
        parse_json(f'{{{keys}, "k99999": 2}}', "f")


def test_half_of_a_pair_of_surrogates_is_named_with_its_key():
    with pytest.raises(DocumentError, match=re.escape(r"x: notes.task: found '\ud800' in a text")):
        parse_document(parse_yaml('notes: {task: "wave \\ud800"}', "x"), Document, "x")
