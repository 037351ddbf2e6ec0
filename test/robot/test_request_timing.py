# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""When the robot asks for its next chunk: never so late that the arm stands still in a steady state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.exchange import Request
from remote_inference.base.policy import Continuation, Float32Array
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, make_contract, make_rows, make_source, make_spec, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, idle_ticks, streaming

PERIOD_NS = ns(0.1)
MAX_AGE_NS = ns(3.0)


@pytest.mark.parametrize(
    ("fps", "chunk_size", "latency_s", "config"),
    [
        (30.0, 100, 0.1, {}),
        (30.0, 100, 0.1, {"merge_mode": "append"}),
        (30.0, 100, 0.1, {"buffer_time_s": "auto"}),
        (1.0, 10, 0.1, {}),
        (1.0, 10, 0.1, {"merge_mode": "append"}),
        (30.0, 300, 0.1, {"execution_horizon": 200}),
    ],
)
def test_a_chunk_longer_than_the_age_bound_never_stalls_a_steady_robot(
    fps: float, chunk_size: int, latency_s: float, config: dict[str, Any]
):
    spec = make_spec(chunk_size=chunk_size, trained_fps=fps)
    world = World(
        make_config(**config), [SimulatedServer("/server_a", spec)], contract=make_contract(fps=fps)
    )
    world.inference_ns = ns(latency_s)
    world.run(60)
    assert idle_ticks(world) == 0
    assert world.states() == [State.STREAMING]
    assert world.engine.counters.requests <= 60  # about one each 2.5 s for a chunk


class Planner(SimulatedServer):
    """Continues nothing; says for each action where the arm is to be at its own moment after the capture."""

    def __init__(self) -> None:
        super().__init__(
            "/server_a", make_spec(chunk_size=50, trained_fps=30.0, continuation=Continuation.NONE)
        )

    def rows(self, request: Request) -> Float32Array:
        times_s = request.client_mono_ns / 1e9 + np.arange(self.spec.chunk_size) / self.spec.trained_fps
        return np.stack([goal(times_s), goal(times_s)], axis=1).astype(np.float32)


def goal(times_s: np.ndarray) -> np.ndarray:
    return 0.5 * np.sin(0.5 * times_s)


@pytest.mark.parametrize(("parameters", "is_timely"), [({}, True), ({"merge_mode": "append"}, False)])
def test_by_default_an_action_is_executed_when_the_policy_meant_it(
    parameters: dict[str, Any], is_timely: bool
):
    world = World(make_config(**parameters), [Planner()], contract=make_contract(fps=30.0))
    world.inference_ns = ns(0.005)
    streaming(world).run(20)
    late = [
        abs(tick.command[0] - goal(np.array(at_ns / 1e9)))
        for at_ns, tick in world.ticks[len(world.ticks) // 2 :]
        if tick.queued is not None
    ]
    assert len(late) > 200
    assert bool(max(late) < 0.25 * 0.1) is is_timely, "a tenth of a second at the arm's greatest speed"


@pytest.mark.parametrize(("chunk_size", "latency_s"), [(2, 0.06), (3, 0.1)])
def test_a_chunk_that_would_be_stale_as_a_whole_is_executed_and_feeds_the_robot(
    chunk_size: int, latency_s: float
):
    spec = make_spec(chunk_size=chunk_size, trained_fps=20.0, continuation=Continuation.NONE)
    world = World(make_config(), [SimulatedServer("/server_a", spec)], contract=make_contract(fps=20.0))
    world.inference_ns = ns(latency_s)
    streaming(world).run(4)
    idle = [tick for _, tick in world.ticks[-40:] if tick.queued is None]
    assert not idle


def queue_of(*chunks: tuple[float, int]) -> ActionQueue:
    """Return a queue with chunks, each given as (captured at [s], rows)."""
    queue = ActionQueue()
    for seq_id, (captured_s, rows) in enumerate(chunks):
        source = make_source(seq_id, ns(captured_s))
        queue.merge(
            source, make_rows(rows), make_rows(rows), MergeMode.APPEND, latency_steps=0, executed_before=0
        )
    return queue


@pytest.mark.parametrize(
    ("chunks", "now_s", "left_s"),
    [
        ([], 10.0, 0.0),
        ([(10.0, 20)], 10.0, 2.0),  # the rows end first
        ([(10.0, 50)], 10.0, 3.0),  # the age bound deletes the rest
        ([(10.0, 50)], 12.5, 0.5),
        ([(10.0, 50)], 14.0, 0.0),
        ([(10.0, 10), (11.0, 10)], 11.0, 2.0),
        ([(10.0, 50), (12.0, 50)], 12.0, 3.0),  # what the age bound deletes gives way to the next chunk
        ([(10.0, 5), (12.0, 5)], 13.5, 0.5),  # the first chunk is too old already
    ],
)
def test_playback_left_is_what_the_robot_will_really_execute(
    chunks: list[tuple[float, int]], now_s: float, left_s: float
):
    left_ns = queue_of(*chunks).playback_left_ns(ns(now_s), period_ns=PERIOD_NS, max_age_ns=MAX_AGE_NS)
    assert left_ns == ns(left_s)


def test_the_state_reports_the_playback_that_is_really_left():
    world = streaming(World(make_config(max_action_age_s=0.8)))
    assert 0.0 < world.engine.cycle.playback_left_s(world.now_ns) <= 0.8
