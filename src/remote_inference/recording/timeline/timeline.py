# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What happened to one robot: actions, joints, states, requests, chunks and their latency.

All times are seconds since the start of the bag, by the recorder's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.timeline.clamps import Clamp
from remote_inference.recording.timeline.images import Frame
from remote_inference.recording.timeline.joint_records import FloatArray
from remote_inference.recording.timeline.joints import Joint

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Executed:
    """What the control ticks commanded, one row per tick."""

    t_s: FloatArray
    tick: IntArray
    action: (
        FloatArray  # [n, action_dim] as published, or as it would have been; NaN in a row without a command
    )
    source: IntArray  # values of CommandSource
    request: tuple[tuple[str, int], ...]  # session_id and seq_id behind the action
    step_index: IntArray  # row of the source chunk
    age_s: FloatArray  # NaN without a source chunk
    episode_id: IntArray
    interventions: tuple[tuple[str, ...], ...]
    shadow: NDArray[np.bool_]  # shadow mode: nothing was published

    @property
    def commanded(self) -> NDArray[np.bool_]:
        """[n] whether the tick published an action, or would have in shadow mode."""
        return np.asarray(~np.isnan(self.action).all(axis=1), bool)

    def boundaries_s(self) -> FloatArray:
        """[k] times at which the first action of a chunk was executed, in order."""
        chunked = np.flatnonzero(self.source == CommandSource.CHUNK)
        begins = [j == 0 or self.request[i] != self.request[chunked[j - 1]] for j, i in enumerate(chunked)]
        return np.asarray(self.t_s[chunked[np.array(begins, bool)]], np.float64)


@dataclass(frozen=True)
class States:
    """Changes of the client's state, pause or its cause, the first message included."""

    t_s: FloatArray
    state: tuple[str, ...]  # names of State
    cause: tuple[str, ...]
    paused: NDArray[np.bool_]
    pause_cause: tuple[str, ...]  # empty while it is not paused, and in bags of older releases
    counters: dict[str, int]  # chunks_merged, chunks_dropped, ...: totals at the end of the bag
    guard_rises: dict[str, FloatArray]  # by rule of the guard, times of the messages with a higher count


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
        """[n] latency without queue and inference: both ways of the network and the nodes' overhead."""
        return np.maximum(self.latency_ms - self.queue_wait_ms - self.inference_ms, 0.0)


@dataclass(frozen=True)
class ClockJump:
    """Somebody set the recorder's wall clock. The bag's times go on steadily, stamps in messages do not."""

    t_s: float
    jump_s: float


@dataclass(frozen=True)
class WatchdogStop:
    """The command watchdog stopped the controllers."""

    t_s: float
    cause: str


@dataclass(frozen=True)
class Timeline:
    """One robot's share of a bag."""

    namespace: str
    duration_s: float
    executed: Executed
    joints: tuple[Joint, ...]  # [action_dim]
    states: States
    requests: Requests
    chunks: Chunks
    cycles: Cycles
    frames: tuple[Frame, ...]
    clock_jumps: tuple[ClockJump, ...] = ()
    watchdog_stops: tuple[WatchdogStop, ...] = ()
    clamps: tuple[Clamp, ...] = ()

    @property
    def joint_names(self) -> tuple[str, ...]:
        """[action_dim] names of the actions."""
        return tuple(joint.name for joint in self.joints)


def intervals(t_s: FloatArray, inside: NDArray[np.bool_], end_s: float) -> list[tuple[float, float]]:
    """Return (begin, duration) of each run of samples that are inside; a sample holds until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    until = np.append(t_s, max(end_s, t_s[-1] if len(t_s) else 0.0))
    return [(float(t_s[a]), float(until[b] - t_s[a])) for a, b in edges.reshape(-1, 2)]
