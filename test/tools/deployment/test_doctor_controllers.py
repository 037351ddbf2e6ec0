# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of a controller's own parameters: a wrong order is a motion that nobody meant."""

from __future__ import annotations

from typing import Any

import pytest
from doctor_facts import COMMANDS, CONTRACT

from remote_inference.base.contract.commands.controller_facts import ControllerFacts, facts_of
from remote_inference.base.contract.contract import Contract
from remote_inference.tools.deployment.doctor.commands import judge_activity, judge_controllers
from remote_inference.tools.deployment.doctor.doctor import Finding, Level

NAMES = list(CONTRACT.actions.names)
SWAPPED = [NAMES[1], NAMES[0], *NAMES[2:]]
TRAJECTORY = {"topic": "plan", "type": "trajectory_msgs/msg/JointTrajectory", "names": tuple(NAMES)}


def judge(contract: Contract = CONTRACT, topic: str = COMMANDS, **parameters: Any) -> list[Finding]:
    return list(judge_controllers(contract, "/arm", {topic: facts_of("/arm/controller", parameters)}))


def with_trajectory(**changes: Any) -> Contract:
    content = CONTRACT.model_dump(exclude_unset=True)
    return Contract.model_validate({**content, "commands": ({**TRAJECTORY, **changes},)})


@pytest.mark.parametrize(
    ("parameters", "level", "found"),
    [
        ({"joints": NAMES, "interface_name": "position"}, Level.OK, f"takes {', '.join(NAMES)}"),
        ({"joints": NAMES}, Level.OK, f"takes {', '.join(NAMES)}"),
        ({"joints": SWAPPED}, Level.ERROR, f"takes {', '.join(SWAPPED)}"),
        ({"joints": NAMES[:-1]}, Level.ERROR, f"takes {len(NAMES) - 1} joints: {', '.join(NAMES[:-1])}"),
        ({"joints": NAMES, "interface_name": "velocity"}, Level.ERROR, "forwards velocity commands"),
        ({"joints": ["other", *NAMES[1:]]}, Level.OK, f"takes other, {', '.join(NAMES[1:])}, from"),
        ({"joints": ["other", *NAMES[:-1]]}, Level.ERROR, f"takes other, {', '.join(NAMES[:-1])}"),
    ],
)
def test_a_controller_of_plain_numbers_is_compared_by_order_number_and_kind(
    parameters: dict[str, Any], level: Level, found: str
) -> None:
    (finding,) = judge(**parameters)
    assert finding.level == level
    assert finding.found.startswith(found)


@pytest.mark.parametrize(
    ("changes", "parameters", "level", "found"),
    [
        ({}, {"joints": SWAPPED, "allow_partial_joints_goal": False}, Level.OK, "takes"),
        ({}, {"joints": NAMES[1:]}, Level.ERROR, f"has no {NAMES[0]}, but"),
        (
            {},
            {"joints": [*NAMES, "lift"], "allow_partial_joints_goal": False},
            Level.ERROR,
            "wants lift, too, in each command",
        ),
        ({}, {"joints": [*NAMES, "lift"], "allow_partial_joints_goal": True}, Level.OK, "takes"),
        ({}, {"joints": ["lift"], "command_joints": NAMES}, Level.OK, "takes"),
    ],
)
def test_a_controller_of_named_joints_must_have_them_and_no_others(
    changes: dict[str, Any], parameters: dict[str, Any], level: Level, found: str
) -> None:
    parameters = {**parameters, "interpolate_from_desired_state": True}
    (finding,) = judge(with_trajectory(**changes), "/arm/plan", **parameters)
    assert finding.level == level
    assert finding.found.startswith(found)


def test_a_controller_that_does_not_answer_is_said_to_be_left_out() -> None:
    facts = {COMMANDS: ControllerFacts("/arm/controller", problem="it hangs")}
    (finding,) = judge_controllers(CONTRACT, "/arm", facts)
    assert (finding.level, finding.found) == (Level.OK, "its joints were not compared: it hangs")


def test_a_node_that_says_nothing_of_joints_is_not_judged() -> None:
    assert judge() == []
    assert judge(joints=[], interface_name="position") == []


@pytest.mark.parametrize(
    ("parameters", "is_wrong"),
    [
        ({}, True),
        ({"interpolate_from_desired_state": False, "open_loop_control": False}, True),
        ({"interpolate_from_desired_state": True}, False),
        ({"open_loop_control": True}, False),
    ],
)
def test_a_trajectory_controller_must_go_on_from_where_it_has_led(
    parameters: dict[str, Any], is_wrong: bool
) -> None:
    findings = judge(with_trajectory(), "/arm/plan", joints=NAMES, **parameters)
    wrong = [finding for finding in findings if finding.level == Level.ERROR]
    assert [finding.expected for finding in wrong] == ["interpolate_from_desired_state: true"] * is_wrong


@pytest.mark.parametrize(
    ("cmd_timeout", "goal_time", "is_ignored"),
    [(0.5, 10.0, True), (0.5, 0.5, True), (0.5, 0.2, False), (0.5, 0.0, False), (0.0, 10.0, False)],
)
def test_a_timeout_that_a_trajectory_controller_ignores_is_named(
    cmd_timeout: float, goal_time: float, is_ignored: bool
) -> None:
    parameters = {"cmd_timeout": cmd_timeout, "constraints.goal_time": goal_time}
    findings = judge(
        with_trajectory(), "/arm/plan", joints=NAMES, interpolate_from_desired_state=True, **parameters
    )
    ignored = [finding.found for finding in findings if finding.level == Level.WARNING]
    assert ignored == [f"ignores cmd_timeout {cmd_timeout:g}: goal_time is {goal_time:g}"] * is_ignored


def test_neither_a_forward_controller_nor_one_that_says_nothing_must_interpolate() -> None:
    assert [finding.level for finding in judge(joints=NAMES)] == [Level.OK]
    assert judge(with_trajectory(), "/arm/plan") == []


def test_a_controller_that_is_not_active_is_an_error() -> None:
    (finding,) = judge_activity({"/arm/controller": "inactive"})
    assert (finding.level, finding.subject) == (Level.ERROR, "controller /arm/controller")
    assert (finding.found, finding.expected) == ("is inactive", "active")
