# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A suction cup beside an arm: a switch whose controller takes a Bool, with real nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from std_msgs.msg import Bool, Float64, Float64MultiArray

from remote_inference.base.wire.qos import SENSOR_QOS
from support.nodes.rig import CONTRACT, DEEP_QOS, JOINTS, Rig, write_contract, write_manifest

ARM, CUP = JOINTS[0], "suction"
SECTIONS: dict[str, Any] = {
    "state": [
        {**CONTRACT["state"][0], "names": [ARM]},
        {"topic": "wanted", "type": "std_msgs/msg/Float64", "fields": ["data"], "names": [CUP]},
    ],
    "images": {},
    "rename": {},
    "actions": {
        "kind": "position",
        "names": [ARM, CUP],
        "limits": {
            ARM: {"min": -2.0, "max": 2.0, "max_velocity": 3.0},
            CUP: {"kind": "switch", "min": 0.0, "max": 1.0, "opens_below": 0.4, "closes_above": 0.6},
        },
    },
    "commands": [
        {"topic": "arm", "type": "std_msgs/msg/Float64MultiArray", "names": [ARM]},
        {"topic": "suction", "type": "std_msgs/msg/Bool", "fields": {"data": CUP}},
    ],
}


class CuppedArm(Rig):
    """The rig with a suction cup. The policy answers with what it sees, also of the cup."""

    def __init__(self, folder: Path) -> None:
        self.wanted = 0.9
        self.cup: list[bool] = []
        super().__init__(folder)
        self.run_on_executor(self._add_cup)

    def _add_cup(self) -> None:
        self._publisher = self.node.create_publisher(Float64, "wanted", SENSOR_QOS)
        self.subscribe(Bool, "suction", lambda message: self.cup.append(message.data), DEEP_QOS)
        self.subscribe(Float64MultiArray, "arm", lambda _: None, DEEP_QOS)  # else the cup waits for the arm
        self.node.create_timer(1.0 / 30.0, lambda: self._publisher.publish(Float64(data=self.wanted)))

    def start(self) -> None:
        """Start server and robot."""
        names = [ARM, CUP]
        policy = {"state_names": names, "action_names": names, "image_features": {}}
        self.start_server(write_manifest(self.folder, policy))
        self.start_robot(write_contract(self.folder, **SECTIONS), max_action_age_s=1.0)


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[CuppedArm]:
    rig = CuppedArm(tmp_path)
    try:
        rig.start()
        yield rig
    finally:
        rig.close()


def test_a_cup_is_switched_by_the_policy_and_stays_in_a_pause(robot: CuppedArm):
    robot.wait_for(lambda: robot.cup[-1:] == [True], "a cup that is closed")
    robot.wanted = 0.1
    robot.wait_for(lambda: robot.cup[-1:] == [False], "a cup that is open")
    robot.wanted = 0.9
    robot.wait_for(lambda: robot.cup[-1:] == [True], "a cup that is closed again")
    executed = len(robot.executed)
    assert robot.trigger("pause").success
    robot.wait_for(lambda: robot.executed[executed:] and not robot.executed[-1].action, "silence")
    begin = len(robot.cup)
    robot.wanted = 0.1
    assert robot.trigger("resume").success
    robot.wait_for(lambda: robot.cup[-1:] == [False], "a cup that is open after the pause")
    after = robot.cup[begin:]
    assert after == sorted(after, reverse=True), "closed, then open, and nothing in between"
