# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Starts any executable of the package, as a process of its own and with all that it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from remote_inference.base.paths import share_path
from support.nodes.rig import write_contract, write_manifest


def start(
    executable: str, folder: Path, program: Sequence[str] = ("-m", "remote_inference.base.nodes.start")
) -> subprocess.Popen[str]:
    """Start an executable with what it needs in a folder; its output comes through a pipe."""
    parameters = {
        "policy_server": {"manifest": str(write_manifest(folder)), "autostart": True},
        "remote_inference": {"contract": str(write_contract(folder))},
        "command_watchdog": {"contract": str(write_contract(folder))},
        "belt_arm": {},
        "environment": {
            "environment": "belt_arm",
            "contract": str(share_path("config", "belt_arm.contract.yaml")),
        },
        "bag_recorder": {"path": str(folder / "bag"), "topics": ["/joint_states"]},
    }[executable]
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}:={json.dumps(value)}")]
    return subprocess.Popen(
        [sys.executable, *program, executable, "--ros-args", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
