# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's own robot_client, unedited, at our server; each answer beside that of LeRobot's own server."""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import pytest
import yaml
from lerobot.robots import Robot, RobotConfig
from lerobot.transport import services_pb2

from support.free_ports import free_port
from support.lerobot.tiny_policies import CAMERA, JOINTS, Built, size_of
from support.nodes.rig import DEADLINE_S, Rig

with chdir(mkdtemp()):  # importing these makes a folder of logs
    from lerobot.async_inference.configs import PolicyServerConfig, RobotClientConfig
    from lerobot.async_inference.helpers import (
        RemotePolicyConfig,
        TimedObservation,
        map_robot_keys_to_lerobot_features,
    )
    from lerobot.async_inference.policy_server import PolicyServer
    from lerobot.async_inference.robot_client import RobotClient

TASK = "pick up"
OBSERVATIONS = 6
LARGER = 2  # times: the robot's pictures than the policy's
ACTIONS = 5
START_S = 600.0  # importing LeRobot takes seconds, minutes on a busy machine


@RobotConfig.register_subclass("still_arm")
@dataclass
class StillArmConfig(RobotConfig):
    height: int = 1
    width: int = 1


class StillArm(Robot):  # type: ignore[misc]
    """Goes where it is sent, and sees another picture each time."""

    config_class = StillArmConfig
    name = "still_arm"

    def __init__(self, config: StillArmConfig) -> None:
        super().__init__(config)
        self._random = np.random.default_rng(0)
        self._is_connected = False
        self._shape = (config.height, config.width, 3)
        self._angles = self._random.uniform(-0.5, 0.5, len(JOINTS)).tolist()
        self.commands: list[dict[str, float]] = []
        self.is_driven = threading.Event()

    observation_features = property(
        lambda self: {**{f"{name}.pos": float for name in JOINTS}, CAMERA.rpartition(".")[2]: self._shape}
    )
    action_features = property(lambda self: {f"{name}.pos": float for name in JOINTS})
    is_connected = property(lambda self: self._is_connected)
    is_calibrated = property(lambda self: True)

    def connect(self, calibrate: bool = True) -> None:
        self._is_connected = True

    def calibrate(self) -> None: ...

    def configure(self) -> None: ...

    def get_observation(self) -> dict[str, Any]:
        joints = dict(zip(self.action_features, self._angles, strict=True))
        return {**joints, CAMERA.rpartition(".")[2]: self._random.integers(0, 255, self._shape, np.uint8)}

    def send_action(self, action: dict[str, float]) -> dict[str, float]:
        self.commands.append(action)
        self._angles = list(action.values())
        if len(self.commands) == 3 * ACTIONS:
            self.is_driven.set()
        return action

    def disconnect(self) -> None:
        self._is_connected = False


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(rig: Rig, tmp_path: Path, act: Built, monkeypatch: pytest.MonkeyPatch) -> Iterator[RobotClient]:
    monkeypatch.chdir(tmp_path)  # it writes a folder of logs
    port = free_port()
    content = {"model": act.source().model_dump(mode="json"), "lerobot_async": {"port": port, "fps": 30.0}}
    manifest = tmp_path / "manifest.yaml"
    manifest.write_text(yaml.safe_dump(content))
    rig.start_server(manifest)
    rig.wait_for(lambda: is_open(port), "the server's port", START_S)
    height, width = size_of("act")
    made = RobotClient(
        RobotClientConfig(
            policy_type="act",
            pretrained_name_or_path=str(act.folder),
            robot=StillArmConfig(id="still", height=LARGER * height, width=LARGER * width),
            actions_per_chunk=ACTIONS,
            task=TASK,
            server_address=f"127.0.0.1:{port}",
        )
    )
    yield made
    made.stop()


def test_lerobot_s_client_drives_its_robot(client: RobotClient):
    assert client.start()
    threads = [
        threading.Thread(target=client.receive_actions, daemon=True),
        threading.Thread(target=client.control_loop, args=(TASK,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    assert client.robot.is_driven.wait(DEADLINE_S)
    client.shutdown_event.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert np.isfinite([list(command.values()) for command in client.robot.commands]).all()


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False


class _Call:
    """What LeRobot's server asks of the call that it answers."""

    @staticmethod
    def peer() -> str:
        return "test"


def test_each_answer_has_the_values_of_lerobot_s_own_server(client: RobotClient, act: Built):
    theirs = PolicyServer(PolicyServerConfig(fps=30, inference_latency=0.0, obs_queue_timeout=1.0))
    theirs.Ready(None, _Call)
    wish = RemotePolicyConfig(
        "act", str(act.folder), map_robot_keys_to_lerobot_features(client.robot), ACTIONS
    )
    theirs.SendPolicyInstructions(type("Setup", (), {"data": pickle.dumps(wish)}), _Call)
    assert client.start()
    for timestep in range(OBSERVATIONS):
        raw = {**client.robot.get_observation(), "task": TASK}
        observation = TimedObservation(
            timestamp=1e9 + timestep, timestep=timestep, observation=raw, must_go=True
        )
        assert client.send_observation(observation)
        ours = pickle.loads(client.stub.GetActions(services_pb2.Empty()).data)
        assert theirs._enqueue_observation(observation)
        expected = pickle.loads(theirs.GetActions(None, _Call).data)
        assert len(ours) == len(expected) == ACTIONS
        for one, other in zip(ours, expected, strict=True):
            assert (one.timestep, one.timestamp) == (other.timestep, other.timestamp)
            assert one.action.dtype == other.action.dtype
            np.testing.assert_array_equal(one.action.numpy(), other.action.numpy())
