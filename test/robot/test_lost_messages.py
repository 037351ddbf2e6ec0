# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One lost message costs a repeated request, not a standstill; a slow server is not flooded by repeats."""

from __future__ import annotations

import random
from typing import Any

import pytest

from remote_inference.base.exchange import Chunk
from remote_inference.robot.queue.latency import PATIENCE, SHORTEST_WAIT_S, patience_s
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, ns
from support.robot.simulation import World, idle_ticks, streaming


def lose_every(count: int) -> Any:
    return lambda chunk: [] if chunk.seq_id % count == 0 else [(0, chunk)]


@pytest.mark.parametrize(
    ("inference_s", "config"),
    [
        (0.02, {}),
        (0.06, {}),
        (0.18, {}),  # with the way, 0.2 s: the buffer holds 2.5 times as much
        (0.02, {"buffer_time_s": "auto"}),  # at least 0.2 s
        (0.3, {"buffer_time_s": 0.8}),
    ],
)
@pytest.mark.parametrize("merge_mode", ["replace", "append"])
def test_one_lost_chunk_never_stops_a_robot_whose_buffer_is_twice_the_latency(
    inference_s: float, config: dict[str, Any], merge_mode: str
):
    world = World(make_config(merge_mode=merge_mode, **config))
    world.inference_ns = ns(inference_s)
    streaming(world)
    world.fate = lose_every(5)
    world.run(60)
    assert world.engine.counters.requests - world.engine.counters.chunks_merged > 10
    assert idle_ticks(world) == 0
    assert world.states() == [State.STREAMING]
    assert world.engine.counters.request_timeouts == 0


@pytest.mark.parametrize("seed", range(5))
def test_random_losses_hardly_stop_the_robot(seed: int):
    """One answer in twenty is lost, and the latency varies; each loss used to cost request_timeout_s, 5 s."""
    rng = random.Random(seed)
    world = streaming(World())
    world.fate = lambda chunk: [] if rng.random() < 0.05 else [(ns(rng.uniform(0.0, 0.1)), chunk)]
    world.run(60)
    assert idle_ticks(world) <= 0.02 * len(world.ticks)
    assert world.engine.counters.reconnects == 0


def test_a_hung_server_is_asked_a_few_times_and_times_out_as_before():
    world = streaming(World())
    world.server.hung = True
    world.run_until(lambda: not world.engine.cycle.wants_chunk(world.now_ns))
    world.run_until(lambda: world.engine.cycle.wants_chunk(world.now_ns))
    sent, hung_ns = len(world.sent), world.now_ns
    world.run_until(lambda: world.engine.counters.request_timeouts == 1)
    assert world.now_ns - hung_ns == pytest.approx(ns(5.0), abs=ns(0.2))
    assert 3 <= len(world.sent) - sent <= 8


@pytest.mark.parametrize("inference_s", [0.7, 1.2, 2.4, 4.5])
def test_a_server_that_is_slow_from_the_start_is_heard(inference_s: float):
    """It is asked again before its first answer is there; that answer counts, and says how long it takes."""
    world = World(make_config(max_action_age_s=10.0, max_timeouts=1, max_offline_s=3600.0))
    world.inference_ns = ns(inference_s)
    world.run(30)
    assert world.engine.counters.chunks_merged >= 3
    sent = len(world.sent)
    world.run(30)
    assert len(world.sent) - sent <= 30 / inference_s + 2  # no repeats once the latency is known
    assert world.engine.counters.reconnects <= 1


def test_the_late_answer_of_a_request_that_was_asked_again_counts_and_teaches_the_latency():
    world = streaming(World())
    held: list[Chunk] = []
    world.fate = lambda chunk: held.append(chunk) or []  # type: ignore[func-returns-value]
    asked = len(world.sent)
    world.run_until(lambda: len(world.sent) == asked + 4 and len(held) >= 1)
    merged, dropped = world.engine.counters.chunks_merged, world.engine.counters.chunks_dropped
    world.deliver(held[0])
    assert world.engine.counters.chunks_merged == merged + 1
    for late in held[1:]:
        world.deliver(late)
    assert world.engine.counters.chunks_dropped == dropped + len(held) - 1
    late_s = (world.now_ns - held[0].client_mono_ns) / 1e9
    world.run_until(lambda: len(world.sent) == asked + 5)
    asked_ns = world.now_ns
    world.run_until(lambda: len(world.sent) == asked + 6)
    assert world.now_ns - asked_ns >= ns(late_s)


def test_a_lost_first_request_of_an_episode_is_announced_again():
    world = streaming(World())
    world.reset()
    world.fate = lambda chunk: []
    sent = len(world.sent)
    world.run(1)
    world.fate = lambda chunk: [(0, chunk)]
    world.run(2)
    starts = [request.episode_start for request in world.sent[sent:]]
    assert starts[:2] == [True, True]
    assert starts == sorted(starts, reverse=True)
    assert not starts[-1]


def test_a_cold_robot_waits_for_a_slow_server_as_long_as_it_says_it_takes():
    world = World(make_config())
    world.inference_ns = ns(1.2)
    world.server.response_s = 1.2
    world.run_until(lambda: world.engine.counters.chunks_merged == 1)
    assert [request.seq_id for request in world.sent] == [1]
    assert world.engine.counters.chunks_dropped == 0


def test_patience_is_a_multiple_of_the_expected_latency_and_less_when_the_queue_needs_it():
    assert patience_s(0.1, 0.2, playback_left_s=1.0) == pytest.approx(0.2 * PATIENCE)
    assert patience_s(0.1, 0.2, playback_left_s=0.25) == 0.2
    assert patience_s(0.1, 0.2, playback_left_s=0.19) == pytest.approx(0.1 * PATIENCE)
    assert patience_s(0.1, 0.2, playback_left_s=0.0) == pytest.approx(0.1 * PATIENCE)
    assert patience_s(0.001, 0.001, playback_left_s=1.0) == pytest.approx(SHORTEST_WAIT_S * PATIENCE)


def test_a_server_that_becomes_slow_answers_each_question_once_it_is_known_to_be_slow():
    """Its p95 lags behind; the first late answer shows the new latency at once."""
    world = streaming(World())
    world.run(30)
    world.inference_ns = ns(0.7)
    merged, sent = world.engine.counters.chunks_merged, len(world.sent)
    world.run(10)
    assert world.engine.counters.chunks_merged - merged >= 5
    assert len(world.sent) - sent <= world.engine.counters.chunks_merged - merged + 5
