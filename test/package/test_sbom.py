# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`make sbom`: the bill of materials fits CycloneDX's schema and holds what the package stands on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_bill_of_materials_is_valid_and_names_what_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py", reason="found no cyclonedx-bom, which requirements/dev.txt lists")
    path = tmp_path / "sbom.json"
    options = ["--pyproject", ROOT / "pyproject.toml", "--validate", "--of", "JSON", "-o", path]
    done = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", "environment", *options, sys.executable],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    bill = json.loads(path.read_text(encoding="utf-8"))
    assert bill["metadata"]["component"]["name"] == "ros-remote-inference"
    assert {"numpy", "pydantic", "msgpack"} <= {component["name"] for component in bill["components"]}
    assert all(component.get("version") for component in bill["components"])
