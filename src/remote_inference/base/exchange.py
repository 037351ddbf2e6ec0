# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plain data that crosses the network: request, chunk, session offer and session reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np

from remote_inference.base.policy import Float32Array

# Oldest and newest wire schema this code understands. Only a changed meaning needs a new version.
SCHEMA_VERSION_MIN = 1
SCHEMA_VERSION_MAX = 1


def find_schema_problem(version: int) -> str:
    """Return why a message of this schema version cannot be understood; empty when it can."""
    if SCHEMA_VERSION_MIN <= version <= SCHEMA_VERSION_MAX:
        return ""
    return f"found schema_version {version}, expected {SCHEMA_VERSION_MIN} to {SCHEMA_VERSION_MAX}"


def in_namespace(namespace: str, name: str) -> str:
    """Return the absolute name of a topic or node: `/robot` and `a/b` give `/robot/a/b`; `/c` stays."""
    return name if name.startswith("/") else f"{namespace.rstrip('/')}/{name}"


LOADING = "loading"  # ServerStatus.lifecycle_state while a policy is loaded and warmed up


class ChunkStatus(IntEnum):
    """Outcome of one request; the values are those of ActionChunk.msg."""

    OK = 0
    ERROR = 1
    DRAINING = 2


@dataclass(frozen=True)
class Request:
    """One request of a robot, without the sensor data it carries.

    Prefixes are float32 `[steps, action_dim]` from the observation's capture on, or None when the queue is
    drained. `client_mono_ns` is the robot's monotonic clock; the server echoes it unread.
    """

    session_id: str
    session_epoch: int
    seq_id: int
    episode_id: int
    episode_start: bool
    client_mono_ns: int
    task: str
    inference_delay_steps: int
    prefix_model: Float32Array | None = None
    prefix_robot: Float32Array | None = None
    capture_skew_s: float = 0.0  # between the oldest and the newest content of its observation
    queue_s: float = -1.0  # how long the robot's queue still lasts; negative: nobody says it


def no_rows() -> Float32Array:
    """Return the actions of an empty chunk or prefix."""
    return np.empty((0, 0), np.float32)


@dataclass(frozen=True)
class Chunk:
    """The answer to one request. `model` and `robot` are float32 `[horizon, action_dim]`, empty on ERROR."""

    session_id: str
    session_epoch: int
    seq_id: int
    episode_id: int
    client_mono_ns: int
    status: ChunkStatus = ChunkStatus.OK
    message: str = ""
    model: Float32Array = field(default_factory=no_rows)
    robot: Float32Array = field(default_factory=no_rows)
    queue_wait_ms: float = 0.0
    inference_ms: float = 0.0
    superseded_seqs: int = 0
    server_load: float = 0.0
    policy_version: str = ""


class SessionKind(Enum):
    """Who asks for chunks; the values are those of OpenSession.srv."""

    ROBOT = "robot"
    EVALUATION = "evaluation"  # a simulator or a recording: waits while a robot does, and makes room for one


@dataclass(frozen=True)
class ImageFeature:
    """One camera of a robot: the feature's name after rename, the encoding and size of its images."""

    name: str
    encoding: str  # "jpeg", "png" or "raw"
    height: int = 0  # [px], 0 when not known yet
    width: int = 0  # [px], 0 when not known yet


@dataclass(frozen=True)
class SessionOffer:
    """A robot's description of itself when it asks for a session."""

    action_names: Sequence[str]
    state_names: Sequence[str]
    images: Sequence[ImageFeature]
    fps: float
    task: str
    wants_rtc: bool
    robot_type: str = ""
    robot_namespace: str = ""
    client: str = ""
    client_instance_id: str = ""  # random, of the robot's process
    session_epoch: int = 0
    schema_version: int = SCHEMA_VERSION_MAX
    max_observation_steps: int = 1  # control ticks that one observation can show
    tags: Mapping[str, str] = field(default_factory=dict)  # its owner's, without effect
    state_units: Sequence[str] = ()  # of each state entry as it is sent; empty: not said
    action_units: Sequence[str] = ()  # of each action as it is taken; empty: not said
    action_kinds: Sequence[str] = ()  # of each action, as `Contract.policy_action_kinds`; empty: not said
    kind: SessionKind = SessionKind.ROBOT
    accepts_weight_updates: bool = True  # the policy may change while the session is open
    tasks_in_requests: bool = False  # each request names its task, and `task` says nothing


@dataclass(frozen=True)
class StatusReply:
    """What a robot reads in a server's answer to GetStatus, before it makes its offer."""

    accepting: bool
    image_features: Sequence[str] = ()  # cameras that the policy needs; none while there is no policy
    response_s: float = 0.0  # measured, from a request to its chunk; 0 while there is no policy
    loading: bool = False  # its policy is being loaded and warmed up
    instance_id: str = ""  # of the server's process; journals of before have none


@dataclass(frozen=True)
class SessionReply:
    """A server's answer to a SessionOffer; a rejection sets only the first three fields and the load."""

    accepted: bool
    rejection: str = ""
    message: str = ""
    warnings: Sequence[str] = ()
    session_id: str = ""
    server_instance_id: str = ""
    schema_version: int = SCHEMA_VERSION_MAX
    action_names: Sequence[str] = ()
    chunk_size: int = 0
    observation_steps: int = 1  # control ticks that each observation must show
    trained_fps: float = 0.0
    rtc: bool = False
    continuation: str = ""  # of the policy: none, guidance or trained
    serving_mode: str = ""
    policy_name: str = ""
    policy_revision: str = ""
    policy_fingerprint: str = ""
    load: float = 0.0
    active_sessions: int = 0
    max_sessions: int = 0
    session_token: str = field(default="", repr=False)  # the session's secret: never logged or published
