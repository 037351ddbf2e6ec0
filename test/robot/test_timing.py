# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Timing parameters are judged together: what cannot work is refused, what will stutter is warned of."""

from __future__ import annotations

from typing import Any

import pytest

from remote_inference.robot.requests.timing import Timing, find_timing_problem, find_timing_warnings
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, make_contract, make_spec, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, idle_ticks, stopped


def timing(
    fps: float = 30.0,
    chunk_size: int = 50,
    *,
    latency_s: float | None = None,
    **config: Any,
) -> Timing:
    return Timing(make_config(**config), fps, chunk_size, latency_s)


@pytest.mark.parametrize(("fps", "chunk_size"), [(30.0, 100), (20.0, 20), (30.0, 40), (50.0, 16), (1.0, 10)])
@pytest.mark.parametrize("merge_mode", ["auto", "append"])
def test_defaults_pass_in_silence(fps: float, chunk_size: int, merge_mode: str):
    usual = timing(fps, chunk_size, merge_mode=merge_mode, latency_s=0.1)
    assert find_timing_problem(usual) == ""
    assert find_timing_warnings(usual) == ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (timing(1.0, max_action_age_s=0.5), ["max_action_age_s: found 0.5", "an action lasts, 1 s"]),
        (timing(latency_s=3.5), ["max_action_age_s: found 3", "3.5 s"]),
        (timing(latency_s=0.3, request_timeout_s=0.2), ["request_timeout_s: found 0.2", "0.3 s"]),
        (timing(merge_mode="append", buffer_time_s=3.0), ["buffer_time_s: found 3", "max_action_age_s, 3"]),
    ],
)
def test_what_cannot_work_is_refused_by_the_value_to_change(wrong: Timing, words: list[str]):
    problem = find_timing_problem(wrong)
    assert all(word in problem for word in words), problem


@pytest.mark.parametrize(
    ("poor", "words"),
    [
        (timing(buffer_time_s=0.0), ["buffer_time_s is 0", "raise it"]),
        (timing(latency_s=0.8), ["buffer_time_s is 0.5", "0.8 s", "raise buffer_time_s"]),
        (
            timing(chunk_size=5, latency_s=0.3),
            ["0.167 s at 30 Hz", "an answer takes 0.3 s", "chunks of 5 actions: too short"],
        ),
        (timing(execution_horizon=5, latency_s=0.3), ["execution_horizon: too short"]),
        (timing(fps=20, chunk_size=8, latency_s=0.25), ["0.4 s at 20 Hz", "chunks of 8 actions: too short"]),
        (timing(max_action_age_s=0.3, latency_s=0.3, max_sensor_age_s=0.2), ["max_action_age_s: too short"]),
        (timing(max_action_age_s=0.4), ["max_sensor_age_s is 0.5", "lower max_sensor_age_s"]),
    ],
)
def test_what_will_stutter_is_warned_of_by_the_value_to_change(poor: Timing, words: list[str]):
    (warning,) = find_timing_warnings(poor)
    assert all(word in warning for word in words), warning


@pytest.mark.parametrize("quiet", [timing(request_mode="blocking", buffer_time_s=0.0, latency_s=0.9)])
def test_a_robot_that_stops_between_chunks_on_purpose_is_not_warned(quiet: Timing):
    assert find_timing_warnings(quiet) == ()


def test_a_session_whose_timing_cannot_work_is_given_back_and_the_robot_says_why():
    spec = make_spec(trained_fps=1.0)
    contract = make_contract(fps=1.0)
    world = World(make_config(max_action_age_s=0.5), [SimulatedServer("/server_a", spec)], contract=contract)
    world.run(2)
    assert stopped(world)
    assert world.state is State.DEAD
    assert "max_action_age_s: found 0.5" in world.engine.machine.cause
    assert world.sent == []
    assert len(world.server.registry) == 0


def test_a_warning_of_the_timing_comes_with_the_session_once():
    world = World(make_config(buffer_time_s=0.0))
    world.run(5)
    world.server.restart()
    world.run(5)
    assert world.warnings().count("buffer_time_s is 0") == 2  # once for each instance of the server


def test_a_latency_that_the_buffer_does_not_cover_is_warned_of_once_it_is_known():
    world = World()
    world.inference_ns = ns(0.8)
    world.run(60)
    assert idle_ticks(world) > 0
    assert world.warnings().count("buffer_time_s is 0.5, an answer takes 0.82 s") == 1
