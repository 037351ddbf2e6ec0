# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which processes have a shared memory port under Fast DDS, whose opening may hold a robot's commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
import rclpy

from remote_inference.base import fast_dds
from remote_inference.tools.deployment import bringup

A_NODE = "import rclpy; rclpy.init(); node = rclpy.create_node('a_node')"
A_CLIENT = (
    "from remote_inference.base.clients.operator_client import OperatorClient;"
    " client = OperatorClient('a_client')"
)
RMW = rclpy.get_rmw_implementation_identifier()
# These processes meet nobody. LOCALHOST would give each of them shared memory.
RANGE = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "OFF"}

pytestmark = [
    pytest.mark.usefixtures("no_transports_chosen"),
    pytest.mark.skipif("fastrtps" not in RMW, reason=f"found {RMW}: RMW_IMPLEMENTATION=rmw_fastrtps_cpp"),
]


def shares_memory(program: str, environment: Mapping[str, str]) -> bool:
    """Return whether a process has mapped shared memory of Fast DDS, 2 or 3, after a program's words."""
    words = [sys.executable, "-c", f"{program}; print(open('/proc/self/maps').read())"]
    variables = {**os.environ, **RANGE, **environment}
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, check=True, timeout=60)
    return "/dev/shm/fast" in ran.stdout


def test_a_node_of_a_deployment_shares_memory_for_its_images() -> None:
    """Else the tests below would show nothing."""
    profile = bringup.environment()
    assert fast_dds.profile_variable() in profile
    assert shares_memory(A_NODE, profile)
    assert shares_memory(A_NODE, {})


def test_what_has_small_messages_shares_none() -> None:
    assert not shares_memory(A_NODE, fast_dds.shared_memory_off({}))


def test_who_only_looks_at_robots_shares_none_and_leaves_its_environment_as_it_was() -> None:
    assert not shares_memory(f"{A_CLIENT}; import os; assert {fast_dds.TRANSPORTS!r} not in os.environ", {})


def test_who_only_looks_has_the_transports_that_its_user_has_chosen() -> None:
    assert shares_memory(A_CLIENT, {fast_dds.TRANSPORTS: "DEFAULT"})
