# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether chunks come when they are wanted, and whether the arm has actions to execute and follows them."""

from __future__ import annotations

from remote_inference.core.robot.state_machine import Event

Finding = tuple[Event, str]  # the event and its cause


class FlowWatch:
    """Finds what makes the robot DEGRADED or STALLED. For the engine's thread."""

    def __init__(self, degraded_after_s: float) -> None:
        self._degraded_after_s = degraded_after_s
        self._wanted_since_ns: int | None = None
        self._fed = False  # true once a chunk has been merged in this plan
        self._told_astray: tuple[str, ...] = ()

    def note_merge(self) -> None:
        """Note a merged chunk."""
        self._fed = True
        self._wanted_since_ns = None

    def want_nothing(self) -> None:
        """Note that the robot asks for no chunk now."""
        self._wanted_since_ns = None

    def begin_plan(self) -> None:
        """Note that the queue was emptied on purpose."""
        self._fed = False
        self._wanted_since_ns = None

    def look(
        self, now_ns: int, *, wants_chunk: bool, starved: str, queue_empty: bool, may_be_empty: bool
    ) -> list[Finding]:
        """Return what is wrong with the flow of actions.

        starved: why the last tick had nothing to execute, "" when it had. may_be_empty: the queue runs empty
        before each request, and only a chunk that is late is news.
        """
        if not wants_chunk:
            self._wanted_since_ns = None
        elif self._wanted_since_ns is None:
            self._wanted_since_ns = now_ns
        late = self._wanted_since_ns is not None and now_ns - self._wanted_since_ns >= int(
            self._degraded_after_s * 1e9
        )
        findings: list[Finding] = []
        if late:
            findings.append((Event.CHUNKS_LATE, f"no chunk for {self._degraded_after_s:g} s"))
        expected = not self._fed or may_be_empty
        if starved and queue_empty and (late or not expected):
            findings.append((Event.STARVED, starved))
        return findings

    def look_at_joints(self, astray: tuple[str, ...]) -> tuple[str, bool]:
        """Return what to say of joints that do not follow, "" for none, and whether these are news."""
        news = astray != self._told_astray
        self._told_astray = astray
        if not astray:
            return "", False
        return f"{', '.join(astray)}: farther from the last command than max_following_error", news
