# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What happened to one robot: actions, joints, states, requests, chunks and their latency.

All times are seconds since the start of the bag, by the recorder's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remote_inference.bags.timeline.robot_bag import FloatArray, Joint
from remote_inference.robot.command import CommandSource

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Executed:
    """What the control ticks commanded, one row per tick."""

    t_s: FloatArray
    tick: IntArray
    # [n, action_dim] as published, or as it would have been; NaN in a row without a command
    action: FloatArray
    source: IntArray  # values of CommandSource
    request: tuple[tuple[str, int], ...]  # session_id and seq_id behind the action
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
    pause_cause: tuple[str, ...]  # empty while it is not paused
    counters: dict[str, int]  # chunks_merged, chunks_dropped, ...: totals at the end of the bag
    guard_rises: dict[str, FloatArray]  # by rule of the guard, times of the messages with a higher count


@dataclass(frozen=True)
class Requests:
    """Observations published."""

    t_s: FloatArray
    answered: NDArray[np.bool_]  # a chunk came


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
class Clamp:
    """What was clamped of one joint. largest: distance of a chunk's action from the limit [unit]."""

    joint: str
    unit: str
    ticks: int
    largest: float


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
    executed: Executed
    joints: tuple[Joint, ...]  # [action_dim]
    states: States
    requests: Requests
    chunks: int  # received, duplicates included
    cycles: Cycles
    frames: tuple[Frame, ...]
    clock_jumps: tuple[ClockJump, ...] = ()
    watchdog_stops: tuple[WatchdogStop, ...] = ()
    clamps: tuple[Clamp, ...] = ()


def intervals(t_s: FloatArray, inside: NDArray[np.bool_], end_s: float) -> list[tuple[float, float]]:
    """Return (begin, duration) of each run of samples that are inside; a sample holds until the next one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], inside, [False]]).astype(int)))
    until = np.append(t_s, max(end_s, t_s[-1] if len(t_s) else 0.0))
    return [(float(t_s[a]), float(until[b] - t_s[a])) for a, b in edges.reshape(-1, 2)]


# The episodes of a run and their outcomes, as far as they are known.
# A bag does not say whether an episode reached its goal: the caller may say so. A bag does say whether the
# robot was without actions when the episode ended.
WITHOUT_ACTIONS = ("STALLED", "RECONNECTING", "DEAD")


@dataclass(frozen=True)
class Episode:
    """One attempt, from its first control tick to the next episode's or the end of the bag."""

    episode_id: int
    begin_s: float
    end_s: float
    success: bool | None  # None: unknown
    last_state: str  # of the client; empty when the bag does not say

    @property
    def trouble(self) -> str:
        """The failure in a word or two; empty when no failure is known."""
        if self.success is None and self.last_state in WITHOUT_ACTIONS:
            return f"ended {self.last_state}"
        return "failed" if self.success is False else ""


def find_episodes(timeline: Timeline, outcomes: Mapping[int, bool] | None = None) -> tuple[Episode, ...]:
    """Return a run's episodes in order; `outcomes` says by episode_id which ones succeeded."""
    executed, states = timeline.executed, timeline.states
    if not len(executed.t_s):
        return ()
    begins = np.flatnonzero(np.diff(executed.episode_id, prepend=executed.episode_id[0] - 1))
    ends_s = [*executed.t_s[begins[1:]], max(timeline.duration_s, executed.t_s[-1])]
    episodes = []
    for row, end_s in zip(begins, ends_s, strict=True):
        known = int(np.searchsorted(states.t_s, end_s)) - 1
        episode_id = int(executed.episode_id[row])
        episodes.append(
            Episode(
                episode_id,
                float(executed.t_s[row]),
                float(end_s),
                (outcomes or {}).get(episode_id),
                states.state[known] if known >= 0 else "",
            )
        )
    return tuple(episodes)
