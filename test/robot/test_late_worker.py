# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A worker that takes a chunk long after it came, while the control thread went on executing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.journal import Entry
from remote_inference.robot.motion.state import Tick
from support.builders import FPS, PERIOD_NS, TOPICS, answer, make_config, make_spec, ns
from support.robot.asking_robot import Robot
from support.robot.replayed import divergences_of, effects_of, exact, replay, ticks_of
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

LATE_S = 0.3
SLOW = 0.8  # rad, and rad/s: no step of the wave is too large for the guard


class WaveServer(SimulatedServer):
    """Says where to be at each instant, whenever it is asked: its chunks fit one another."""

    world: World

    def rows(self, request: Request) -> Float32Array:
        capture_s = (self.world._begins_ns[request.seq_id] - self.world.start_ns) / 1e9
        wave = SLOW * np.sin(SLOW * (capture_s + np.arange(self.spec.chunk_size) / FPS))
        return np.stack([wave, -wave], axis=1).astype(np.float32)


def late_world(late_s: float) -> tuple[World, list[Tick]]:
    """Return a robot whose worker took a chunk late, and its ticks from half a second before on."""
    server = WaveServer("/server_a", make_spec(chunk_size=40))
    world = server.world = World(make_config(merge_mode="replace", buffer_time_s=1.2), (server,))
    streaming(world).run(1.0)
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    since_ns, merged = world.now_ns - ns(0.5), world.engine.counters.chunks_merged
    world.hung = True
    world.run(0.08 + late_s)  # the answer comes after 0.08 s
    world.hung = False
    world.run_until(lambda: world.engine.counters.chunks_merged > merged)
    world.run(0.3)
    return world, world.commands_since(since_ns)


def entries_of(world: World) -> list[Entry]:
    return list(world.engine.journal.take()[1])


@pytest.mark.parametrize("late_s", [0.0, LATE_S])
def test_a_chunk_that_is_taken_late_goes_on_where_the_arm_is_by_then(late_s: float):
    _, ticks = late_world(late_s)
    assert len({tick.queued.source.seq_id for tick in ticks if tick.queued}) > 1
    assert {tick.interventions for tick in ticks} == {()}
    steps = np.diff([tick.command[0] for tick in ticks if tick.command is not None])
    assert np.abs(np.diff(steps)).max() < 0.005, "it goes on as before"


def test_a_worker_that_stood_still_before_it_merged_repeats_no_row():
    """Between its look at the clock and the merge the control thread went on."""
    server = WaveServer("/server_a", make_spec(chunk_size=40))
    world = server.world = World(make_config(merge_mode="replace", buffer_time_s=1.2), (server,))
    streaming(world).run(1.0)
    sent, since_ns = len(world.sent), world.now_ns
    world.run_until(lambda: len(world.sent) > sent)
    world.hung = True
    world.run(0.08)
    looked_ns = world.now_ns
    world.run(LATE_S)
    world.hung = False
    take, world.engine.take_chunk = (
        world.engine.take_chunk,
        lambda chunk, _, **named: take(chunk, looked_ns, **named),
    )  # type: ignore[method-assign]
    merged = world.engine.counters.chunks_merged
    world.run_until(lambda: world.engine.counters.chunks_merged > merged)
    world.engine.take_chunk = take  # type: ignore[method-assign]
    world.run(0.3)
    steps = np.diff([tick.command[0] for tick in world.commands_since(since_ns) if tick.command is not None])
    assert np.abs(np.diff(steps)).max() < 0.005, "it goes on as before"


def late_seen_world(late_s: float, observation_steps: int = 1) -> tuple[World, list[Tick]]:
    """Return a robot whose worker saw a picture of a slow camera late, and its ticks from then on."""
    spec = make_spec(chunk_size=40, observation_steps=observation_steps)
    server = WaveServer("/server_a", spec)
    world = server.world = World(make_config(merge_mode="replace", buffer_time_s=2.0), (server,))
    streaming(world).run(1.0)
    world.sensors[TOPICS[1]] = False
    world.run(0.2)
    since_ns, sent = world.now_ns, len(world.sent)
    world.hung, world.sensors[TOPICS[1]] = True, True
    world.run(0.04)
    world.sensors[TOPICS[1]] = False
    world.run(late_s)
    world.hung = False
    world.run(0.5)
    assert len(world.sent) > sent
    return world, world.commands_since(since_ns)


@pytest.mark.parametrize("observation_steps", [1, 2])
@pytest.mark.parametrize("late_s", [0.0, 0.19, 0.4])
def test_rows_executed_before_a_late_worker_sees_a_picture_are_past_for_its_chunk(
    late_s: float, observation_steps: int
):
    _, ticks = late_seen_world(late_s, observation_steps)
    assert len({tick.queued.source.seq_id for tick in ticks if tick.queued}) > 1
    steps = np.diff([tick.command[0] for tick in ticks if tick.command is not None])
    assert np.abs(np.diff(steps)).max() < SLOW * SLOW / FPS / 2, "by half a row: pictures come between ticks"


def test_a_latency_is_the_round_trip_however_late_the_worker_is():
    world, _ = late_world(LATE_S)
    assert world.engine.cycle.latency.quantile_s(1.0) == pytest.approx(0.08, abs=0.02)


def test_an_answer_that_is_taken_after_its_moment_waits_for_none():
    robot = Robot()
    robot.session = replace(robot.session, continuation="trained")
    robot.cycle.begin_session(4 * PERIOD_NS / 1e9)
    chunk = answer(robot.ask())
    arrival_ns = robot.now_ns + PERIOD_NS
    robot.wait(4 * PERIOD_NS)
    assert not robot.cycle.keep_early(chunk, robot.session, robot.now_ns, arrival_ns)


def test_what_an_early_answer_teaches_is_when_it_came_and_not_when_it_was_taken():
    robot = Robot()
    robot.session = replace(robot.session, continuation="trained")
    robot.cycle.begin_session(4 * PERIOD_NS / 1e9)
    for _ in range(2):  # the first cycle of a session does not count
        chunk = answer(robot.ask())
        arrival_ns = robot.now_ns + PERIOD_NS
        robot.wait(3 * PERIOD_NS)
        assert robot.cycle.keep_early(chunk, robot.session, robot.now_ns, arrival_ns)
        robot.wait(PERIOD_NS)
        assert robot.cycle.finish(chunk, robot.session, robot.now_ns) is None
        robot.queue.clear()
        robot.wait(1)
    assert robot.cycle.delay_steps == 1


def test_a_chunk_is_as_old_as_it_is_when_it_is_taken_and_the_pause_begins_then():
    robot = Robot(max_action_age_s=1.0, error_pause_s=0.25)
    chunk, arrival_ns = answer(robot.ask()), robot.now_ns + ns(0.1)
    robot.wait(ns(1.0) + 1)
    rejection = robot.cycle.finish(chunk, robot.session, robot.now_ns, arrival_ns)
    assert rejection is not None
    assert "its observation is 1.0 s old" in rejection.problem
    robot.wait(ns(0.25) - 1)
    assert not robot.cycle.is_ready(robot.now_ns)
    robot.wait(1)
    assert robot.cycle.is_ready(robot.now_ns)


@pytest.mark.parametrize("late", [late_world, late_seen_world])
def test_a_late_worker_is_replayed_bit_for_bit(late: Callable[[float], tuple[World, list[Tick]]]):
    world = late(LATE_S)[0].run(2.0)
    outcomes = replay(entries_of(world))
    assert divergences_of(outcomes) == []
    assert exact(ticks_of(outcomes)) == exact([tick for _, tick in world.ticks])
    assert exact(effects_of(outcomes)) == exact([effect for _, effect in world.effects])
