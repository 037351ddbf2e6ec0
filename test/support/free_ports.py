# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Ports for servers of tests: of this test process alone, and none that a client may get meanwhile."""

from __future__ import annotations

import itertools
import os
import socket

PORTS_OF_A_DOMAIN = 100
FIRST_PORT = 20_000  # with domains up to 101 all lie below the ephemeral ports, which begin at 32768

_ports = itertools.cycle(range(PORTS_OF_A_DOMAIN))


def free_port() -> int:
    """Return an unused TCP port. The test process has claimed its ROS domain, and so the domain's ports."""
    first = FIRST_PORT + PORTS_OF_A_DOMAIN * int(os.environ.get("ROS_DOMAIN_ID", "0"))
    for offset in itertools.islice(_ports, PORTS_OF_A_DOMAIN):
        if _is_free(first + offset):
            return first + offset
    raise RuntimeError(f"no port from {first} to {first + PORTS_OF_A_DOMAIN - 1} is free")


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True
