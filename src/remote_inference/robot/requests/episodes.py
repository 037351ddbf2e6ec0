# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The episodes of a robot, as its server hears of them, and what its requests have come to."""

from __future__ import annotations

from dataclasses import dataclass

from remote_inference.robot.requests.handshake import Handshake
from remote_inference.robot.safety import effects
from remote_inference.robot.safety.effects import Effect


class Episodes:
    """Counts the episodes. The robot goes on whether the server answers a reset or not."""

    def __init__(self, task: str, reset_timeout_ns: int) -> None:
        """task: of the first episode. reset_timeout_ns: deadline of the server's answer to a reset."""
        self.id = 0
        self.task = task
        self.announced = False  # true once the server has answered a request of this episode
        self._reset_timeout_ns = reset_timeout_ns
        self._reset_deadline_ns: int | None = None

    def begin(self, task: str, handshake: Handshake, now_ns: int) -> list[Effect]:
        """Begin the next episode and announce it to the server in use. An empty task keeps the old."""
        ended = self.end_reset("overtaken by the next reset")
        self.id += 1
        self.announced = False
        self.task = task or self.task
        session = handshake.session
        if session is None:
            return [*ended, effects.ResetEnded(self.id, False, "no server is in use")]
        self._reset_deadline_ns = now_ns + self._reset_timeout_ns
        session_id, token = session.session_id, session.session_token
        return [*ended, effects.ResetSession(handshake.server, session_id, self.id, token)]

    def instruct(self, task: str) -> bool:
        """Set the task of the next request, in the same episode; return whether it has changed."""
        changed, self.task = task != self.task, task
        return changed

    def take_reset_reply(
        self, episode_id: int, acknowledged: bool, message: str, server: str
    ) -> list[Effect]:
        """Handle the server's answer to ResetSession."""
        outcome = f"acknowledged by {server}" if acknowledged else f"refused by {server}: {message}"
        return self.end_reset(outcome, acknowledged=acknowledged) if episode_id == self.id else []

    def check_deadline(self, now_ns: int) -> list[Effect]:
        """End a reset that the server has not answered in time."""
        if self._reset_deadline_ns is None or now_ns < self._reset_deadline_ns:
            return []
        return self.end_reset(f"no acknowledgement within {self._reset_timeout_ns / 1e9:g} s")

    def end_reset(self, outcome: str, *, acknowledged: bool = False) -> list[Effect]:
        """End the reset under way, if there is one."""
        if self._reset_deadline_ns is None:
            return []
        self._reset_deadline_ns = None
        return [effects.ResetEnded(self.id, acknowledged, outcome)]


@dataclass
class Counters:
    """Counts since start-up, published in ClientState."""

    requests: int = 0
    chunks_merged: int = 0
    chunks_dropped: int = 0
    chunks_rejected: int = 0
    request_timeouts: int = 0
    reconnects: int = 0
