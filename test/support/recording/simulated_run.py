# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A bag of a simulated robot that every reader of bags can read: its topics, joints, camera and journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.bags.storage.bag import BagReader
from remote_inference.bags.storage.bag_records import BagTopic
from remote_inference.bags.storage.bag_writer import BagLimits, BagWriter
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.msg import ClientState
from support.builders import contract_document, make_config
from support.recording.decision_bag import NS, OWN, Message, SimulatedRecorder
from support.recording.synthetic_run import jpeg
from support.robot.simulation import World, streaming

CAMERA = "front/image_raw/compressed"
PICTURES_NS = 100_000_000  # between two
TOPICS = {
    f"{OWN}/decisions": "remote_inference/msg/Decisions",
    f"{OWN}/executed": "remote_inference/msg/ExecutedAction",
    f"{OWN}/observation": "remote_inference/msg/Observation",
    f"{OWN}/chunk": "remote_inference/msg/ActionChunk",
    f"{OWN}/state": "remote_inference/msg/ClientState",
    f"{NS}/joint_states": "sensor_msgs/msg/JointState",
    f"{NS}/{CAMERA}": "sensor_msgs/msg/CompressedImage",
    f"{NS}/commands": "std_msgs/msg/Float64MultiArray",
}
BEGIN_NS = 1_790_000_000_000_000_000  # of the bag, to whose times the simulation's are added


def document() -> dict[str, Any]:
    """Return the robot's contract: its camera publishes JPEG."""
    camera = {"topic": CAMERA, "type": "sensor_msgs/msg/CompressedImage"}
    return {**contract_document(), "images": {"front": camera}}


def state_message_of(world: World) -> Message:
    """Return what the robot's node tells of its state now."""
    engine = world.engine
    state = ClientState(
        state=int(engine.machine.state),
        state_name=engine.machine.state.name,
        cause=engine.machine.cause,
        paused=engine.paused,
        chunks_merged=engine.counters.chunks_merged,
    )
    return world.now_ns, f"{OWN}/state", state


def write_simulated_run(path: Path, seconds: int = 3) -> Path:
    """Write a run in which the robot follows its policy."""
    world = World(make_config(), contract=parse_document(document(), Contract, "test"))
    image = CompressedImage(format="jpeg", data=jpeg("front", (0, 80, 130)))
    image.header.frame_id = "front"
    recorder = SimulatedRecorder(world, lambda: (image,), joints=True)
    messages: list[Message] = [state_message_of(world)]
    streaming(world)
    for _ in range(seconds):
        messages.append(state_message_of(world))
        world.run(1)
    messages += recorder.take()
    pictures_ns = range(world.start_ns, world.now_ns, PICTURES_NS)
    messages += [(now_ns, f"{NS}/{CAMERA}", image) for now_ns in pictures_ns]
    topics = [BagTopic(name, kind) for name, kind in TOPICS.items()]
    with BagWriter(path, topics, contract=json.dumps(document())) as bag:
        for now_ns, topic, message in sorted(messages, key=lambda message: message[0]):
            bag.write(topic, BEGIN_NS + now_ns, serialize_message(message))
    return path


def split_run(bag: Path, out: Path) -> Path:
    """Record a bag's messages once more, in a file for each second."""
    with BagReader(bag) as reader:
        topics, limits = reader.topics.values(), BagLimits(max_split_duration_s=1.0)
        with BagWriter(out, topics, contract=reader.contract, limits=limits) as writer:
            for topic, stamp_ns, data in reader.raw_messages():
                writer.write(topic, stamp_ns, data)
    return out
