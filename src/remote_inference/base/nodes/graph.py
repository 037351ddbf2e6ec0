# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the ROS graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from remote_inference.base.exchange import in_namespace

UNKNOWN_NODE = "_NODE_NAME_UNKNOWN_"  # of rmw_dds_common, until an endpoint's node becomes known


def identify_endpoints(endpoints: Sequence[Any]) -> set[tuple[str, bytes]]:
    """Return fully qualified node name and gid of the endpoints that `get_*_info_by_topic` lists."""
    return {(full_name(endpoint), bytes(endpoint.endpoint_gid)) for endpoint in endpoints}


def full_name(endpoint: Any) -> str:
    """Return the fully qualified name of an endpoint's node."""
    return in_namespace(endpoint.node_namespace, endpoint.node_name)


def find_other_type(endpoints: Sequence[Any], kind: str) -> str:
    """Return which type the endpoints of a topic have, in words, unless one of them has the expected one.

    The middleware does not say so: Fast DDS refuses a second type to a process, but not to another one, and
    with rmw_zenoh endpoints of two types just never meet.
    """
    types = sorted({endpoint.topic_type for endpoint in endpoints})
    return f"{', '.join(types)}, expected {kind}" if types and kind not in types else ""
