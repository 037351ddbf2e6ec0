# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The settings that docs/reference/drivers.md offers for copying fit each other and the package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document

TEXT = (Path(__file__).parents[2] / "docs" / "reference" / "drivers.md").read_text(encoding="utf-8")
PIECE = re.compile(r"<!-- tested: (.+?) -->\n\n```yaml\n(.*?)```", re.DOTALL)
PIECES: dict[str, Any] = {name: yaml.safe_load(text) for name, text in PIECE.findall(TEXT)}


def contract_of(piece: str, kind: str) -> Contract:
    """Return a whole contract around the keys that a piece shows."""
    shown = PIECES[piece]
    names = shown["commands"][0]["names"]
    limits = {name: {"min": -1.0, "max": 1.0, "max_velocity": 1.0} for name in names}
    source = {"topic": "joint_states", "type": "sensor_msgs/msg/JointState", "field": "position"}
    document = {
        "robot_type": "copied",
        "fps": 30.0,
        "state": [{**source, "names": names}],
        "actions": {"kind": kind, "names": names, "limits": limits},
        **shown,
    }
    return parse_document(document, Contract, piece)


def parameters_of(piece: str, controller: str) -> dict[str, Any]:
    parameters: dict[str, Any] = PIECES[piece][controller]["ros__parameters"]
    return parameters


@pytest.mark.parametrize("kind", ["trajectory", "velocity"])
def test_every_controller_that_is_configured_is_one_of_the_manager_s(kind: str) -> None:
    configured = set(PIECES[kind]) - {"controller_manager"}
    assert configured <= set(parameters_of(kind, "controller_manager"))


def test_the_timeout_of_the_trajectory_controller_is_one_that_is_not_ignored() -> None:
    parameters = parameters_of("trajectory", "arm_controller")
    assert parameters["cmd_timeout"] > parameters["constraints"]["goal_time"] > 0.0


def test_the_trajectory_controller_goes_on_from_where_it_has_led() -> None:
    assert parameters_of("trajectory", "arm_controller")["interpolate_from_desired_state"] is True


@pytest.mark.parametrize(("kind", "action_kind"), [("trajectory", "position"), ("velocity", "velocity")])
def test_the_contract_commands_the_controller_with_its_joints_in_order(kind: str, action_kind: str) -> None:
    contract = contract_of(f"{kind} contract", action_kind)
    for sink in contract.commands:
        controller = sink.topic.split("/")[0]
        assert tuple(parameters_of(kind, controller)["joints"]) == sink.names


def test_the_switch_names_controllers_that_are_configured() -> None:
    switch = contract_of("velocity contract", "velocity").watchdog_switch
    assert switch is not None
    assert {*switch.activate, *switch.deactivate} <= set(PIECES["velocity"])
    assert set(parameters_of("velocity", "hold_controller")["gains"]) == set(
        parameters_of("velocity", "hold_controller")["joints"]
    )
