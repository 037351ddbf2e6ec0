# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A router for test processes whose middleware is rmw_zenoh; no other middleware needs one."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ament_index_python.packages import get_package_prefix

RMW = "rmw_zenoh_cpp"
CONFIG = Path(__file__).parents[1] / "config" / "zenoh"


def is_needed(environment: Mapping[str, str]) -> bool:
    return environment.get("RMW_IMPLEMENTATION") == RMW


def start() -> None:
    """Start rmw_zenohd on a port of its own and point this process and its children at it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    router = Path(get_package_prefix(RMW), "lib", RMW, "rmw_zenohd")
    started = subprocess.Popen([router], env={**os.environ, **router_variables(port)})
    atexit.register(started.terminate)
    os.environ.update(node_variables(port))


def router_variables(port: int) -> dict[str, str]:
    return {
        "ZENOH_ROUTER_CONFIG_URI": str(CONFIG / "router.json5"),
        "ZENOH_CONFIG_OVERRIDE": f'listen/endpoints=["tcp/127.0.0.1:{port}"]',
    }


def node_variables(port: int) -> dict[str, str]:
    return {
        "ZENOH_SESSION_CONFIG_URI": str(CONFIG / "session.json5"),
        "ZENOH_CONFIG_OVERRIDE": f'connect/endpoints=["tcp/127.0.0.1:{port}"]',
    }
