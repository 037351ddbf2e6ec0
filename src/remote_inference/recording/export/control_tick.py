# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One control tick of a recorded robot: what it saw, what it was commanded, and where that came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from remote_inference.core.robot.command import CommandSource
from remote_inference.recording.timeline.joint_records import FloatArray


class Phase(IntEnum):
    """Who led the arm in a tick: what tells a person's corrections from what the policy did."""

    POLICY = 0
    PERSON = 1
    HOLD = 2  # nobody: a fallback, a pause, the way home, or a person who was silent


_LED: Mapping[int, Phase] = {CommandSource.CHUNK: Phase.POLICY, CommandSource.HUMAN: Phase.PERSON}


@dataclass(frozen=True)
class ControlTick:
    """One row of an export.

    t_ns: of the tick, by the recorder's clock. state: `[state_dim]` newest at the tick, None before every
    source was heard. action: `[action_dim]` as published, None where nothing was. images: the newest message
    of each camera, by the robot's name for the camera. queue_wait_ms, inference_ms: of the chunk behind the
    action, NaN without one, as is age_s.
    """

    t_ns: int
    tick: int
    episode_id: int
    task: str
    client_state: str  # name of State, empty before the first message
    paused: bool | None  # None: the node's state is not known
    source: int  # value of CommandSource, or one that a later release added
    action: FloatArray | None
    state: FloatArray | None
    images: Mapping[str, Any]
    interventions: tuple[str, ...]
    session_id: str
    seq_id: int
    step_index: int
    row_fraction: float  # of the row's time that has passed; 0.0 when it begins
    age_s: float
    queue_wait_ms: float
    inference_ms: float
    policy_version: str
    shadow: bool

    @property
    def phase(self) -> Phase:
        """Who led the arm."""
        return _LED.get(self.source, Phase.HOLD)
