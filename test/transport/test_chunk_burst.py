# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that answers many robots over one link loses none of their chunks."""

from __future__ import annotations

from remote_inference.tools.deployment import bringup, zenoh_config
from support.transport.chunk_burst import burst


def test_chunks_for_fifteen_robots_arrive_over_one_link(no_zenoh_settings: None) -> None:
    """With `express: true` every chunk is a batch of its own, and a queue of two batches drops the rest."""
    variables = bringup.server("policy.manifest.yaml").environment
    server = zenoh_config.parse_overrides(variables.get(zenoh_config.OVERRIDE_VARIABLE, ""))
    result = burst(robots=15, rounds=100, period_s=0.01, server=server)
    assert (result.sent, result.lost) == (1500, 0)
