# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's captures are served again by the command line, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.tools import cli
from support.nodes.rig import Rig, write_contract, write_manifest


def test_captured_requests_can_be_served_again(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = write_manifest(tmp_path, capture_dir="captures", capture_max=3)
    rig.start_server(manifest)
    rig.start_robot(write_contract(tmp_path))
    folder = tmp_path / "captures"
    rig.wait_for(lambda: folder.is_dir() and len(list(folder.glob("*.capture"))) == 3, "three captures")
    rig.group.stop()
    files = [str(path) for path in sorted(folder.glob("*.capture"))]
    assert len(files) == 3
    assert cli.main(["replay", "--capture", *files, "--manifest", str(manifest)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all(line.endswith(": equal") for line in lines)


def test_an_unusable_capture_folder_stops_the_server_at_start_up(rig: Rig, tmp_path: Path) -> None:
    (tmp_path / "captures").write_text("a file")
    rig.start_server(write_manifest(tmp_path, capture_dir="captures"))
    assert rig.server.wait(30) == 2
    assert "capture_dir: cannot use" in (tmp_path / "logs" / "policy_server.log").read_text()
