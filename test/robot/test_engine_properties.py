# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Random schedules of faults and operators: what must hold in every one of them.

The simulated world checks each tick, request and merge: limits, step, age, episode, one request in flight, no
observation twice, rising seq_ids, one merge per request. The tests add what needs the whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from remote_inference.base.exchange import Chunk, ChunkStatus
from remote_inference.robot.safety.state_machine import State
from support.builders import TOPICS, make_config, ns
from support.robot.simulation import World, stopped

TWO = ("/server_a", "/server_b")

configs = st.fixed_dictionaries(
    {
        "request_mode": st.sampled_from(["overlap", "blocking"]),
        "merge_mode": st.sampled_from(["auto", "replace", "append"]),
        "delay_policy": st.sampled_from(["consumed", "latency", "none"]),
        "fallback": st.sampled_from(["hold", "repeat_last"]),
        "buffer_time_s": st.sampled_from(["auto", 0.0, 0.3, 0.5, 2.0]),
        "execution_horizon": st.sampled_from([0, 1, 7]),
        "max_action_age_s": st.sampled_from([0.3, 1.0, 3.0]),
        "max_sensor_age_s": st.sampled_from([0.05, 0.5]),
        "request_timeout_s": st.sampled_from([0.1, 0.4, 5.0]),
        "max_timeouts": st.integers(1, 3),
        "service_timeout_s": st.just(0.3),
        "reconnect_max_backoff_s": st.just(0.5),
        "max_offline_s": st.sampled_from([1.0, 60.0]),
        "accept_new_policy": st.booleans(),
        "servers": st.sampled_from([TWO[:1], TWO]),
    }
)

# One entry per answer, in turn: the extra delay [ms] of each copy that arrives, and what is wrong with it.
fates = st.lists(
    st.tuples(
        st.lists(st.integers(0, 800), max_size=3),
        st.sampled_from(["", "", "", "nan", "short", "error", "drain"]),
    ),
    min_size=1,
    max_size=8,
)

FAULTS: dict[str, Callable[[World], Any]] = {
    "kill": lambda world: setattr(world.server, "up", False),
    "restart": lambda world: world.server.restart(),
    "hang": lambda world: setattr(world.server, "hung", True),
    "wake": lambda world: setattr(world.server, "hung", False),
    "fill": lambda world: setattr(world.server, "max_sessions", 0),
    "vacate": lambda world: setattr(world.server, "max_sessions", 4),
    "deafen": lambda world: setattr(world, "presence", not world.presence),
    "drives off": lambda world: setattr(world, "driven", False),
    "drives on": lambda world: world.drive(),
    "leave": lambda world: setattr(world, "heard", False),
    "return": lambda world: setattr(world, "heard", True),
    "freeze": lambda world: world.sensors.update({TOPICS[1]: False}),
    "thaw": lambda world: world.sensors.update(dict.fromkeys(TOPICS, True)),
    "slow": lambda world: setattr(world, "inference_ns", ns(0.5)),
    "fast": lambda world: setattr(world, "inference_ns", ns(0.02)),
}
OPERATOR: dict[str, Callable[[World], Any]] = {
    "reset": lambda world: world.reset(),
    "pause": lambda world: world.pause(),
    "resume": lambda world: world.resume(),
    "push": lambda world: world.push(-0.9 * np.ones(2)),
}


def push_is_safe(world: World) -> bool:
    """An arm is moved by hand while nothing drives it, not against its controller."""
    return world.engine.paused or not world.heard or not world.driven


def spoil(chunk: Chunk, how: str) -> Chunk:
    if how == "nan":
        return replace(chunk, robot=np.where(np.arange(2) == 1, np.nan, chunk.robot))
    if how == "short":
        return replace(chunk, model=chunk.model[:-1], robot=chunk.robot[:-1])
    if how == "error":
        return replace(chunk, status=ChunkStatus.ERROR, message="no")
    return replace(chunk, status=ChunkStatus.DRAINING) if how == "drain" else chunk


def schedules(*names: str) -> st.SearchStrategy[list[tuple[int, str]]]:
    return st.lists(st.tuples(st.integers(0, 700), st.sampled_from(names)), max_size=12)


def play(
    config: dict[str, Any], schedule: list[tuple[int, str]], answers: list[tuple[list[int], str]]
) -> World:
    world = World(make_config(**config))
    turn = iter(range(1_000_000))

    def fate(chunk: Chunk) -> list[tuple[int, Chunk]]:
        delays, how = answers[next(turn) % len(answers)]
        return [(delay * 1_000_000, spoil(chunk, how)) for delay in delays]

    world.fate = fate
    for gap_ms, event in schedule:
        world.run(gap_ms / 1e3)
        if event != "push" or push_is_safe(world):
            (FAULTS | OPERATOR)[event](world)
    return world.run(1.5)


@settings(max_examples=250)
@given(configs, schedules(*FAULTS, *OPERATOR), fates)
def test_whatever_happens_the_robot_is_commanded_safely(config: dict, schedule: list, answers: list):
    world = play(config, schedule, answers)
    counters = world.engine.counters
    assert counters.requests == len(world.sent)
    assert counters.chunks_merged + counters.chunks_rejected <= counters.requests
    episodes = [request.episode_id for request in world.sent]
    assert episodes == sorted(episodes)
    for episode in set(episodes):  # announced until the server has answered
        starts = [request.episode_start for request in world.sent if request.episode_id == episode]
        assert starts[0]
        assert starts == sorted(starts, reverse=True)
    epochs = [request.session_epoch for request in world.sent]
    assert epochs == sorted(epochs)
    assert stopped(world) == world.engine.dead


@settings(max_examples=120)
@given(configs, schedules(*FAULTS, *OPERATOR), fates)
def test_the_robot_recovers_from_everything_that_is_not_the_end(config: dict, schedule: list, answers: list):
    config |= {"max_offline_s": 3600.0, "max_action_age_s": 3.0, "max_sensor_age_s": 0.5}
    world = play(config | {"request_timeout_s": 0.4}, schedule, answers)
    world.fate = lambda chunk: [(0, chunk)]
    world.inference_ns = ns(0.02)
    world.presence = True
    for cure in ("restart", "wake", "vacate", "thaw", "return", "drives on", "resume"):
        (FAULTS | OPERATOR)[cure](world)
    world.reset()
    merged = world.engine.counters.chunks_merged
    world.run_until(
        lambda: world.state is State.STREAMING and world.engine.counters.chunks_merged > merged, limit_s=15
    )
    # A forgotten session would occupy a place until it expires on the server.
    session = world.run(0.5).engine.handshake.session
    assert session is not None
    open_sessions = [s.session_id for server in world.servers.values() for s in server.registry.all()]
    assert open_sessions == [session.session_id]


@settings(max_examples=40)
@given(schedules("reset", "pause", "resume", "slow", "fast", "freeze", "thaw"), st.integers(0, 300))
def test_a_healthy_server_never_loses_its_session(schedule: list, delay_ms: int):
    world = play({}, schedule, [([delay_ms], "")])
    assert world.engine.counters.reconnects == 0
    assert len(world.server.registry) == 1
    assert State.RECONNECTING not in world.states()
