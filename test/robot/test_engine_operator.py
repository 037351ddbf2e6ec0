# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's handles: pause keeps the queue, reset begins an episode."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from remote_inference.robot.engine import Engine
from remote_inference.robot.safety.effects import ResetEnded, ResetSession
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import TOPICS, make_config, ns
from support.robot.simulation import World, streaming


def test_it_starts_paused_without_autostart():
    world = World(make_config(autostart=False)).run(2)
    assert world.sent == []
    assert world.commands_since(0) == []
    assert world.engine.handshake.open  # paused is orthogonal to the connection
    world.resume()
    world.run(1)
    assert world.state is State.STREAMING


def test_a_robot_that_is_paused_at_the_start_stays_connecting_until_it_loses_a_session():
    world = World(make_config(autostart=False, max_offline_s=5.0)).run(10)
    assert world.engine.handshake.open
    assert world.state is State.CONNECTING
    world.server.up = False
    world.run_until(lambda: world.state is State.RECONNECTING)


def test_a_paused_robot_misses_no_server_until_it_is_resumed():
    world = World(make_config(autostart=False, max_offline_s=5.0)).run(1)
    world.server.up = False
    world.run(60)
    assert world.state is State.RECONNECTING
    world.resume()
    world.run(4.9)
    assert world.state is State.RECONNECTING
    world.run(0.2)
    assert world.state is State.DEAD


def test_pause_stops_requests_and_commands_and_keeps_the_queue():
    world = streaming(World())
    world.pause()
    queued, sent, paused_ns = len(world.engine.queue), len(world.sent), world.now_ns
    world.run(2)
    assert queued > 0
    assert len(world.engine.queue) == queued
    assert len(world.sent) == sent
    assert world.commands_since(paused_ns) == []
    assert world.state is State.STREAMING


def test_a_pause_is_no_lack_of_chunks():
    world = streaming(World())
    world.run_until(lambda: world.engine.cycle.wants_chunk(world.now_ns))
    world.pause()
    world.run(5)
    assert world.states() == [State.STREAMING]


def test_a_pause_in_which_the_worker_had_no_turn_is_no_lack_of_chunks_either():
    world = streaming(World(make_config(max_action_age_s=10.0)))
    world.run_until(lambda: world.engine.cycle.wants_chunk(world.now_ns))
    world.run(0.01)
    world.pause()
    world.now_ns += ns(2.0)
    world.resume()
    world.run(0.5)
    assert world.states() == [State.STREAMING]


def test_timeouts_from_before_a_pause_do_not_count_after_it():
    world = streaming(World(make_config(request_timeout_s=0.5, max_timeouts=3, max_action_age_s=10.0)))
    counters = world.engine.counters
    world.server.hung = True
    world.run_until(lambda: counters.request_timeouts == 2)
    world.pause()
    world.run(1)
    world.resume()
    world.run_until(lambda: counters.request_timeouts == 4)
    assert counters.reconnects == 0
    world.run_until(lambda: world.state is State.RECONNECTING)
    assert counters.request_timeouts == 5


def test_the_answer_to_a_request_from_before_the_pause_is_dropped():
    world = streaming(World())
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    world.pause()
    dropped, queued = world.engine.counters.chunks_dropped, len(world.engine.queue)
    world.run(0.5)
    assert world.engine.counters.chunks_dropped == dropped + 1
    assert len(world.engine.queue) == queued


def test_resume_drops_what_has_aged_out():
    world = streaming(World(make_config(max_action_age_s=1.0)))
    world.pause()
    world.run(2)
    queued = len(world.engine.queue)
    resumed_ns = world.now_ns
    world.resume()
    world.run(1)
    assert world.engine.guard.counts["age"] == queued
    assert world.commands_since(resumed_ns)


def test_resume_continues_a_young_queue_from_where_the_arm_is():
    world = streaming(World(make_config(max_action_age_s=5.0)))
    world.pause()
    world.position = np.array([0.9, -0.9])  # moved by hand; the world checks the step against this
    world.run(0.2)
    resumed_ns = world.now_ns
    world.resume()
    world.run(0.06)
    assert world.commands_since(resumed_ns)[0].source is CommandSource.CHUNK


PAUSES_AT_ONCE = {
    "pause": lambda engine: engine.pause_at_once(),
    "the watchdog's stop": lambda engine: engine.take_outside_stop(),
}
each_pause_at_once = pytest.mark.parametrize("pause", PAUSES_AT_ONCE.values(), ids=PAUSES_AT_ONCE)


@each_pause_at_once
def test_a_resume_that_was_called_before_a_pause_does_not_undo_it(pause: Callable[[Engine], None]):
    """A pause acts at once; what was called before it may wait until a busy worker has time."""
    world = streaming(World())
    world.pause()
    world.run(0.5)
    called = world.engine.pauses
    pause(world.engine)
    paused_ns = world.now_ns
    assert world.resume(called) == "paused meanwhile"
    assert world.engine.paused
    world.run(0.5)
    assert world.commands_since(paused_ns) == []


@each_pause_at_once
def test_a_resume_that_was_called_after_a_pause_follows_it_though_the_worker_does_both_later(
    pause: Callable[[Engine], None],
):
    world = streaming(World())
    pause(world.engine)
    called = world.engine.pauses
    world.pause()
    assert world.resume(called) == ""
    assert not world.engine.paused


def test_reset_begins_an_episode_with_an_empty_queue_and_keeps_the_latency():
    world = streaming(World())
    delay = world.engine.cycle.latency.quantile_s(1.0)
    sent = len(world.sent)
    world.reset()
    assert len(world.engine.queue) == 0
    assert world.engine.episode.id == 1
    assert delay is not None
    assert world.engine.cycle.latency.quantile_s(1.0) == delay
    (call,) = world.all(ResetSession)
    assert (call.server, call.episode_id) == ("/server_a", 1)
    world.run(3)
    episode = world.sent[sent:]
    assert {request.episode_id for request in episode} == {1}
    assert [request.episode_start for request in episode] == [True] + [False] * (len(episode) - 1)
    assert State.STALLED not in world.states()  # an empty queue is no surprise after a reset


def test_a_chunk_of_the_previous_episode_is_dropped():
    world = streaming(World())
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    world.reset()
    dropped = world.engine.counters.chunks_dropped
    world.run(1)
    assert world.engine.counters.chunks_dropped == dropped + 1


def test_reset_sets_another_task_or_keeps_the_one_it_has():
    world = streaming(World())
    world.reset("clap")
    world.run(1)
    assert world.sent[-1].task == "clap"
    world.reset()
    world.run(1)
    assert world.sent[-1].task == "clap"
    assert world.sent[-1].episode_id == 2


def test_an_observation_known_before_the_reset_is_not_used_after_it():
    world = streaming(World())
    world.sensors = dict.fromkeys(TOPICS, False)
    world.run(0.05)
    world.reset()
    sent = len(world.sent)
    world.run(0.3)
    assert len(world.sent) == sent


def test_an_observation_captured_before_the_reset_is_not_used_when_it_is_announced_after_it():
    """Sensors are announced every few milliseconds: what arrived in between shows the old episode too."""
    world = streaming(World())
    world.sensors = dict.fromkeys(TOPICS, False)
    world.run(0.3)
    arrived_ns = world.now_ns
    world.now_ns += ns(0.005)
    world.reset()
    sent = len(world.sent)
    world.now_ns += ns(0.005)
    world.arrivals = dict.fromkeys(TOPICS, arrived_ns)
    world.carry_out(world.engine.take_sensors(dict(world.arrivals), world.position, world.now_ns))
    assert len(world.sent) == sent


def test_an_unacknowledged_reset_is_reported_within_a_second():
    world = streaming(World())
    world.server.acknowledges_resets = False
    world.reset()
    world.run(0.9)
    assert world.all(ResetEnded) == []
    world.run(0.2)
    assert world.all(ResetEnded) == [ResetEnded(1, False, "no acknowledgement within 1 s")]
    world.run(5)
    assert len(world.all(ResetEnded)) == 1
    assert world.state is State.STREAMING  # the server has nothing that it must do


def test_a_refused_reset_is_reported_with_the_servers_words():
    world = streaming(World())
    world.server.acknowledges_resets = False
    world.reset()
    world.carry_out(world.engine.take_reset_reply(1, False, "session 'x' is not open"))
    world.run(2)
    assert world.all(ResetEnded) == [ResetEnded(1, False, "refused by /server_a: session 'x' is not open")]


def test_an_acknowledged_reset_is_reported_as_such():
    world = streaming(World())
    world.reset()
    world.run(0.1)
    assert world.all(ResetEnded) == [ResetEnded(1, True, "acknowledged by /server_a")]


def test_the_acknowledgement_of_an_earlier_reset_does_not_count():
    world = streaming(World())
    world.server.acknowledges_resets = False
    world.reset()
    world.reset()
    world.carry_out(world.engine.take_reset_reply(1, True, ""))
    world.run(2)
    assert world.all(ResetEnded) == [
        ResetEnded(1, False, "overtaken by the next reset"),
        ResetEnded(2, False, "no acknowledgement within 1 s"),
    ]


def test_a_reset_without_a_session_is_kept_for_the_next_one():
    world = World()
    world.server.up = False
    world.run(0.5)
    world.reset()
    assert world.all(ResetSession) == []
    assert world.all(ResetEnded) == [ResetEnded(1, False, "no server is in use")]
    world.server.up = True
    world.run_until(lambda: len(world.sent) > 0)
    assert (world.sent[0].episode_id, world.sent[0].episode_start) == (1, True)


def test_a_reset_that_waits_when_the_robot_gives_up_is_ended():
    world = streaming(World())
    world.server.acknowledges_resets = False
    world.reset()
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    assert world.all(ResetEnded) == [ResetEnded(1, False, "stopped: another policy")]


def test_a_paused_robot_says_why_until_it_is_resumed():
    world = World(make_config(autostart=False)).run(0.1)
    assert world.engine.pause_cause == "the node starts so (autostart: false)"
    world.resume()
    assert (world.engine.paused, world.engine.pause_cause) == (False, "")
    world.pause()
    assert world.engine.pause_cause == "pause was called"


def test_the_first_cause_of_a_pause_stands_but_not_before_that_of_stopped_controllers():
    """A press of pause after the controllers were stopped has stopped nothing."""
    world = streaming(World())
    world.pause()
    world.engine.take_outside_stop("the command watchdog has stopped the controllers: silent")
    world.pause()
    assert world.engine.pause_cause == "the command watchdog has stopped the controllers: silent"


def test_a_pause_of_any_thread_says_its_cause_at_once():
    world = streaming(World())
    world.engine.pause_at_once("run_policy: TIME_OUT: after 30 s")
    world.pause()
    assert world.engine.pause_cause == "run_policy: TIME_OUT: after 30 s"
