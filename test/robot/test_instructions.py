# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A new task while the robot runs: from the next request on, in the same episode."""

from __future__ import annotations

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.robot.safety.effects import Inform, SendRequest
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import contract_document, make_config
from support.robot.simulation import World

STRING = "std_msgs/msg/String"


def streaming() -> World:
    world = World(make_config())
    world.run_until(lambda: world.state is State.STREAMING)
    return world


def test_the_next_request_has_the_new_task_and_the_episode_goes_on():
    world = streaming()
    episode, queued, asked = world.engine.episode.id, len(world.engine.queue), len(world.all(SendRequest))
    effects = world.engine.take_instruction("stack the cubes")
    assert effects == [Inform("instruction: 'stack the cubes'")]
    assert len(world.engine.queue) == queued
    world.run_until(lambda: len(world.all(SendRequest)) > asked)
    assert [sent.request.task for sent in world.all(SendRequest)[-2:]] == ["wave", "stack the cubes"]
    assert world.engine.episode.id == episode


def test_the_same_text_again_is_no_news():
    world = streaming()
    assert world.engine.take_instruction("wave") == []


def test_a_reset_without_a_task_keeps_the_instruction():
    world = streaming()
    world.engine.take_instruction("stack the cubes")
    world.reset()
    assert world.engine.episode.task == "stack the cubes"


def test_a_robot_that_has_given_up_takes_none():
    world = streaming()
    world.engine.take_instruction("stack the cubes")
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    assert world.engine.take_instruction("wave") == []
    assert world.engine.episode.task == "stack the cubes"


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [
        ({"topic": "say", "type": "std_msgs/msg/Bool"}, "instruction.type"),
        ({"topic": "commands", "type": STRING}, "instruction: found the topic of a command, commands"),
        ({"topic": "joint_states", "type": STRING}, "instruction.type: found std_msgs/msg/String"),
    ],
)
def test_an_instruction_is_a_text_on_a_topic_of_its_own(instruction: dict[str, str], problem: str):
    document = contract_document() | {"instruction": {"topic": "say", "type": STRING}}
    contract = parse_document(document, Contract, "arm.contract.yaml")
    assert list(contract.operator_inputs) == ["instruction"]
    with pytest.raises(DocumentError) as refusal:
        parse_document(document | {"instruction": instruction}, Contract, "arm.contract.yaml")
    assert problem in str(refusal.value)
