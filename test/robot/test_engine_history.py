# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot shows a policy of several steps its last control ticks, and never those of an episode before.

The simulated world checks each request: as many steps as the policy sees, one tick apart, only the first one
repeated, and none from before a reset, a resume or a new session.
"""

from __future__ import annotations

import itertools

import pytest

from remote_inference.robot.safety.effects import SendRequest
from remote_inference.robot.safety.state_machine import State
from support.builders import PERIOD_NS, make_spec
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming


def make_world(steps: int = 3) -> World:
    return World(servers=[SimulatedServer("/server_a", make_spec(observation_steps=steps))])


def repeats(ticks: list[int]) -> int:
    return len(ticks) - len(set(ticks))


def test_a_request_shows_the_last_control_ticks():
    world = streaming(make_world()).run(2.0)
    late = world.shown[3:]
    assert len(late) > 3
    assert all(repeats(ticks) == 0 for ticks in late)
    assert all(after - before == PERIOD_NS for ticks in late for before, after in itertools.pairwise(ticks))


def test_the_first_request_of_an_episode_repeats_its_first_tick():
    world = streaming(make_world())
    assert repeats(world.shown[0]) == 2
    sent, begun_ns = len(world.sent), world.now_ns
    world.reset()
    world.run_until(lambda: len(world.sent) > sent)
    assert world.shown[sent][0] > begun_ns
    assert repeats(world.shown[sent]) == 2


def test_after_a_pause_nothing_from_before_shows():
    world = streaming(make_world())
    world.pause()
    world.run(5.0)  # until the queued rows are too old
    sent, resumed_ns = len(world.sent), world.now_ns
    world.resume()
    world.run_until(lambda: len(world.sent) > sent)
    assert world.shown[sent][0] > resumed_ns


@pytest.mark.parametrize("stuck_s", [0.2, 0.6])
def test_after_missed_ticks_nothing_from_before_shows(stuck_s: float):
    world = streaming(make_world()).run(1.0)
    world.stuck = True
    world.run(stuck_s)
    world.stuck = False
    sent, back_ns = len(world.sent), world.now_ns
    world.run(1.0)
    assert len(world.sent) > sent
    since = [ticks for ticks in world.shown[sent:] if ticks[-1] > back_ns]
    assert all(ticks[0] > back_ns for ticks in since)


def test_a_robot_that_reconnects_begins_its_history_anew():
    world = streaming(make_world())
    world.server.restart()
    world.run_until(lambda: world.engine.counters.reconnects == 1)
    sent, lost_ns = len(world.sent), world.now_ns
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.shown[sent][0] > lost_ns


def test_after_a_takeover_nothing_of_it_shows():
    world = streaming(make_world())
    world.engine.control.change(taken_over=True)
    world.run(1.0)
    sent, released_ns = len(world.sent), world.now_ns
    assert world.release() == ""
    world.run_until(lambda: len(world.sent) > sent)
    assert world.shown[sent][0] > released_ns


def test_a_policy_that_sees_the_present_alone_gets_no_steps():
    world = streaming(make_world(steps=1))
    assert all(request.steps == () for request in world.all(SendRequest))
    assert not world._samples


@pytest.mark.parametrize("steps", [1, 3])
def test_each_row_is_executed_in_its_own_tick_after_the_capture(steps: int):
    """An observation of several steps is taken a little before its request; its rows count from there."""
    world = streaming(make_world(steps)).run(5.0)
    executed = [(at_ns, tick.queued) for at_ns, tick in world.ticks if tick.queued is not None]
    late = [
        (at_ns - queued.source.capture_ns) / PERIOD_NS - queued.step_index
        for at_ns, queued in executed
        if queued.source.seq_id > 3
    ]
    assert len(late) > 50
    assert 0.0 <= min(late) <= max(late) <= 1.0
