# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Episodes begin with fresh processors, and their requests are served by what remembers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from remote_inference.base.exchange import ChunkStatus
from remote_inference.base.policy import PolicyError, ServingMode
from support.builders import CHUNK_SIZE, SteadyPolicy
from support.server.bench import Bench


def test_an_episode_begins_with_fresh_processors():
    bench = Bench()
    for start in (True, False, True):
        bench.put(0, episode_start=start)
        bench.serve()
    assert [session.processors.resets for session in bench.sessions] == [2, 0]  # type: ignore[attr-defined]


def test_a_session_that_begins_within_an_episode_begins_with_fresh_processors():
    """A robot that comes from another server began its episode there, and every robot counts from 0."""
    bench = Bench(SteadyPolicy(serving_mode=ServingMode.EXCLUSIVE), robots=1)
    bench.put(0, episode_id=0, episode_start=False)
    bench.serve()
    bench.put(0, episode_id=0, episode_start=False)
    bench.serve()
    assert bench.sessions[0].processors.resets == 1  # type: ignore[attr-defined]
    assert bench.policy.resets == 1


@pytest.mark.parametrize("part", ["processors", "policy"])
@pytest.mark.parametrize("start", [True, False])
def test_no_request_of_an_episode_is_served_before_a_reset_has_succeeded(part: str, start: bool):
    bench = Bench(SteadyPolicy(serving_mode=ServingMode.EXCLUSIVE), robots=1)
    bench.put(0, episode_id=3)
    bench.serve()
    broken = bench.policy if part == "policy" else bench.sessions[0].processors
    with pytest.MonkeyPatch.context() as breaking:
        breaking.setattr(broken, "reset", lambda: 1 / 0)
        bench.put(0, episode_id=3 if start else 4, episode_start=start)
        assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.ERROR]
    resets = broken.resets  # type: ignore[attr-defined]
    bench.put(0, episode_id=3 if start else 4)
    assert [chunk.status for chunk in bench.serve()] == [ChunkStatus.OK]
    assert broken.resets == resets + 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(("mode", "resets"), [(ServingMode.EXCLUSIVE, 1), (ServingMode.SHARED, 0)])
def test_only_an_exclusive_policy_forgets_the_episode(mode: ServingMode, resets: int):
    """In shared mode a reset would wipe the other robots' state; in exclusive mode it is intended."""
    bench = Bench(SteadyPolicy(serving_mode=mode), robots=1)
    bench.put(0, episode_start=True)
    bench.serve()
    bench.put(0, seq_id=2)
    bench.serve()
    assert bench.policy.resets == resets


def test_a_new_episode_is_known_by_its_id_when_its_first_request_was_lost():
    bench = Bench(robots=1)
    bench.put(0, seq_id=1, episode_id=1, episode_start=True)
    bench.serve()
    bench.put(0, seq_id=5, episode_id=2)
    bench.serve()
    assert bench.sessions[0].processors.resets == 2  # type: ignore[attr-defined]


class Counting(SteadyPolicy):
    """Answers with the number of its requests since the last reset, as a policy with a history would."""

    def __init__(self) -> None:
        super().__init__(serving_mode=ServingMode.EXCLUSIVE)
        self.history = 0
        self.answer = self._count

    def _count(self, batch: Sequence[Any]) -> list[Any]:
        if any(abs(state).max() > 10 for state in batch):
            raise PolicyError("state is out of range")
        self.history += 1
        return [np.full((CHUNK_SIZE, 2), self.history, np.float32)]

    def reset(self) -> None:
        super().reset()
        self.history = 0


def test_the_history_of_an_episode_survives_requests_that_fail():
    """The server's own probe would be one more request of the episode, and end it."""
    bench = Bench(Counting(), robots=1, max_consecutive_failures=3)
    answers, statuses = [], []
    for state in (0.5, 0.5, 99.0, 99.0, 99.0, 99.0, 0.5, 0.5):
        bench.put(0, state=(state, 0.0))
        (chunk,) = bench.serve()
        statuses.append(chunk.status)
        answers += [float(chunk.model[0, 0])] if len(chunk.model) else []
    assert answers == [1, 2, 3, 4]
    assert statuses[5] is ChunkStatus.DRAINING  # the robot tries another server, as by a probe
    assert statuses[6:] == [ChunkStatus.OK, ChunkStatus.OK]


def test_an_exclusive_policy_is_probed_as_soon_as_no_episode_runs():
    bench = Bench(Counting(), robots=1, max_consecutive_failures=1)
    bench.put(0, state=(99.0, 0.0))
    bench.serve()
    bench.serve()
    assert "a probe would end a robot's episode" in bench.watch.unready_reason(bench.now_ns)
    bench.sessions.clear()
    bench.serve()
    assert bench.watch.unready_reason(bench.now_ns) == ""
