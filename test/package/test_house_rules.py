# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure that the package promises: a pure core, exported rooms, files that agree with each other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from remote_inference.core.contract import load_contract
from remote_inference.core.server.manifest import load_manifest
from remote_inference.deployment.bringup import MODULES
from remote_inference.environments.belt_arm.scene import JOINT_NAMES, LIMITS
from remote_inference.policies import load_policy

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "remote_inference"
CONTRACT = ROOT / "config" / "belt_arm.contract.yaml"
MANIFEST = ROOT / "config" / "belt_arm.manifest.yaml"


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", sorted(SOURCE.glob("core/**/*.py")), ids=lambda path: path.stem)
def test_the_core_imports_neither_ros_nor_torch_nor_another_room(path: Path) -> None:
    allowed = {"remote_inference.core"}
    for name in imports_of(path):
        assert name.split(".")[0] not in {"rclpy", "torch", "sensor_msgs", "std_msgs", "msgpack"}
        if name.startswith("remote_inference"):
            assert any(name.startswith(room) for room in allowed), name


def test_nothing_unpickles() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not {"pickle", "cPickle", "dill", "marshal"} & set(imports_of(path)), path


def test_every_interface_is_built_and_every_field_explained() -> None:
    listed = set(re.findall(r"(?:msg|srv)/\w+\.(?:msg|srv)", (ROOT / "CMakeLists.txt").read_text()))
    files = [*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv")]
    assert {str(path.relative_to(ROOT)) for path in files} == listed
    for path in files:
        head, *lines = path.read_text().splitlines()
        assert head.startswith("# "), path
        for line in lines:
            if line and line != "---" and not line.startswith(("#", "string policy_")):
                is_self_explaining = re.fullmatch(
                    r"(bool success|string (session_id|message)|ServerStatus status)", line
                )
                assert "#" in line or is_self_explaining or "max_sessions" in line, f"{path.name}: {line}"


def test_the_version_is_the_same_everywhere() -> None:
    package = ElementTree.parse(ROOT / "package.xml").findtext("version")
    assert f'version = "{package}"' in (ROOT / "pyproject.toml").read_text()
    assert f'__version__ = "{package}"' in (SOURCE / "__init__.py").read_text()


def test_every_executable_has_a_script_and_an_entry_point() -> None:
    entry_points = (ROOT / "pyproject.toml").read_text()
    for name in MODULES:
        assert f"{name} = " in entry_points
        assert f"from {MODULES[name]} import main" in (ROOT / "scripts" / name).read_text()


def test_the_demo_s_contract_allows_what_the_simulated_arm_can_do() -> None:
    contract = load_contract(CONTRACT)
    assert contract.actions.names == JOINT_NAMES
    for name, lower, upper, velocity in zip(*vars(LIMITS).values(), strict=True):
        limit = contract.actions.limits[name]
        assert (limit.min, limit.max, limit.max_velocity) == (lower, upper, velocity), name


def test_the_demo_s_contract_fits_its_policy() -> None:
    contract, policy = load_contract(CONTRACT), load_policy(load_manifest(MANIFEST).model)
    assert contract.actions.names == policy.spec.action_names
    assert contract.state_names == policy.spec.state_names
    assert {image.name for image in contract.image_features} == set(policy.spec.image_shapes)
    assert contract.fps == policy.spec.trained_fps
