# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The verbs for people without ros2cli."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rig import DEADLINE_S, Rig, write_contract, write_manifest

from remote_inference.recording import open_bag


def start(*arguments: Any) -> subprocess.Popen[str]:
    """Start a verb as a background job of a shell, which lets it ignore SIGINT."""
    in_background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    return subprocess.Popen(
        [*in_background, sys.executable, "-m", "remote_inference.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_server_and_robot_run_until_interrupted_and_the_bag_is_whole(rig: Rig, tmp_path: Path) -> None:
    parameters = tmp_path / "params.yaml"
    parameters.write_text("/**:\n  ros__parameters: {autostart: true}\n")
    server = start("server", "--manifest", write_manifest(tmp_path))
    robot = start(
        *("robot", "--contract", write_contract(tmp_path), "--namespace", rig.namespace),
        *("--params-file", parameters, "--record", tmp_path / "bag"),
    )
    try:
        rig.wait_for_commands(10)
    finally:
        for process in (robot, server):
            process.send_signal(signal.SIGINT)
        codes = [process.wait(DEADLINE_S) for process in (robot, server)]
    assert codes == [0, 0]
    with open_bag(tmp_path / "bag") as bag:
        assert f"{rig.namespace}/remote_inference/executed" in bag.topics


def test_a_node_that_cannot_start_gives_its_exit_code(tmp_path: Path) -> None:
    process = start("server", "--manifest", tmp_path / "none.yaml")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "none.yaml: cannot be read: No such file or directory" in output


def test_a_bad_contract_is_refused_before_anything_starts(tmp_path: Path) -> None:
    contract = write_contract(tmp_path, fps=-1)
    process = start("robot", "--contract", contract, "--namespace", "/rig", "--record", tmp_path / "bag")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "contract.yaml: fps: found -1, expected greater than 0" in output
    assert "Traceback" not in output


def test_explain_refuses_what_is_no_bag(tmp_path: Path) -> None:
    process = start("explain", tmp_path, "--namespace", "/rig")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 1
    assert str(tmp_path) in output
    assert "Traceback" not in output
