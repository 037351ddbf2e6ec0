# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The episodes of a run and their outcomes, as far as they are known.

A bag does not say whether an episode reached its goal: the caller may say so. A bag does say whether the
robot was without actions when the episode ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from remote_inference.recording.timeline.timeline import Timeline

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
