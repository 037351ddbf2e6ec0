# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Other sensors than joints: their silence stops requests, and not what is known of where the joints are."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.safety.state_machine import State
from support.builders import JOINTS, contract_document, make_config, make_spec
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

IMU = {"topic": "imu", "type": "sensor_msgs/msg/Imu", "fields": ["orientation.w"]}
PAD = {"topic": "pad", "type": "std_msgs/msg/Float32MultiArray", "fields": ["data[0:2]"]}


def make_world() -> World:
    document = contract_document()
    document["state"] += [IMU, PAD]
    contract = parse_document(document, Contract, "test.contract.yaml")
    assert contract.state_names == (*JOINTS, "orientation.w", "data[0]", "data[1]")
    spec = make_spec(state_names=contract.state_names)
    return World(make_config(), [SimulatedServer("/server_a", spec)], contract=contract)


@pytest.mark.parametrize("topic", ["imu", "pad"])
def test_a_silent_sensor_blocks_requests_and_the_joints_stay_measured(topic: str):
    world = streaming(make_world())
    world.sensors[topic] = False
    world.run(0.6)
    sent = len(world.sent)
    world.run(3)
    assert world.engine.cycle.stale_sources == (topic,)
    assert len(world.sent) == sent
    assert world.state is State.STALLED
    word = world.engine.control.operator
    assert word.measured is not None, "the next step can be bounded"
    assert np.array_equal(word.measured, world.position)
    assert word.measured_age_ns(world.now_ns) < 100_000_000
    world.sensors[topic] = True
    world.run(1)
    assert world.state is State.STREAMING


def test_a_driver_that_repeats_a_stamp_blocks_requests():
    world = streaming(make_world())
    frozen_ns = world.now_ns
    world.stamps["imu"] = lambda _: frozen_ns
    world.run(3)
    assert world.engine.cycle.stale_sources == ("imu",)
    del world.stamps["imu"]
    world.run(1)
    assert world.state is State.STREAMING


def test_silent_joints_are_not_measured_whatever_else_is_heard():
    world = streaming(make_world())
    world.sensors["joint_states"] = False
    world.run(3)
    assert world.engine.cycle.stale_sources == ("joint_states",)
    assert world.engine.control.operator.measured is None
