# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server whose frames openpi-client's own module reads and writes, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.policies.remote_peers import PeerProcess

ROOT = Path(__file__).parents[3]
PEERS = ROOT / ".venv" / "peers"
WIRE, CHUNK_SIZE = "stock openpi", 50

STOCK = pytest.param(
    WIRE,
    marks=pytest.mark.skipif(
        not (PEERS / ".packages").exists(),
        reason="openpi-client is not installed: make .venv/peers/.packages",
    ),
)


def peer_of(wire: str) -> type[PeerProcess]:
    """Return what serves a wire."""
    return StockOpenpi if wire == WIRE else PeerProcess


class StockOpenpi(PeerProcess):
    """It answers each observation with its state, CHUNK_SIZE times; it has no settings."""

    def command(self) -> list[str]:
        program = ROOT / "benchmarks" / "openpi_peer.py"
        return [str(PEERS / "bin" / "python"), str(program), "server", str(self.port)]
