# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A router for test processes whose middleware is rmw_zenoh; no other middleware needs one."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import time
from pathlib import Path

from ament_index_python.packages import get_package_prefix

from remote_inference.tools.deployment.zenoh_config import Endpoint, router_settings
from support.free_ports import free_port

RMW = "rmw_zenoh_cpp"
CONFIG = Path(__file__).parents[2] / "config" / "zenoh"
HOST = "127.0.0.1"
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 10.0
POLL_S = 0.05


def start() -> None:
    """Start rmw_zenohd until this process ends, and point it and its children at that router."""
    started, port = run(Path(get_package_prefix(RMW), "lib", RMW, "rmw_zenohd"))
    atexit.register(stop, started)
    os.environ.update(node_variables(port))


def run(program: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a router and return its process and port when it listens.

    Raises RuntimeError when it has ended before or does not listen within START_DEADLINE_S.
    """
    port = free_port()
    started = subprocess.Popen([program], env={**os.environ, **router_variables(port)})
    end_s = time.monotonic() + START_DEADLINE_S
    while not _listens(port):
        if started.poll() is not None:
            raise RuntimeError(f"{program}: ended with exit code {started.returncode}, expected a router")
        if time.monotonic() > end_s:
            stop(started)
            raise RuntimeError(f"{program}: does not listen on port {port} within {START_DEADLINE_S:g} s")
        time.sleep(POLL_S)
    return started, port


def stop(router: subprocess.Popen[bytes]) -> None:
    """End a router, by force when it does not end by itself."""
    router.terminate()
    try:
        router.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired:
        router.kill()
        router.wait(STOP_DEADLINE_S)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def router_variables(port: int) -> dict[str, str]:
    return {
        "ZENOH_ROUTER_CONFIG_URI": str(CONFIG / "router.json5"),
        "ZENOH_CONFIG_OVERRIDE": f'listen/endpoints=["tcp/{HOST}:{port}"]',
    }


def node_variables(port: int) -> dict[str, str]:
    settings = router_settings(Endpoint("tcp", HOST, port))
    return {
        "ZENOH_SESSION_CONFIG_URI": str(CONFIG / "session.json5"),
        "ZENOH_CONFIG_OVERRIDE": ";".join(f"{key}={value}" for key, value in settings.items()),
    }
