# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of a robot in a drill."""

from __future__ import annotations

from remote_inference.monitoring.fleet_view import describe_robot, robot_as_json, state_of
from remote_inference.msg import ClientState

FAULT = "freeze sensors for 4 s"


def test_a_drill_is_told_beside_the_state_and_with_its_fault() -> None:
    state = ClientState(state_name="STALLED", injected_fault=FAULT)
    assert state_of(state) == "STALLED, drill"
    assert ["drill", FAULT] in [list(row) for row in describe_robot("/robot_1", state).rows]
    assert robot_as_json("/robot_1", state)["injected_fault"] == FAULT


def test_without_a_drill_nothing_is_said_of_one() -> None:
    state = ClientState(state_name="STREAMING")
    assert state_of(state) == "STREAMING"
    assert "drill" not in dict(describe_robot("/robot_1", state).rows)
