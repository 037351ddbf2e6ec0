# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML documents: what cannot be read or validated is said with file, key, found and expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.core.document import Document, DocumentError, load_document, parse_document


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
        (b"", ["found None", "mapping"]),
        (b"- a\n- b\n", ["found ['a', 'b']", "mapping"]),
        (b"just words\n", ["'just words'", "mapping"]),
        (b"name: a\nname: b\n", ["'name'", "twice"]),
        (b"? [a, b]\n: c\n", ["not valid YAML"]),
        (b"name: !!python/object:os.system {}\n", ["not valid YAML"]),
    ],
)
def test_a_file_that_is_no_document_is_named(tmp_path: Path, content: bytes, words: list[str]):
    path = write(tmp_path, content)
    with pytest.raises(DocumentError) as refusal:
        load_document(path, Arm)
    assert str(refusal.value).startswith(f"{path}: ")
    assert all(word in str(refusal.value) for word in words)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path):
    with pytest.raises(DocumentError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_document(tmp_path / "nowhere.yaml", Arm)
    with pytest.raises(DocumentError, match="cannot be read"):
        load_document(tmp_path, Arm)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"gripper": {"width": 1.0}}, "f: name: missing, expected a value"),
        ({"name": "a", "gripper": {"width": 1.0, "colour": 1}}, "f: gripper.colour: unknown key"),
        ({"name": 7, "gripper": {"width": 1.0}}, "f: name: found 7, expected a valid string"),
        (
            {"name": "a", "gripper": {"width": "1.0"}},
            "f: gripper.width: found '1.0', expected a valid number",
        ),
        ({"name": "a", "gripper": {"width": True}}, "f: gripper.width: found True, expected a valid number"),
        (
            {"name": "a", "gripper": {"width": 1.0, "fingers": ["l", 2]}},
            "f: gripper.fingers.1: found 2, expected a valid string",
        ),
    ],
)
def test_a_problem_is_one_line_of_file_key_found_and_expected(content: dict, line: str):
    with pytest.raises(DocumentError) as refusal:
        parse_document(content, Arm, "f")
    assert str(refusal.value) == line


def test_every_problem_is_told_at_once():
    with pytest.raises(DocumentError) as refusal:
        parse_document({"gripper": {"width": None, "open": 1}}, Arm, "f")
    assert len(str(refusal.value).splitlines()) == 3


def test_a_long_value_is_shortened():
    with pytest.raises(DocumentError) as refusal:
        parse_document({"name": ["x" * 500], "gripper": {"width": 1.0}}, Arm, "f")
    assert len(str(refusal.value)) < 200
