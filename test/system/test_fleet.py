# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots that share a server: each gets the answers to its own requests, whatever the others send."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rclpy.serialization import serialize_message
from sensor_msgs.msg import CompressedImage

from remote_inference.msg import Observation
from support.nodes.fleet import FleetRobot
from support.nodes.rig import JOINTS, POLICY, Rig, write_manifest

ANSWERS = 60  # number that each robot waits for


def state_of(robot: int, seq_id: int) -> np.ndarray:
    """Return a state that no other robot and no other request has."""
    return np.array([robot + 0.25, seq_id / 1024], np.float32)


class TellingRobot(FleetRobot):
    """Sends requests at a steady pace, each with a different state."""

    def __init__(self, rig: Rig, number: int, period_s: float) -> None:
        super().__init__(rig, f"/robot_{number}")
        self.number = number
        self.asked = 0
        self.timer = rig.node.create_timer(period_s, self.tell)

    def tell(self) -> None:
        self.asked += 1
        state = state_of(self.number, self.asked)
        assert self.send(state=array("f", state.tobytes())) == self.asked

    @property
    def wrong(self) -> list[str]:
        """Chunks that do not answer one of this robot's requests with the request's state."""
        return [
            f"/robot_{self.number}, request {chunk.seq_id}: {chunk.message or rows.tolist()}"
            for chunk in list(self.chunks)
            for rows in [np.frombuffer(chunk.chunk_robot, np.float32).reshape(-1, len(JOINTS))]
            if len(rows) != POLICY["chunk_size"] or (rows != state_of(self.number, chunk.seq_id)).any()
        ]


@pytest.mark.parametrize("scheduler", ["round_robin", "micro_batch"])
def test_robots_that_ask_at_the_same_time_get_the_answers_to_their_own_requests(
    rig: Rig, tmp_path: Path, scheduler: str
) -> None:
    rig.start_server(write_manifest(tmp_path, scheduler=scheduler, max_batch=4, max_sessions=6))
    robots = [TellingRobot(rig, number, period_s=0.03) for number in range(6)]
    rig.wait_for(lambda: all(len(robot.chunks) >= ANSWERS for robot in robots), "everybody's answers")
    assert [line for robot in robots for line in robot.wrong] == []


POISONS: dict[str, Callable[[Observation], Any]] = {
    "no state": lambda message: setattr(message, "state", array("f")),
    "a state of NaN": lambda message: setattr(message, "state", array("f", [math.nan, 0.0])),
    "an undecodable image": lambda message: setattr(
        message, "images", [CompressedImage(format="jpeg", data=array("B", b"not a picture"))]
    ),
    "an image of many pixels": lambda message: setattr(
        message, "images", [CompressedImage(format="jpeg", data=array("B", HUGE_JPEG_HEADER))]
    ),
    "a prefix that is not there": lambda message: setattr(message, "prefix_length", 4_000_000_000),
}
# Start of image, frame header with 65535 x 65535 pixels of three components, and no more.
HUGE_JPEG_HEADER = bytes.fromhex("ffd8ffc0001108ffffffff03012200021101031101")


def test_malformed_messages_of_one_robot_do_not_affect_the_others(rig: Rig, tmp_path: Path) -> None:
    rig.start_server(write_manifest(tmp_path, max_sessions=4))
    robots = [TellingRobot(rig, number, period_s=0.03) for number in range(2)]
    poisoner = FleetRobot(rig, "/poisoner")
    for what, poison in POISONS.items():
        message = Observation(**{**poisoner.fields, "seq_id": 0})
        poison(message)
        for data in (message, serialize_message(message)[:40]):  # a truncated message cannot be parsed
            seen = [len(robot.chunks) for robot in robots]
            timer = rig.node.create_timer(0.005, lambda data=data: poisoner.publish(data))
            rig.wait_for(
                lambda seen=seen: all(len(r.chunks) >= n + 10 for r, n in zip(robots, seen, strict=True)),
                f"answers beside {what}",
            )
            rig.node.destroy_timer(timer)
    assert [line for robot in robots for line in robot.wrong] == []
    rig.wait_for(
        lambda: len({chunk.message for chunk in poisoner.chunks}) >= len(POISONS) - 1,
        "answers to the poisons",
    )
    assert poisoner.request(state=array("f", [0.5, -0.5])).message == ""
    assert rig.server.poll() is None
