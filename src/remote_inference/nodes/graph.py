# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the ROS graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def identify_endpoints(endpoints: Sequence[Any]) -> set[tuple[str, bytes]]:
    """Return fully qualified node name and gid of the endpoints that `get_*_info_by_topic` lists."""
    return {
        (f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}", bytes(endpoint.endpoint_gid))
        for endpoint in endpoints
    }
