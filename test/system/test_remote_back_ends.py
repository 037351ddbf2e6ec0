# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot on somebody else's server: it moves, falls back when that server dies, and then moves on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.nodes.rig import Rig, write_contract, write_manifest

pytest.importorskip("zmq", reason="found no pyzmq, which requirements/server.txt lists")
pytest.importorskip("websockets", reason="found no websockets, which requirements/server.txt lists")

from support.policies.remote_models import model_of
from support.policies.remote_peers import PeerProcess
from support.policies.stock_openpi import STOCK, peer_of


@pytest.fixture(params=["gr00t", "openpi", STOCK])
def peer(request: pytest.FixtureRequest) -> Iterator[PeerProcess]:
    made = peer_of(request.param)(request.param)
    yield made
    if made.process.poll() is None:
        made.kill()


def test_a_robot_outlives_a_restart_of_the_server_that_computes_its_chunks(
    peer: PeerProcess, rig: Rig, tmp_path: Path
) -> None:
    rig.start_server(write_manifest(tmp_path, model=model_of(peer), max_consecutive_failures=2))
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for_state("STREAMING")
    rig.wait_for_commands(30)
    assert rig.commands[-1][1] == pytest.approx(rig.positions[::-1], abs=1e-3)
    seen = len(rig.states)
    peer.kill()
    log = tmp_path / "logs" / "policy_server.log"
    rig.wait_for(lambda: "the next attempt is in" in log.read_text(), "the reason in the server's log")
    rig.wait_for(
        lambda: any(state.state_name != "STREAMING" for state in rig.states[seen:]), "the robot's fallback"
    )
    peer.start()
    seen = len(rig.states)
    rig.wait_for_state("STREAMING", after=seen)
    rig.wait_for_commands(30)
    assert rig.robot.poll() is None
    assert "Traceback" not in log.read_text()
