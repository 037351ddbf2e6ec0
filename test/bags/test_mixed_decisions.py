# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Decisions of an arm on a base whose commands are fields: each is compared, a changed one found."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from builtin_interfaces.msg import Time

from remote_inference.bags.decisions.replay import replay_decisions
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from support.builders import FLOAT64_MULTI_ARRAY, JOINTS, contract_document, make_config
from support.recording.decision_bag import NS, messages_of, write
from support.robot.simulation import streaming
from support.robot.watched_world import WatchedWorld

BASE = {
    "topic": "cmd_vel",
    "type": "geometry_msgs/msg/TwistStamped",
    "fields": {"twist.linear.x": JOINTS[1]},
}

Messages = list[tuple[int, str, Any]]


@pytest.fixture(scope="module")
def messages() -> Messages:
    """What a recorder receives of a run with an outage, a pause and a reset; stamped as a node stamps."""
    document = contract_document()
    document["actions"]["limits"][JOINTS[1]]["kind"] = "velocity"
    document["commands"] = [{"topic": "arm", "type": FLOAT64_MULTI_ARRAY, "names": [JOINTS[0]]}, BASE]
    contract = parse_document(document, Contract, "mixed.contract.yaml")
    world = streaming(WatchedWorld(make_config(max_action_age_s=1.0), contract=contract)).run(1)
    world.server.hung = True
    world.run(2)
    world.server.hung = False
    world.run(1).pause()
    world.run(0.5).resume()
    world.run(1).reset("fold")
    found = messages_of(world.run(2))
    for at_ns, topic, message in found:
        if topic.endswith("cmd_vel"):
            message.header.stamp = Time(sec=at_ns // 10**9, nanosec=at_ns % 10**9)
    return found


def test_commands_of_every_kind_are_compared_bit_for_bit(tmp_path: Path, messages: Messages) -> None:
    report = replay_decisions(write(tmp_path / "bag", messages), NS, {})
    sent = sum(topic.endswith(("/cmd_vel", "/arm")) for _, topic, _ in messages)
    assert report.first is None
    assert not report.problems
    assert (report.compared["commands"], report.unrecorded["commands"]) == (sent, 0)


def test_a_changed_command_in_a_field_is_found(tmp_path: Path, messages: Messages) -> None:
    changed = deepcopy(messages)
    commands = [message for _, topic, message in changed if topic.endswith("cmd_vel")]
    commands[10].twist.linear.x = 123.0
    report = replay_decisions(write(tmp_path / "bag", changed), NS, {})
    assert report.first is not None
    assert "cmd_vel" in report.first.what
