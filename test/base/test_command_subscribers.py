# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who hears a command and takes it, and who hears it and looks on."""

from __future__ import annotations

import pytest

from remote_inference.base.contract.commands.controller_facts import is_controller
from remote_inference.base.contract.commands.sink import CommandSink
from remote_inference.base.documents.document import DocumentError, parse_document

COMMAND = {"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": ["elbow"]}


def sink(**changes: str) -> CommandSink:
    return parse_document({**COMMAND, **changes}, CommandSink, "test.yaml")


@pytest.mark.parametrize(
    ("node", "takes"),
    [
        ("/arm/forward_position_controller", True),
        ("/belt_arm", True),
        ("/arm/relay", True),  # a controller may listen behind it
        ("/arm/bag_recorder", False),
        ("/bag_recorder", False),
        ("/rosbag2_recorder", False),  # of ros2 bag record
        ("/rosbag2_recorder_arm", False),  # started by this package
        ("/_ros2cli_4711", False),  # of ros2 topic echo
        ("/arm/command_watchdog", False),
        ("/other_arm/remote_inference", False),
        ("/doctor_verb", False),
        ("/foxglove_bridge", False),
        ("/rqt_gui_py_node_12", False),
        ("/plotjuggler", False),
    ],
)
def test_known_observers_are_no_controllers(node: str, takes: bool) -> None:
    assert is_controller(node, sink(), "/arm") is takes


@pytest.mark.parametrize(
    ("controller", "node", "takes"),
    [
        ("position_controller", "/arm/position_controller", True),
        ("position_controller", "/other_arm/position_controller", False),
        ("/position_controller", "/position_controller", True),
        ("position_controller", "/arm/my_logger", False),
        ("bag_recorder", "/arm/bag_recorder", True),  # the contract knows better than its name
    ],
)
def test_a_controller_that_the_contract_names_is_the_only_one(
    controller: str, node: str, takes: bool
) -> None:
    assert is_controller(node, sink(controller=controller), "/arm") is takes


def test_a_name_that_no_node_can_have_is_refused() -> None:
    with pytest.raises(DocumentError, match="controller: found '-' in 'position-controller'"):
        sink(controller="position-controller")
