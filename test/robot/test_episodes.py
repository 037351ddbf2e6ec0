# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's episodes: which request begins one, and until when a server may acknowledge a reset."""

from __future__ import annotations

from remote_inference.robot.requests.episodes import Episodes
from remote_inference.robot.requests.handshake import Phase
from remote_inference.robot.safety.effects import ResetEnded
from support.builders import ns
from support.robot.handshakes import make_handshake, walk


def test_the_first_episode_is_announced_to_nobody_yet() -> None:
    assert not Episodes("wave", ns(1)).announced


def test_a_reset_ends_when_its_time_is_over_and_not_before() -> None:
    episodes = Episodes("wave", ns(2))
    episodes.begin("", walk(make_handshake(), Phase.OPEN, 0), ns(5))
    assert episodes.check_deadline(ns(7) - 1) == []
    assert episodes.check_deadline(ns(7)) == [ResetEnded(1, False, "no acknowledgement within 2 s")]
    assert episodes.check_deadline(ns(8)) == []
