# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What happened to one robot, read from a bag: actions, joints, states, requests, chunks and their latency.

All times are seconds since the start of the bag, by the recorder's clock.
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from remote_inference.recording.bag import open_bag

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SOURCES = ("none", "chunk", "repeat_last", "zero", "homing", "hold")  # by ExecutedAction.source
STATES = ("CONNECTING", "STREAMING", "DEGRADED", "STALLED", "RECONNECTING", "DEAD")  # by ClientState.state
CHUNK_SOURCE = SOURCES.index("chunk")


@dataclass(frozen=True)
class Executed:
    """What the control ticks commanded, one row per tick."""

    t_s: FloatArray
    tick: IntArray
    action: FloatArray  # [n, action_dim] as published; a row of NaN where nothing was
    source: IntArray  # index into SOURCES
    request: tuple[tuple[str, int], ...]  # session_id and seq_id behind the action
    step_index: IntArray  # row of the source chunk
    age_s: FloatArray  # NaN without a source chunk
    episode_id: IntArray
    interventions: tuple[tuple[str, ...], ...]

    @property
    def commanded(self) -> NDArray[np.bool_]:
        """[n] whether the tick published an action."""
        return np.asarray(~np.isnan(self.action).all(axis=1), bool)

    def boundaries_s(self) -> FloatArray:
        """[k] times at which the first action of a chunk was executed, in order."""
        chunked = np.flatnonzero(self.source == CHUNK_SOURCE)
        begins = [j == 0 or self.request[i] != self.request[chunked[j - 1]] for j, i in enumerate(chunked)]
        return np.asarray(self.t_s[chunked[np.array(begins, bool)]], np.float64)


@dataclass(frozen=True)
class Joints:
    """Measured joints in the order of the action's names."""

    t_s: FloatArray
    position: FloatArray  # [n, action_dim]; NaN for a joint that the message does not name


@dataclass(frozen=True)
class States:
    """Changes of the client's state or pause, the first message included."""

    t_s: FloatArray
    state: tuple[str, ...]  # one of STATES
    cause: tuple[str, ...]
    paused: NDArray[np.bool_]
    counters: dict[str, int]  # chunks_merged, chunks_dropped, ...: totals at the end of the bag


@dataclass(frozen=True)
class Requests:
    """Observations published."""

    t_s: FloatArray
    request: tuple[tuple[str, int], ...]  # session_id and seq_id
    delay_steps: IntArray
    answered: NDArray[np.bool_]  # a chunk came


@dataclass(frozen=True)
class Chunks:
    """Chunks received, duplicates included."""

    t_s: FloatArray
    request: tuple[tuple[str, int], ...]  # session_id and seq_id of the request answered
    status: IntArray
    queue_wait_ms: FloatArray
    inference_ms: FloatArray


@dataclass(frozen=True)
class Cycles:
    """One row per answered request; latency runs from reception of the observation to its first chunk's."""

    t_s: FloatArray  # of the observation
    latency_ms: FloatArray
    queue_wait_ms: FloatArray
    inference_ms: FloatArray

    @property
    def network_ms(self) -> FloatArray:
        """[n] what is left of the latency without queue and inference: both ways and the nodes' overhead."""
        return np.maximum(self.latency_ms - self.queue_wait_ms - self.inference_ms, 0.0)


@dataclass(frozen=True)
class Frame:
    """One JPEG image of a recorded camera topic or of an observation; depth and raw images are not kept."""

    t_s: float
    episode_id: int
    camera: int  # position among the observation's images
    name: str  # frame_id of the image, may be empty
    jpeg: bytes


@dataclass(frozen=True)
class Timeline:
    """One robot's share of a bag."""

    namespace: str
    duration_s: float
    joint_names: tuple[str, ...]  # [action_dim]
    executed: Executed
    joints: Joints
    states: States
    requests: Requests
    chunks: Chunks
    cycles: Cycles
    frames: tuple[Frame, ...]


def load_timeline(bag_path: Path, robot_namespace: str) -> Timeline:
    """Read the topics of one robot, whose namespace is absolute as in "/arm", from a bag.

    Raises BagError when the bag cannot be read or one of the topics is not in it.
    """
    ns = "/" + robot_namespace.strip("/") if robot_namespace.strip("/") else ""
    own = {kind: f"{ns}/remote_inference/{kind}" for kind in ("executed", "state", "observation", "chunk")}
    joints = f"{ns}/joint_states"
    messages: dict[str, list[tuple[float, Any]]] = defaultdict(list)
    with open_bag(bag_path) as bag:
        videos = [
            topic.name
            for topic in bag.topics.values()
            if topic.msgtype == "sensor_msgs/msg/CompressedImage" and topic.name.startswith(f"{ns}/")
        ]
        for topic, stamp_ns, message in bag.messages([*own.values(), joints, *videos]):
            messages[topic].append(((stamp_ns - bag.start_ns) * 1e-9, message))
        duration_s = (bag.end_ns - bag.start_ns) * 1e-9
    observations = messages[own["observation"]]
    executed, names = _executed(messages[own["executed"]])
    chunks = _chunks(messages[own["chunk"]])
    requests, cycles = _match(observations, chunks)
    return Timeline(
        namespace=ns or "/",
        duration_s=duration_s,
        joint_names=names,
        executed=executed,
        joints=_joints(messages[joints], names),
        states=_states(messages[own["state"]]),
        requests=requests,
        chunks=chunks,
        cycles=cycles,
        frames=_frames(observations, [row for topic in videos for row in messages[topic]], executed),
    )


def _floats(values: Any) -> FloatArray:
    return np.array(list(values), np.float64)


def _ints(values: Any) -> IntArray:
    return np.array(list(values), np.int64)


def _keys(rows: Sequence[tuple[float, Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((m.session_id, int(m.seq_id)) for _, m in rows)


def _executed(rows: list[tuple[float, Any]]) -> tuple[Executed, tuple[str, ...]]:
    names: tuple[str, ...] = next((tuple(m.joint_names) for _, m in rows if len(m.joint_names)), ())
    action = np.full((len(rows), len(names)), np.nan)
    for i, (_, m) in enumerate(rows):
        if len(m.action):
            action[i] = m.action
    executed = Executed(
        t_s=_floats(t for t, _ in rows),
        tick=_ints(m.tick for _, m in rows),
        action=action,
        source=_ints(m.source for _, m in rows),
        request=_keys(rows),
        step_index=_ints(m.step_index for _, m in rows),
        age_s=_floats(m.action_age_s for _, m in rows),
        episode_id=_ints(m.episode_id for _, m in rows),
        interventions=tuple(tuple(m.interventions) for _, m in rows),
    )
    return executed, names


def _joints(rows: list[tuple[float, Any]], names: tuple[str, ...]) -> Joints:
    position = np.full((len(rows), len(names)), np.nan)
    for i, (_, m) in enumerate(rows):
        measured = dict(zip(m.name, m.position, strict=False))  # position may be empty
        position[i] = [measured.get(name, np.nan) for name in names]
    return Joints(_floats(t for t, _ in rows), position)


def _states(rows: list[tuple[float, Any]]) -> States:
    seen = [(m.state, m.paused) for _, m in rows]
    changes = [row for i, row in enumerate(rows) if i == 0 or seen[i] != seen[i - 1]]
    names = (
        "requests",
        "chunks_merged",
        "chunks_dropped",
        "chunks_rejected",
        "request_timeouts",
        "reconnects",
    )
    counters = {}
    for name in names:
        counts = _ints(getattr(m, name) for _, m in rows)
        ends_of_lives = np.append(np.diff(counts) < 0, True)[
            : len(counts)
        ]  # a restarted node counts from zero
        counters[name] = int(counts[ends_of_lives].sum())
    return States(
        t_s=_floats(t for t, _ in changes),
        state=tuple(STATES[m.state] for _, m in changes),
        cause=tuple(m.cause for _, m in changes),
        paused=np.array([m.paused for _, m in changes], bool),
        counters=counters,
    )


def _chunks(rows: list[tuple[float, Any]]) -> Chunks:
    return Chunks(
        t_s=_floats(t for t, _ in rows),
        request=_keys(rows),
        status=_ints(m.status for _, m in rows),
        queue_wait_ms=_floats(m.queue_wait_ms for _, m in rows),
        inference_ms=_floats(m.inference_ms for _, m in rows),
    )


def _match(observations: list[tuple[float, Any]], chunks: Chunks) -> tuple[Requests, Cycles]:
    keys = _keys(observations)
    t_s = _floats(t for t, _ in observations)
    answer: dict[tuple[str, int], int] = {}
    for i, key in enumerate(chunks.request):
        answer.setdefault(key, i)
    answered = np.array([key in answer for key in keys], bool)
    by = _ints(answer[key] for key in keys if key in answer)
    delay_steps = _ints(m.inference_delay_steps for _, m in observations)
    cycles = Cycles(
        t_s=t_s[answered],
        latency_ms=(chunks.t_s[by] - t_s[answered]) * 1e3,
        queue_wait_ms=chunks.queue_wait_ms[by],
        inference_ms=chunks.inference_ms[by],
    )
    return Requests(t_s, keys, delay_steps, answered), cycles


def _frames(
    observations: list[tuple[float, Any]], videos: list[tuple[float, Any]], executed: Executed
) -> tuple[Frame, ...]:
    """Return the observations' images; a recorded topic of the same camera, by frame_id, is denser."""
    frames: list[Frame] = []
    for t_s, observation in observations:
        for camera, image in enumerate(observation.images):
            if _is_jpeg(jpeg := image.data.tobytes()):
                name = image.header.frame_id
                frames.append(Frame(t_s, int(observation.episode_id), camera, name, jpeg))
    cameras = {frame.name: frame.camera for frame in frames if frame.name}
    for t_s, image in videos:
        name = image.header.frame_id
        tick = int(np.searchsorted(executed.t_s, t_s, side="right")) - 1
        if name in cameras and tick >= 0 and _is_jpeg(jpeg := image.data.tobytes()):
            frames.append(Frame(t_s, int(executed.episode_id[tick]), cameras[name], name, jpeg))
    return tuple(sorted(frames, key=lambda frame: frame.t_s))


def _is_jpeg(data: bytes) -> bool:
    try:
        with Image.open(io.BytesIO(data), formats=["JPEG"]):
            return True
    except (UnidentifiedImageError, OSError):
        return False
