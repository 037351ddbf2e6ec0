# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's policies served by a real policy server to two real robot nodes, beside LeRobot itself."""

from __future__ import annotations

import functools
import os
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from sensor_msgs.msg import Image, JointState
from std_msgs.msg import Float64MultiArray

from remote_inference.base.policy import PolicyObservation
from remote_inference.server.captures.captures import Capture, load_capture
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.requests.request_decoder import RequestDecoder
from support.device import DEVICE
from support.lerobot.direct import Direct
from support.lerobot.tiny_policies import BUILDERS, CAMERA, JOINTS, VARIANTS, Built, size_of
from support.nodes.rig import Rig, write_contract

START_S = 600.0  # importing LeRobot takes seconds, minutes on a busy machine
FPS = {"/left": 20.0, "/right": 10.0}  # equal latencies are different delays in control ticks
BATCHED = ("act", "diffusion", "diffusion_history", "pi0", "pi05", "smolvla")
CONTINUED = ("pi0", "pi05", "smolvla")
ALONE = 1e-5
# A batch is summed in another order: up to 3e-5 of 4 for diffusion. On a GPU, whose convolutions are in TF32,
# its five steps of denoising made 8e-3 of that.
IN_A_BATCH = 1e-4 if DEVICE == "cpu" else 2e-2
ACTIONS = {
    "kind": "position",
    "names": list(JOINTS),
    "limits": {name: {"min": -9.0, "max": 9.0, "max_velocity": 20.0} for name in JOINTS},
}


class Arm(Rig):
    """An arm whose joints are where they were sent, and whose camera never sees the same twice."""

    def __init__(self, folder: Path, namespace: str, size: tuple[int, int]) -> None:
        self._random = np.random.default_rng(len(namespace))
        self._angles = self._random.uniform(-0.5, 0.5, len(JOINTS)).tolist()
        self._size = size
        folder.mkdir()
        super().__init__(folder, namespace)

    def _on_command(self, message: Float64MultiArray, info: dict[str, int | None]) -> None:
        self._angles = list(message.data)
        super()._on_command(message, info)

    def _publish_sensors(self) -> None:
        stamp = self.node.get_clock().now().to_msg()
        joints = JointState(name=list(JOINTS), position=self._angles)
        joints.header.stamp = stamp
        self._joints.publish(joints)
        height, width = self._size
        pixels = array("B", self._random.integers(0, 255, height * width * 3, np.uint8).tobytes())
        image = Image(height=height, width=width, encoding="rgb8", step=3 * width, data=pixels)
        image.header.stamp = stamp
        self._camera.publish(image)


@pytest.fixture
def arms(kind: str, tmp_path: Path) -> Iterator[list[Arm]]:
    arms = [Arm(tmp_path / namespace[1:], namespace, size_of(kind)) for namespace in FPS]
    yield arms
    for arm in reversed(arms):
        arm.close()


def write_manifest(folder: Path, checkpoint: Built) -> Path:
    model = checkpoint.source().model_dump(mode="json")
    if checkpoint.kind in {"pi0", "pi05"}:
        model["backend"] = "support.lerobot.small_pi:load"
    content = {
        "model": model,
        "max_sessions": 2,
        "default_task": "pick up",
        "scheduler": "micro_batch" if checkpoint.kind != "xvla" else "round_robin",
        "batch_window_ms": 1000.0,
        "capture_dir": "captures",
        "capture_max": 1000,
    }
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def start_robot(arm: Arm) -> None:
    names = list(JOINTS)
    state = {
        "topic": "joint_states",
        "type": "sensor_msgs/msg/JointState",
        "field": "position",
        "names": names,
    }
    contract = write_contract(
        arm.folder,
        fps=FPS[arm.namespace],
        state=[state],
        rename={"images.camera": CAMERA},
        actions=ACTIONS,
        commands=[{"topic": "commands", "type": "std_msgs/msg/Float64MultiArray", "names": names}],
    )
    arm.start_robot(contract)


_load = functools.cache(load_capture)


def read_batches(folder: Path) -> list[list[Capture]]:
    """Return what was captured, batch by batch."""
    captures = [_load(path) for path in sorted(folder.glob("*.capture"))]
    batches = []
    while captures and len(captures) >= captures[0].batch_size:
        batches.append(captures[: captures[0].batch_size])
        captures = captures[captures[0].batch_size :]
    return batches


@pytest.mark.parametrize("kind", [*BUILDERS, *VARIANTS])
def test_two_robots_are_driven_as_lerobot_itself_would(
    kind: str, arms: list[Arm], built: dict[str, Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))  # for support.lerobot.small_pi
    path = write_manifest(tmp_path, built[kind])
    arms[0].start_server(path)
    for arm in arms:
        start_robot(arm)
    manifest = load_manifest(path)
    policy = built[kind].load()
    decoder = RequestDecoder(manifest, policy.spec)

    def see(capture: Capture) -> PolicyObservation:
        return decoder.observation(decoder.request(capture.data)[1], capture.offer)

    def is_telling(batch: Sequence[Capture]) -> bool:
        """Return whether a batch is of both robots; with different delays if the policy continues chunks."""
        requests = [decoder.request(capture.data)[1] for capture in batch]
        delays = [min(request.inference_delay_steps, request.prefix_length) for request in requests]
        differ = kind not in CONTINUED or (min(delays) > 0 and len(set(delays)) > 1)
        return len({capture.offer.fps for capture in batch}) == 2 and differ

    def has_seen_enough() -> bool:
        batches = read_batches(tmp_path / "captures")
        robots = Counter(capture.offer.fps for batch in batches for capture in batch)
        telling = len(list(filter(is_telling, batches))) >= 2 or kind not in BATCHED
        return telling and min(robots[fps] for fps in FPS.values()) > 4

    arms[0].wait_for(has_seen_enough, "captured requests", START_S)
    for arm in arms:
        commands = np.array([values for _, values in arm.commands])
        assert np.ptp(commands, axis=0).max() > 1e-4, "the arm is held still, not driven"
    for arm in reversed(arms):
        arm.group.stop()
    direct = Direct(built[kind])
    for batch in read_batches(tmp_path / "captures"):
        for capture in batch:
            atol = ALONE if len(batch) == 1 else IN_A_BATCH
            np.testing.assert_allclose(capture.robot, direct.answer(see(capture)), atol=atol)
