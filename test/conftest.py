# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Every test process has a ROS domain of its own, its children inherit it, and nothing leaves the host."""

import os
import sys

# 0 to 101 are safe on Linux: their ports lie below the ephemeral range.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_main_process = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
os.environ["ROS_DOMAIN_ID"] = str(1 + (_main_process % 12) * 8 + _worker % 8)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it

import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from contextlib import suppress  # noqa: E402
from pathlib import Path  # noqa: E402

import pytest  # noqa: E402
import rclpy  # noqa: E402
from rclpy.node import Node  # noqa: E402


def pytest_report_header() -> str:
    rmw = rclpy.get_rmw_implementation_identifier()
    return f"ROS 2 {os.environ.get('ROS_DISTRO', 'from wheels')}, {rmw}, domain {os.environ['ROS_DOMAIN_ID']}"


def pytest_sessionfinish() -> None:
    """Remove the shared memory of processes that tests killed: Fast DDS frees it only on a clean exit."""
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process ended, or is another user's
            mapped |= {line.split()[-1] for line in maps.read_text().splitlines() if "/dev/shm/" in line}
    minute_ago = time.time() - 60.0
    for file in Path("/dev/shm").glob("*fastrtps_*"):
        with suppress(OSError):
            if str(file) not in mapped and file.stat().st_mtime < minute_ago:
                file.unlink()


@pytest.fixture
def node() -> Iterator[Node]:
    """An rclpy node with a context of its own."""
    context = rclpy.Context()
    rclpy.init(context=context)
    made = rclpy.create_node("test_node", context=context)
    yield made
    made.destroy_node()
    rclpy.shutdown(context=context)
