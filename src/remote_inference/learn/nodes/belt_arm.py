# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `belt_arm`: the simulated robot of the demo, in real time.

    belt_arm --ros-args -r __ns:=/robot_1

The node `environment` with the environment `belt_arm` and the contract of the demo: joint_states and two
cameras at 30 Hz, each raw and as JPEG, and position targets like ros2_control's forward controller.
"""

from __future__ import annotations

from functools import partial

from remote_inference.base.nodes.runtime import run_node
from remote_inference.base.paths import share_path
from remote_inference.learn.nodes.environment import EnvironmentNode, EnvironmentParameters


def main(args: list[str] | None = None) -> int:
    """Simulate until a signal; return the exit code."""
    contract = str(share_path("config", "belt_arm.contract.yaml"))
    setup = EnvironmentParameters(environment="belt_arm", contract=contract)
    return run_node(partial(EnvironmentNode, "belt_arm", setup), args)
