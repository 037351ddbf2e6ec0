# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A two-joint robot, a policy that fits it, and the small objects that the core's tests are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from remote_inference.base import admission
from remote_inference.base.admission import ServerTerms
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk, Request, SessionOffer
from remote_inference.base.policy import (
    Continuation,
    Float32Array,
    PolicyError,
    PolicyObservation,
    PolicySpec,
)
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.queue.plan import ChunkSource

JOINTS = ("shoulder", "elbow")
FLOAT64_MULTI_ARRAY = "std_msgs/msg/Float64MultiArray"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
CAMERA = "observation.images.front"
TOPICS = ("joint_states", "front/image_raw")
FPS = 20.0
PERIOD_NS = 50_000_000
LIMIT = 1.0  # rad, both ways, both joints
MAX_STEP = 0.1  # rad per control tick
CHUNK_SIZE = 20  # one second


def ns(seconds: float) -> int:
    return round(seconds * 1e9)


def contract_document(kind: str = "position", fps: float = FPS, ticks_per_row: int = 1) -> dict[str, Any]:
    """Return a valid contract as YAML would give it; tests break one key of it.

    fps: of the policy's rows. ticks_per_row: of control.
    """
    limit = {"min": -LIMIT, "max": LIMIT, "max_velocity": MAX_STEP * fps}
    return {
        "robot_type": "two_joints",
        "fps": fps * ticks_per_row,
        **({"policy_fps": fps} if ticks_per_row > 1 else {}),
        "task": "wave",
        "state": [
            {
                "topic": "joint_states",
                "type": "sensor_msgs/msg/JointState",
                "field": "position",
                "names": list(JOINTS),
            }
        ],
        "images": {"front": {"topic": "front/image_raw", "type": "sensor_msgs/msg/Image"}},
        "rename": {"images.front": CAMERA},
        "actions": {"kind": kind, "names": list(JOINTS), "limits": {name: dict(limit) for name in JOINTS}},
        "commands": [{"topic": "commands", "type": FLOAT64_MULTI_ARRAY, "names": list(JOINTS)}],
    }


def make_contract(
    kind: str = "position", fps: float = FPS, ticks_per_row: int = 1, command: str = FLOAT64_MULTI_ARRAY
) -> Contract:
    """Return the contract of that document, whose controller takes messages of a type."""
    document = contract_document(kind, fps, ticks_per_row)
    document["commands"][0]["type"] = command
    return parse_document(document, Contract, "test.contract.yaml")


def make_config(**changes: Any) -> RobotConfig:
    return RobotConfig(**{"autostart": True, "servers": ("/server_a",), **changes})


def make_spec(**changes: Any) -> PolicySpec:
    spec = PolicySpec(
        name="waver",
        revision="1",
        fingerprint="f1",
        state_names=JOINTS,
        action_names=JOINTS,
        image_shapes={CAMERA: (48, 64, 3)},
        chunk_size=CHUNK_SIZE,
        trained_fps=FPS,
        continuation=Continuation.GUIDANCE,
    )
    return replace(spec, **changes)


def make_terms(**changes: Any) -> ServerTerms:
    terms = ServerTerms(
        default_task="wave",
        pin_task=False,
        strict_fps=False,
        max_sessions=4,
        active_sessions=0,
        load=0.0,
        accepting=True,
    )
    return replace(terms, **changes)


def make_offer(**changes: Any) -> SessionOffer:
    offer = admission.make_offer(
        make_contract(),
        client="/robot_1/remote_inference",
        client_instance_id="process_1",
        robot_namespace="/robot_1",
    )
    return replace(offer, **{"session_epoch": 1, **changes})


def make_source(seq_id: int = 1, capture_ns: int = 0, episode_id: int = 0) -> ChunkSource:
    return ChunkSource(capture_ns, "session", seq_id, episode_id, "f1", "wave")


def make_rows(count: int, first: float = 0.0, step: float = 0.01) -> Float32Array:
    """Return `count` distinct rows `[count, 2]`."""
    column = first + step * np.arange(count, dtype=np.float32)
    return np.stack([column, -column], axis=1)


def make_request(**changes: Any) -> Request:
    request = Request(
        session_id="session",
        session_epoch=1,
        seq_id=1,
        episode_id=0,
        episode_start=False,
        client_mono_ns=123,
        task="wave",
        inference_delay_steps=0,
    )
    return replace(request, **changes)


def answer(request: Request, rows: Float32Array | None = None, **changes: Any) -> Chunk:
    """Return the chunk that answers a request."""
    rows = make_rows(CHUNK_SIZE) if rows is None else rows
    chunk = Chunk(
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        seq_id=request.seq_id,
        episode_id=request.episode_id,
        client_mono_ns=request.client_mono_ns,
        model=rows,
        robot=rows,
        policy_version="f1",
    )
    return replace(chunk, **changes)


class ShiftProcessors:
    """A linked pair: robot space is model space shifted by the state that `pre` saw."""

    def __init__(self) -> None:
        self.resets = 0
        self._state = np.zeros(0, np.float32)

    def pre(self, observation: PolicyObservation) -> Float32Array:
        if observation.state.shape != (len(JOINTS),):
            raise PolicyError(f"state has shape {observation.state.shape}, expected {(len(JOINTS),)}")
        self._state = observation.state
        return observation.state

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model + self._state

    def reset(self) -> None:
        self.resets += 1


class SteadyPolicy:
    """Answers each state with CHUNK_SIZE rows of it; `answer` may be replaced to misbehave."""

    def __init__(self, **spec_changes: Any) -> None:
        self.spec = make_spec(**spec_changes)
        self.resets = 0
        self.answer: Callable[[Sequence[Any]], Any] = self._repeat_states

    def make_processors(self) -> ShiftProcessors:
        return ShiftProcessors()

    def predict(self, batch: Sequence[Any]) -> Any:
        return self.answer(batch)

    def reset(self) -> None:
        self.resets += 1

    def close(self) -> None:
        """Hold no device."""

    @staticmethod
    def _repeat_states(batch: Sequence[Any]) -> list[Float32Array]:
        return [np.tile(state, (CHUNK_SIZE, 1)) for state in batch]
