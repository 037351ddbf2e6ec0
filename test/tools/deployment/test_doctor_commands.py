# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of commands: who takes them, and whether anybody else sends them."""

from __future__ import annotations

from typing import Any

import pytest
from doctor_facts import COMMANDS, CONTRACT, HEALTHY, about, changed_topic

from remote_inference.base.contract.contract import Contract
from remote_inference.tools.deployment.doctor.commands import (
    Command,
    commands_in_graph,
    commands_of,
    judge_commands,
)
from remote_inference.tools.deployment.doctor.doctor import Finding, Level, TopicFacts

ROBOT, WATCHDOG = "/arm/remote_inference", "/arm/command_watchdog"
FLOATS = "std_msgs/msg/Float64MultiArray"
SHOWN = [  # of a robot's node: its own topics, and the command's
    (COMMANDS, [FLOATS]),
    ("/diagnostics", ["diagnostic_msgs/msg/DiagnosticArray"]),
    ("/parameter_events", ["rcl_interfaces/msg/ParameterEvent"]),
    ("/rosout", ["rcl_interfaces/msg/Log"]),
    (f"{ROBOT}/state", ["remote_inference/msg/ClientState"]),
    (f"{ROBOT}/run_policy/_action/status", ["action_msgs/msg/GoalStatusArray"]),
]


def judge(contract: Contract = CONTRACT, **changes: Any) -> Finding:
    """Return the finding about the command's topic, of which some facts are changed."""
    facts = changed_topic(COMMANDS, **changes)
    return about(judge_commands(commands_of(contract, "/arm"), "/arm", facts), COMMANDS)


@pytest.mark.parametrize(
    ("changes", "level", "found"),
    [
        ({}, Level.OK, "received by /controller"),
        ({"subscribers": ()}, Level.ERROR, "no subscriber"),
        ({"types": ("std_msgs/msg/String",)}, Level.ERROR, "known as std_msgs/msg/String"),
        ({"latched_subscribers": ("/controller",)}, Level.ERROR, "/controller subscribes as TRANSIENT_LOCAL"),
        ({"subscribers": ("/arm/bag_recorder",)}, Level.ERROR, "received by /arm/bag_recorder alone"),
    ],
)
def test_a_command_that_nobody_hears_is_named(changes: dict[str, Any], level: Level, found: str) -> None:
    finding = judge(**changes)
    assert (finding.level, finding.found) == (level, found)


@pytest.mark.parametrize(
    ("publishers", "level", "found"),
    [
        ((ROBOT,), Level.OK, "received by /controller"),
        ((WATCHDOG, ROBOT), Level.OK, "received by /controller"),
        ((WATCHDOG, "/teleop"), Level.OK, "received by /controller"),  # the robot's node shadows it
        ((WATCHDOG, ROBOT, "/teleop"), Level.ERROR, "published by /teleop, too"),
        ((ROBOT, "/other/command_watchdog"), Level.ERROR, "published by /other/command_watchdog, too"),
        (("/script", "/teleop"), Level.ERROR, "published by /script, /teleop"),
    ],
)
def test_two_that_command_one_arm_are_an_error(publishers: tuple[str, ...], level: Level, found: str) -> None:
    finding = judge(publishers=publishers)
    assert (finding.level, finding.found) == (level, found)


def test_two_that_command_are_told_before_a_controller_that_is_missing() -> None:
    assert judge(publishers=(ROBOT, "/teleop"), subscribers=()).found == "published by /teleop, too"


def test_recorders_are_no_controllers_and_may_want_latched_commands() -> None:
    finding = judge(
        subscribers=("/arm/bag_recorder", "/controller", "/rosbag2_recorder"),
        latched_subscribers=("/rosbag2_recorder",),
    )
    assert (finding.level, finding.found) == (Level.OK, "received by /controller")


@pytest.mark.parametrize(
    ("servers", "level", "found"),
    [
        (("/arm/gripper_controller",), Level.OK, "served by /arm/gripper_controller"),
        ((), Level.ERROR, "no action server"),
        (("/a", "/b"), Level.ERROR, "served by /a, /b"),
    ],
)
def test_an_action_has_one_server(servers: tuple[str, ...], level: Level, found: str) -> None:
    document = CONTRACT.model_dump()
    *joints, gripper = document["actions"]["names"]
    kind = "control_msgs/action/GripperCommand"
    sinks = (
        {**document["commands"][0], "names": tuple(joints)},
        {"action": "gripper_cmd", "type": kind, "fields": {"command.position": gripper}},
    )
    commands = commands_of(CONTRACT.model_validate({**document, "commands": sinks}), "/arm")
    assert commands_in_graph("/arm", SHOWN, [("/arm/gripper_cmd", [kind])]) == commands
    status = TopicFacts(("action_msgs/msg/GoalStatusArray",), servers, (ROBOT,))
    facts = {**HEALTHY, "/arm/gripper_cmd/_action/status": status}
    finding = about(judge_commands(commands, "/arm", facts), "/arm/gripper_cmd")
    assert (finding.level, finding.found) == (level, found)


def test_a_controller_that_the_contract_names_must_be_there() -> None:
    document = CONTRACT.model_dump()
    sinks = ({**document["commands"][0], "controller": "position_controller"},)
    contract = CONTRACT.model_validate({**document, "commands": sinks})
    assert judge(contract, subscribers=("/arm/position_controller", "/logger")).level is Level.OK
    missing = judge(contract, subscribers=("/logger",))
    assert (missing.level, missing.found) == (Level.ERROR, "received by /logger alone")
    assert missing.expected == "/arm/position_controller, the contract's controller"


def test_the_graph_shows_what_a_robot_s_node_commands() -> None:
    assert commands_in_graph("/arm", SHOWN, []) == commands_of(CONTRACT, "/arm")
    assert commands_in_graph("/arm", SHOWN[1:], []) == []  # in shadow mode


def test_a_robot_without_a_namespace_has_topics_of_its_own_too() -> None:
    shown = [("/remote_inference/state", ["remote_inference/msg/ClientState"]), ("/commands", [FLOATS])]
    assert commands_in_graph("/", shown, []) == [Command("/commands", FLOATS)]
