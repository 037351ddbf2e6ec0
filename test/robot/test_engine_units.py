# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose policy speaks degrees and percent moves as one whose policy speaks radians."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.policy_units import UnitMap
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from support.builders import JOINT_TRAJECTORY, contract_document, make_config
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

SCALE = [
    {"unit": "degrees", "names": ["shoulder"]},
    {"unit": "percent", "names": ["elbow"], "range": [-1.5, 1.0]},
]


class ServerInUnits(SimulatedServer):
    """Speaks of the same wave in other units."""

    def __init__(self, units: UnitMap) -> None:
        super().__init__("/server_a")
        self._units = units
        self.said: list[bytes] = []

    def rows(self, request: Request) -> Float32Array:
        rows = self._units.to_policy(super().rows(request)).astype(np.float32)
        self.said += [row.tobytes() for row in rows]
        return rows


def make_contract(command_type: str | None, scale: list[dict[str, Any]]) -> Contract:
    document = contract_document()
    document["actions"]["scale"] = scale
    if command_type is not None:
        document["commands"][0]["type"] = command_type
    return parse_document(document, Contract, "f")


def play(contract: Contract) -> tuple[World, ServerInUnits]:
    server = ServerInUnits(contract.action_units)
    world = World(make_config(), [server], contract=contract)
    return streaming(world).run(4.0), server


@pytest.mark.parametrize("command_type", [None, JOINT_TRAJECTORY])
def test_degrees_and_radians_make_the_same_motion(command_type: str | None):
    ours, _ = play(make_contract(command_type, SCALE))
    others, _ = play(make_contract(command_type, []))
    pairs = list(zip(ours.ticks, others.ticks, strict=True))
    assert sum(tick.command is not None for _, tick in others.ticks) > 50
    for (at_ns, one), (other_ns, other) in pairs:
        assert (at_ns, one.source, one.interventions) == (other_ns, other.source, other.interventions)
        assert (one.command is None) == (other.command is None)
        if one.command is not None and other.command is not None:
            np.testing.assert_allclose(one.command, other.command, atol=1e-6)
            np.testing.assert_allclose(one.horizon, other.horizon, atol=1e-6)
    # The wave is beyond the limits and too fast: the guard had something to say, in radians.
    said = {rule for _, tick in others.ticks for rule in tick.interventions}
    assert {"joint_limit", "velocity_limit"} <= said


def test_a_prefix_is_what_the_policy_said_bit_for_bit():
    world, server = play(make_contract(None, SCALE))
    prefixes = [request.prefix_robot for request in world.sent if request.prefix_robot is not None]
    assert len(prefixes) > 3
    assert {row.tobytes() for prefix in prefixes for row in prefix} <= set(server.said)
