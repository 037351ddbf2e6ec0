# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What stops a controller, and which controllers the contract may switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.commands.sink import COMMAND_INTERFACES
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.controller_stop import (
    STOPPING_S,
    TRANSPORT_NS,
    ControllerStop,
    Measured,
    count_stops,
    max_stopping_s,
    may_be_sent_a_stop,
    stop_controller,
)
from remote_inference.base.documents.document import DocumentError, parse_document
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, JOINTS, contract_document
from support.robot.pose_robot import pose_contract

MEASURED = {"shoulder": Measured(0.4, 30), "elbow": Measured(-0.2, 70)}


def make(kind: str = "position", command_type: str = FLOAT64_MULTI_ARRAY, **changes: Any) -> Contract:
    document = contract_document(kind)
    document["commands"][0]["type"] = command_type
    return parse_document({**document, **changes}, Contract, "test")


def stop_of(contract: Contract, measured: dict[str, Measured]) -> ControllerStop:
    return stop_controller(contract, contract.commands[0], measured)


@pytest.mark.parametrize("kind", ["velocity", "effort"])
@pytest.mark.parametrize(
    "command_type", [name for name in COMMAND_INTERFACES.names if name != JOINT_TRAJECTORY]
)
def test_zero_stops_a_velocity_and_an_effort_wherever_the_arm_is(kind: str, command_type: str) -> None:
    stop = stop_of(make(kind, command_type), {})
    assert stop.action is not None
    assert stop.action.tolist() == [0.0, 0.0]
    assert stop.outcome == f"sent zero {kind}"


def test_a_trajectory_controller_holds_where_the_arm_is() -> None:
    stop = stop_of(make(command_type=JOINT_TRAJECTORY), MEASURED)
    assert stop.action is not None
    np.testing.assert_array_equal(stop.action, [MEASURED[name].position for name in JOINTS])


def test_a_hold_is_due_as_late_as_its_oldest_joint_was_measured_before() -> None:
    """An arm at its limit has gone on for so long, and comes back no faster."""
    assert stop_of(make(command_type=JOINT_TRAJECTORY), MEASURED).late_ns == 70 + TRANSPORT_NS
    sinks = [{"topic": name, "type": JOINT_TRAJECTORY, "names": [name]} for name in JOINTS]
    contract = make(commands=sinks)
    stops = [stop_controller(contract, sink, MEASURED) for sink in contract.commands]
    assert [stop.late_ns - TRANSPORT_NS for stop in stops] == [MEASURED[name].age_ns for name in JOINTS]


def test_a_trajectory_controller_whose_arm_is_not_heard_is_reported_as_not_stopped() -> None:
    stop = stop_of(make(command_type=JOINT_TRAJECTORY), {"shoulder": Measured(0.4)})
    assert stop.action is None
    assert stop.failed
    assert stop.outcome == "not stopped, no trusted position of elbow to hold"


def test_a_forward_position_controller_is_left_at_its_target() -> None:
    """Zeros would be a target, and the measured position of a loaded arm lies below its target."""
    stop = stop_of(make(), MEASURED)
    assert stop.action is None
    assert not stop.failed
    assert stop.outcome == "nothing sent, it keeps its last target"


def test_controllers_without_a_position_to_hold_do_not_keep_others_from_holding() -> None:
    sinks = [{"topic": name, "type": JOINT_TRAJECTORY, "names": [name]} for name in JOINTS]
    contract = make(commands=sinks)
    stops = [stop_controller(contract, sink, {"elbow": Measured(-0.2)}) for sink in contract.commands]
    assert [stop.failed for stop in stops] == [True, False]


def test_a_contract_names_the_controllers_to_switch() -> None:
    switch = make(watchdog_switch={"activate": ["hold"], "deactivate": ["arm"]}).watchdog_switch
    assert switch is not None
    assert (switch.activate, switch.deactivate) == (("hold",), ("arm",))
    assert switch.controller_manager == "controller_manager"


@pytest.mark.parametrize(
    ("switch", "problem"),
    [
        ({}, "found no controller in activate and deactivate, expected one at least"),
        ({"activate": ["arm"], "deactivate": ["arm"]}, "found arm in activate and in deactivate"),
        ({"activate": ["hold"], "controller_manager": "a b"}, "found ' ' in 'a b'"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused_by_name(switch: dict[str, Any], problem: str) -> None:
    with pytest.raises(DocumentError, match=f"watchdog_switch.*{problem}"):
        make(watchdog_switch=switch)


@pytest.mark.parametrize(
    ("fps", "stops"),
    [(500.0, 100), (100.0, 20), (50.0, 10), (30.0, 10), (10.0, 10), (8.0, 8), (5.0, 5), (1.0, 3)],
)
def test_stops_take_a_second_at_most_and_are_several_at_any_rate(fps: float, stops: int) -> None:
    """They take so long that a controller which has gone is noticed while they are sent."""
    assert count_stops(1.0 / fps) == stops
    assert max_stopping_s(1.0 / fps) == pytest.approx((stops + 1) / fps)
    assert max_stopping_s(1.0 / fps) <= max(STOPPING_S, 3 / fps) + 1.01 / fps


def test_a_controller_of_poses_keeps_its_last_pose() -> None:
    contract = pose_contract()
    stop = stop_controller(contract, contract.commands[0], {})
    assert (stop.action, stop.failed) == (None, False)
    assert stop.outcome == "nothing sent, it keeps its last pose"
    assert not may_be_sent_a_stop(contract, contract.commands[0])


@pytest.mark.parametrize(
    ("kind", "command_type", "sent"),
    [
        ("position", FLOAT64_MULTI_ARRAY, False),
        ("position", JOINT_TRAJECTORY, True),
        ("velocity", FLOAT64_MULTI_ARRAY, True),
        ("effort", FLOAT64_MULTI_ARRAY, True),
    ],
)
def test_who_is_ever_sent_a_stop_is_known_beforehand(kind: str, command_type: str, sent: bool) -> None:
    contract = make(kind, command_type)
    assert may_be_sent_a_stop(contract, contract.commands[0]) is sent
    assert (stop_of(contract, MEASURED).action is not None) is sent
