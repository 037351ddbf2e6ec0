# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How an agent plays an episode of a HUD bridge: in turns, or in real time, as the bridge's clock goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from remote_inference.core.documents.problems import show_value
from remote_inference.core.policy import Float32Array
from remote_inference.gateways.hud.client import HudError, HudRobot

MAX_STEPS = 520  # of an episode, as HUD's own agent

Ask = Callable[
    [Mapping[str, Any], bool], Float32Array
]  # an observation, whether it is the first: rows `[H, A]`


@dataclass(frozen=True)
class Played:
    """An episode that has ended. steps: of the environment. requests: chunks that it took."""

    steps: int
    requests: int
    ended: bool  # by the environment, not by our limit


def play(robot: HudRobot, ask: Ask, max_steps: int) -> Played:
    """Play a claimed episode of so many steps at most; a bridge in real time is known by its frames' `meta`.

    Raises HudError for the bridge, and what `ask` raises.
    """
    shown = robot.observe()
    if "meta" in shown:
        return _play_in_real_time(robot, shown, ask, max_steps)
    return _take_turns(robot, shown, ask, max_steps)


def _take_turns(robot: HudRobot, shown: Mapping[str, Any], ask: Ask, max_steps: int) -> Played:
    """Play each chunk to its end, then ask for the next."""
    steps = requests = 0
    while not shown.get("terminated") and steps < max_steps:
        rows = ask(shown, requests == 0)
        requests += 1
        for row in rows:
            robot.act(row)
            shown, steps = robot.observe(), steps + 1
            if shown.get("terminated") or steps == max_steps:
                break
    return Played(steps, requests, bool(shown.get("terminated")))


def _play_in_real_time(robot: HudRobot, shown: Mapping[str, Any], ask: Ask, max_steps: int) -> Played:
    """Answer the newest observation, again and again; those that came meanwhile are never looked at."""
    frames = robot.follow()
    steps, requests = _index_of(shown), 0
    while not shown.get("terminated") and steps < max_steps:
        rows = ask(shown, requests == 0)
        requests += 1
        try:
            robot.send_chunk(rows, steps)
        except HudError:  # a bridge may leave at the episode's end
            shown = frames.take_last()
        else:
            shown = frames.take()
        steps = _index_of(shown)
    return Played(steps, requests, bool(shown.get("terminated")))


def _index_of(shown: Mapping[str, Any]) -> int:
    """Return how many control ticks were before an observation. Raises HudError where it is not told."""
    meta = shown.get("meta")
    index = meta.get("obs_index") if isinstance(meta, dict) else None
    if isinstance(index, bool) or not isinstance(index, int | np.integer) or index < 0:
        raise HudError(f"meta: obs_index: found {show_value(index)}, expected the observation's number")
    return int(index)
