# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A data set has a frame for each row where control is faster than the policy, whoever commanded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from remote_inference.bags.export.format import ControlTick, one_per_row
from remote_inference.robot.command import CommandSource

TICKS = 5
NONE = ControlTick(
    t_ns=0,
    tick=0,
    episode_id=1,
    task="",
    client_state="STREAMING",
    paused=False,
    source=CommandSource.NONE,
    action=None,
    state=None,
    images={},
    interventions=(),
    session_id="",
    seq_id=0,
    step_index=0,
    row_fraction=0.0,
    age_s=np.nan,
    queue_wait_ms=np.nan,
    inference_ms=np.nan,
    policy_version="",
    shadow=False,
)


def make_ticks(*parts: tuple[CommandSource, int]) -> list[ControlTick]:
    """Return ticks, one after another: so many of each source; a chunk's rows begin with their part."""
    ticks: list[ControlTick] = []
    for source, count in parts:
        for place in range(count):
            fraction = place % TICKS / TICKS if source is CommandSource.CHUNK else 0.0
            ticks.append(replace(NONE, tick=len(ticks), source=source, row_fraction=fraction))
    return ticks


def kept(ticks: list[ControlTick], ticks_per_row: int = TICKS) -> list[int]:
    return [tick.tick for tick in one_per_row(ticks, ticks_per_row)]


def test_the_ticks_in_which_a_row_begins_are_kept():
    assert kept(make_ticks((CommandSource.CHUNK, 17))) == [0, 5, 10, 15]


def test_a_person_s_commands_and_those_of_nobody_are_kept_once_in_a_row_s_time():
    ticks = make_ticks((CommandSource.CHUNK, 7), (CommandSource.HUMAN, 12), (CommandSource.CHUNK, 6))
    assert kept(ticks) == [0, 5, 10, 15, 19, 24]


def test_where_a_row_lasts_a_tick_every_tick_is_kept():
    ticks = [
        replace(tick, row_fraction=0.0)
        for tick in make_ticks((CommandSource.CHUNK, 4), (CommandSource.NONE, 3))
    ]
    assert kept(ticks, ticks_per_row=1) == list(range(7))
