# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How an agent of ours plays: in turns, and in real time, where no observation may wait for its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from websockets.sync.server import serve

from remote_inference.learn.hud.agent import Ask, Played, play
from remote_inference.learn.hud.client import HudControl, HudError, HudRobot
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.server.frameworks.openpi import pack
from support.environments.hud_gateway import hud_gateway
from support.environments.line import STATE, Line
from support.waiting import wait_until

DEADLINE_S = 30.0
LIMIT = 520
SLOW_TICKS = 10  # of the environment, for each answer


def rows(*values: float) -> np.ndarray:
    return np.array(values, np.float32)[:, None]


@contextmanager
def claimed(line: Line, *, real_time: bool) -> Iterator[tuple[HudControl, HudRobot]]:
    """An episode of our own gateway; the robot has left when the score is asked for."""
    with hud_gateway(line, real_time=real_time) as port, HudControl("127.0.0.1", port, DEADLINE_S) as control:
        token = control.call("reset", seed=10)["token"]
        with HudRobot(control.call("url")["url"], token, DEADLINE_S) as robot:
            yield control, robot


def play_bridge(frames: list[Mapping[str, Any]], ask: Ask) -> Played:
    """Play with a bridge that shows frames, whatever it is sent, and leaves."""

    def handle(agent: Any) -> None:
        agent.send(pack({"claim_required": True}))
        agent.recv(DEADLINE_S)
        for frame in frames:
            agent.send(pack(frame))

    with serve(handle, "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            url = f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
            with HudRobot(url, None, DEADLINE_S) as robot:
                return play(robot, ask, LIMIT)
        finally:
            server.shutdown()


def show(index: object, *, terminated: bool = False) -> dict[str, Any]:
    return {"terminated": terminated, "meta": {"obs_index": index}}


def test_in_turns_each_chunk_is_played_to_its_end() -> None:
    seen = []

    def ask(shown: Mapping[str, Any], is_first: bool) -> np.ndarray:
        seen.append((round(float(shown[STATE][0]), 3), is_first))
        return rows(0.3, 0.4) if is_first else rows(0.5, 0.95, 0.6)

    with claimed(Line(), real_time=False) as (_, robot):
        assert play(robot, ask, LIMIT) == Played(steps=4, requests=2, ended=True)
    assert seen == [(0.1, True), (0.4, False)]


@pytest.mark.parametrize("limit", [1, 3])
def test_in_turns_the_limit_ends_an_episode(limit: int) -> None:
    with claimed(Line(), real_time=False) as (_, robot):
        played = play(robot, lambda shown, is_first: rows(0.3, 0.4), limit)
    assert (played.steps, played.ended) == (limit, False)


def test_in_turns_means_of_all_chunks_so_far_are_played_one_by_one() -> None:
    said = iter([rows(0.1, 0.2, 0.3), rows(0.4, 0.5, 0.6), rows(0.0, 0.7, 0.8)])
    line = Line()
    with claimed(line, real_time=False) as (_, robot):
        played = play(robot, lambda shown, is_first: next(said), 3, Ensemble(0.0))
    assert played == Played(steps=3, requests=3, ended=False)
    assert line.actions == pytest.approx([0.1, 0.3, 0.8 / 3.0], abs=1e-6)


def test_in_real_time_no_means_are_played() -> None:
    with (
        claimed(Line(), real_time=True) as (_, robot),
        pytest.raises(HudError, match="--ensemble-coeff: found a bridge in real time, expected one in turns"),
    ):
        play(robot, lambda shown, is_first: rows(0.3), LIMIT, Ensemble(0.0))


def test_in_real_time_a_slow_server_answers_the_newest_observation() -> None:
    """One frame comes for each tick: whoever takes them one by one falls back further with each answer."""
    line = Line(rate_hz=50.0)
    looked: list[tuple[int, int]] = []  # at which observation, when so many ticks had been

    def ask(shown: Mapping[str, Any], is_first: bool) -> np.ndarray:
        begin = len(line.actions)
        looked.append((shown["meta"]["obs_index"], begin))
        wait_until(lambda: len(line.actions) >= begin + SLOW_TICKS, "ticks while the server computes")
        return rows(*[0.4] * 50)

    with claimed(line, real_time=True) as (_, robot):
        played = play(robot, ask, max_steps=10 * SLOW_TICKS)
    assert played.steps >= 10 * SLOW_TICKS
    assert played.requests == len(looked) <= 12
    for (_, ticks_before), (index, _) in pairwise(looked):
        assert index > ticks_before


def test_in_real_time_an_episode_that_ends_while_the_server_computes_has_ended() -> None:
    requests = 0
    while requests != 2:  # on a busy machine it may end before the second question
        line = Line()

        def ask(shown: Mapping[str, Any], is_first: bool, line: Line = line) -> np.ndarray:
            if not is_first:
                wait_until(lambda: line.metrics().success, "the episode's end")
            return rows(0.4, *[0.95] * 50)

        with claimed(line, real_time=True) as (control, robot):
            played = play(robot, ask, LIMIT)
            requests = played.requests
            assert requests in (1, 2)
            assert played.ended
            assert played.steps == len(line.actions)
            assert control.call("result")["success"] is True


def test_in_real_time_a_bridge_may_leave_at_the_episode_s_end() -> None:
    def ask(shown: Mapping[str, Any], is_first: bool) -> np.ndarray:
        threading.Event().wait(0.2)  # the bridge leaves meanwhile, or a little later
        return rows(0.0)

    frames = [show(0), show(1), show(2, terminated=True)]
    assert play_bridge(frames, ask) == Played(steps=2, requests=1, ended=True)


def test_in_real_time_a_bridge_that_leaves_in_the_middle_is_an_error() -> None:
    with pytest.raises(HudError, match="the connection has ended"):
        play_bridge([show(0), show(1)], lambda shown, is_first: rows(0.0))


def test_in_real_time_a_chunk_that_is_refused_is_told_in_the_bridge_s_words() -> None:
    with (
        claimed(Line(), real_time=True) as (_, robot),
        pytest.raises(HudError, match=r"found shape \[3, 2\], expected \[rows, 1\]"),
    ):
        play(robot, lambda shown, is_first: np.zeros((3, 2), np.float32), LIMIT)


@pytest.mark.parametrize("index", [None, "two", -1, 1.5, True])
def test_an_observation_whose_number_cannot_be_read_is_an_error(index: object) -> None:
    ask: Callable[..., np.ndarray] = lambda shown, is_first: rows(0.0)  # noqa: E731
    with pytest.raises(HudError, match=r"meta: obs_index: found .*, expected the observation's number"):
        play_bridge([show(index)], ask)
