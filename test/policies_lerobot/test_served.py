# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's policies served by a real policy server to a real robot node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from tiny_policies import CAMERA, CHUNK, JOINTS, Built

sys.path.insert(0, str(Path(__file__).parents[1] / "nodes"))

from rig import Rig, write_contract

START_S = 300.0  # importing LeRobot takes seconds, minutes on a busy machine
ACTIONS = {
    "kind": "position",
    "names": list(JOINTS),
    "limits": {name: {"min": -9.0, "max": 9.0, "max_velocity": 20.0} for name in JOINTS},
}


class Arm(Rig):
    """An arm whose joints are where they were sent."""

    def __init__(self, folder: Path) -> None:
        self._angles = [0.2, -0.3, 0.1]
        super().__init__(folder)

    def _on_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        self._angles = list(message.data)
        super()._on_command(message, info)

    def _measure(self) -> JointState:
        return JointState(name=list(JOINTS), position=self._angles)


@pytest.fixture
def arm(tmp_path: Path) -> Iterator[Arm]:
    arm = Arm(tmp_path)
    yield arm
    arm.close()


def start(arm: Arm, checkpoint: Built, **changes: Any) -> None:
    model = checkpoint.source().model_dump(mode="json")
    manifest = arm.folder / "manifest.yaml"
    manifest.write_text(
        yaml.safe_dump({"model": model, "max_sessions": 2, "default_task": "pick up", **changes})
    )
    names = list(JOINTS)
    state = {
        "topic": "joint_states",
        "type": "sensor_msgs/msg/JointState",
        "field": "position",
        "names": names,
    }
    contract = write_contract(
        arm.folder,
        state=[state],
        rename={"images.camera": CAMERA},
        actions=ACTIONS,
        commands=[{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": names}],
    )
    arm.start_server(manifest)
    arm.start_robot(contract)


@pytest.mark.parametrize("kind", ["act", "diffusion", "smolvla", "xvla"])
def test_a_robot_is_driven_by_a_checkpoint(kind: str, arm: Arm, built: dict[str, Built]) -> None:
    start(arm, built[kind], scheduler="micro_batch" if kind in {"act", "smolvla"} else "round_robin")
    arm.wait_for(lambda: any(state.state_name == "STREAMING" for state in arm.states), "STREAMING", START_S)
    before = len(arm.commands)
    arm.wait_for(lambda: len(arm.commands) >= before + 3 * CHUNK, "three chunks of commands", START_S)
    commands = np.array([values for _, values in arm.commands[before:]])
    assert commands.shape[1] == len(JOINTS)
    assert np.ptp(commands, axis=0).max() > 1e-4, "the arm is held still, not driven"
