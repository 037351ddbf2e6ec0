# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial's package is installed by pip and drives a robot: third parties touch no file of ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from remote_inference.tools.deployment.serving.back_ends import list_back_ends
from support.nodes.rig import JOINTS, Rig, write_contract, write_manifest

pytest.importorskip("pip", reason="found no pip in this environment, which `make setup` installs with it")
PACKAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "reach_package"
TARGET = (0.5, -0.25)  # [rad], order of JOINTS


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install the package into a folder on the path of this process and of all that it starts."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(PACKAGE, source)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, *offline, "--target", str(site), str(source)], check=True, timeout=300.0)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{site}:{os.environ.get('PYTHONPATH', '')}".rstrip(":"))
    return site


def test_the_tutorial_s_package_is_installed_listed_and_drives_a_robot(
    installed: Path, rig: Rig, tmp_path: Path
) -> None:
    (report,) = [report for report in list_back_ends() if report.name == "reach"]
    assert (report.distribution, report.version, report.state) == ("reach-policy", "0.1.0", "ready")
    manifest = write_manifest(tmp_path, model={"backend": "reach", "path": "reach_files"})
    folder = tmp_path / "reach_files"
    folder.mkdir()
    policy = {"names": JOINTS, "target": TARGET, "speed": [3.0, 3.0], "chunk_size": 20, "trained_fps": 30.0}
    (folder / "policy.json").write_text(json.dumps(policy))
    rig.start_server(manifest)
    rig.start_robot(write_contract(tmp_path), merge_mode="replace")
    rig.wait_for_state("STREAMING")
    rig.wait_for(
        lambda: rig.commands and rig.commands[-1][1] == pytest.approx(TARGET[::-1], abs=1e-3),
        f"commands at {TARGET}",
    )
