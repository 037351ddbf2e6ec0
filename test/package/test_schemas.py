# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The schemas for editors: as the models are, and right about the files that the package ships."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import schemas
import yaml

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"
KINDS = ("contract", "evaluation", "manifest")
SHIPPED = sorted(path for kind in KINDS for path in CONFIG.rglob(f"*.{kind}.yaml"))


def validator(kind: str) -> Any:
    from jsonschema import Draft202012Validator  # takes two seconds, which only one test process need spend

    schema = json.loads((schemas.FOLDER / f"{kind}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("name", sorted(schemas.SCHEMAS))
def test_a_schema_is_what_the_model_says(name: str):
    assert (schemas.FOLDER / name).read_text() == schemas.SCHEMAS[name], f"{name} is stale: run make docs"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_file_is_valid_and_names_its_schema(path: Path):
    first_line = path.read_text().splitlines()[0]
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first_line)
    assert named
    kind = path.suffixes[-2].removeprefix(".")
    assert (path.parent / named[1]).resolve() == schemas.FOLDER / f"{kind}.schema.json"
    validator(kind).validate(yaml.safe_load(path.read_text()))


def test_the_manifest_of_the_pods_is_valid():
    document = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "manifest.yaml").read_text())
    validator("manifest").validate(yaml.safe_load(document["data"]["manifest.yaml"]))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("contract", {"fsp": 30.0}),
        ("contract", {"fps": 0}),
        ("contract", {"state": []}),
        ("contract", {"state": [{"topic": "joint_states", "type": "sensor_msgs/msg/JointState"}]}),
        ("contract", {"state": [{"topic": "imu", "type": "sensor_msgs/msg/Imu", "field": "position"}]}),
        ("contract", {"images": {"front": {"topic": "front", "type": "sensor_msgs/msg/Imag"}}}),
        ("evaluation", {"episode": 4}),
        ("evaluation", {"modes": ["real"]}),
        ("evaluation", {"policies": {"one": {"kind": "oracle"}}}),
        ("manifest", {"max_session": 4}),
        ("manifest", {"scheduler": "a lottery"}),
        ("manifest", {"health_port": 70_000}),
    ],
    ids=str,
)
def test_a_mistake_is_found(kind: str, change: dict[str, Any]):
    content = yaml.safe_load((CONFIG / f"belt_arm.{kind}.yaml").read_text())
    assert validator(kind).is_valid(content)
    assert not validator(kind).is_valid({**content, **change})
