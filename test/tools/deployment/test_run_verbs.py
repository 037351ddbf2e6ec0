# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference robot` and `server` say which middleware they run on: nothing else shows a wrong one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from linters import ROOT

CONTRACT = ROOT / "config" / "belt_arm.contract.yaml"


@pytest.fixture(params=["robot", "server"])
def arguments(request: pytest.FixtureRequest, tmp_path: Path) -> list[str | Path]:
    if request.param == "server":
        return ["server", "--manifest", tmp_path / "none.yaml"]
    (tmp_path / "parameters.yaml").write_text("/**: {ros__parameters: {fallback: nowhere}}\n")
    parameters = tmp_path / "parameters.yaml"
    return ["robot", "--namespace", "/robot_1", "--contract", CONTRACT, "--params-file", parameters]


def run(arguments: list[str | Path], rmw: str | None, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a verb where Zenoh can be chosen: without it, as with the wheels, nothing is said."""
    for resource in ("packages", "rmw_typesupport"):  # what each middleware registers
        index = folder / "share" / "ament_index" / "resource_index" / resource
        index.mkdir(parents=True)
        (index / "rmw_zenoh_cpp").touch()
    environment = {name: value for name, value in os.environ.items() if name != "RMW_IMPLEMENTATION"}
    environment["AMENT_PREFIX_PATH"] = f"{environment.get('AMENT_PREFIX_PATH', sys.prefix)}:{folder}"
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.tools.cli", *arguments],
        env={**environment, **({"RMW_IMPLEMENTATION": rmw} if rmw else {})},
        capture_output=True,
        text=True,
        timeout=60.0,
    )


@pytest.mark.parametrize("rmw", [None, "rmw_fastrtps_cpp"])
def test_another_middleware_than_zenoh_is_named(
    arguments: list[str | Path], rmw: str | None, tmp_path: Path
) -> None:
    """The nodes themselves refuse to start."""
    ended = run(arguments, rmw, tmp_path)
    assert ended.returncode == 2
    in_use = rmw or "the default of this ROS 2 distribution"
    assert f"the middleware in use is {in_use}, not rmw_zenoh_cpp" in ended.stderr


def test_quiet_leaves_the_words_of_the_node_alone(arguments: list[str | Path], tmp_path: Path) -> None:
    ended = run([*arguments, "--quiet"], None, tmp_path)
    assert ended.returncode == 2
    assert "the middleware in use is" not in ended.stderr
    assert "cannot start: " in ended.stderr
