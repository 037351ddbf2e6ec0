# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each node imports what it needs: a start takes seconds when libraries of other nodes come with it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LARGE = {"cryptography", "matplotlib", "mujoco", "rich", "torch"}
ALLOWED = {
    "remote_inference.robot.nodes.remote_inference": set(),
    "remote_inference.server.nodes.policy_server": set(),  # its policy's libraries come with the back end
    "remote_inference.bags.nodes.bag_recorder": set(),
    "remote_inference.learn.nodes.belt_arm": {"mujoco"},
}


@pytest.mark.parametrize("module", ALLOWED)
def test_a_node_imports_no_large_library_that_it_does_not_need(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert set(json.loads(ended.stdout)) & LARGE <= ALLOWED[module]
