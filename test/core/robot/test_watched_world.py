# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Worlds in which several things of the robot fail at once, as `make soak` found them."""

from __future__ import annotations

import pytest

from remote_inference.core.contract.contract import Contract
from remote_inference.core.documents.document import parse_document
from remote_inference.core.robot.command import CommandSource
from support.builders import JOINT_TRAJECTORY, JOINTS, contract_document, make_config, make_spec
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import streaming
from support.robot.watched_world import WatchedWorld


@pytest.mark.parametrize("stuck_s", [0.06, 0.08, 0.11, 0.15, 0.2])
def test_a_freeze_while_the_watchdog_stops_the_arm_ends_in_no_jump(stuck_s: float):
    """It has lost beats before, so that the node is frozen for less than its patience."""
    document = contract_document(fps=20.0)
    document["commands"] = [{"topic": "controller", "type": JOINT_TRAJECTORY, "names": list(JOINTS)}]
    world = WatchedWorld(
        make_config(watchdog_timeout_s=0.2),
        [SimulatedServer("/server_a", make_spec(chunk_size=60, trained_fps=20.0))],
        contract=parse_document(document, Contract, "test.contract.yaml"),
    )
    streaming(world).run(0.4)
    trips = world.watchdog.trips if world.watchdog else None
    world.beats_are_lost = True
    world.run(0.12)
    world.stand_still(stuck_s, "stuck", "hung", "deaf")
    world.run(1.0)
    assert world.watchdog is not None
    assert world.watchdog.trips != trips, "else it proves nothing"
    assert world.engine.paused
    assert CommandSource.HOLD in {tick.source for _, tick in world.ticks}
