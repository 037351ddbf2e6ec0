# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Command writers of a four-joint arm."""

from __future__ import annotations

from builtin_interfaces.msg import Time

from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.commands import make_command_writer
from remote_inference.base.wire.commands.writer import CommandWriter
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY

ACTION_NAMES = ("shoulder", "elbow", "wrist", "gripper")
PERIOD_NS = 50_000_000
STAMP = Time(sec=7)
ALL_TYPES = (FLOAT64_MULTI_ARRAY, JOINT_STATE, JOINT_TRAJECTORY)


def writer(names, kind: str = "position", message_type: str = FLOAT64_MULTI_ARRAY) -> CommandWriter:
    """Return the writer of a controller for `names`; a second controller takes the remaining joints."""
    sinks = [{"topic": "arm/commands", "type": message_type, "names": list(names)}]
    if rest := [name for name in ACTION_NAMES if name not in names]:
        sinks.append({"topic": "rest/commands", "type": FLOAT64_MULTI_ARRAY, "names": rest})
    limits = {name: {"min": -9.0, "max": 9.0, "max_velocity": 1.0} for name in ACTION_NAMES}
    state = {"topic": "joint_states", "type": JOINT_STATE, "field": "position", "names": list(ACTION_NAMES)}
    document = {
        "robot_type": "arm",
        "fps": 1e9 / PERIOD_NS,
        "state": [state],
        "actions": {"kind": kind, "names": list(ACTION_NAMES), "limits": limits},
        "commands": sinks,
    }
    contract = parse_document(document, Contract, "arm.contract.yaml")
    return make_command_writer(contract.commands[0], contract)
