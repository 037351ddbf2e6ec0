# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The engine's ordinary life: handshake, request cycle, pause, reset, blocking mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from remote_inference.base.policy import Continuation
from remote_inference.robot.command import CommandSource
from remote_inference.robot.engine import Engine
from remote_inference.robot.safety.effects import (
    CloseSession,
    GetStatus,
    Inform,
    OpenSession,
    SendRequest,
    Warn,
)
from remote_inference.robot.safety.state_machine import State
from support.builders import CHUNK_SIZE, JOINTS, PERIOD_NS, TOPICS, make_config, make_contract, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import SENSOR_NS, World, streaming


def first_steps(world: World) -> dict[int, int]:
    """Return the first row executed of each chunk, by seq_id."""
    firsts: dict[int, int] = {}
    for _, tick in world.ticks:
        if tick.queued is not None:
            firsts.setdefault(tick.queued.source.seq_id, tick.queued.step_index)
    return firsts


def test_the_handshake_is_status_open_match_then_the_first_request():
    world = World()
    world.presence = False
    world.run(1)
    calls = [type(effect) for _, effect in world.effects]
    assert calls == [GetStatus, OpenSession, Inform, Warn]
    assert world.all(Inform)[0].text == (
        "server /server_a: merge_mode is auto: each chunk replaces the queue, without its stale actions"
    )
    world.presence = True
    world.run(0.3)
    assert type(world.effects[4][1]) is SendRequest
    assert world.states() == [State.STREAMING]


def test_the_offer_says_what_the_contract_says():
    world = World().run(0.1)
    offer = world.all(OpenSession)[0].offer
    assert offer.action_names == offer.state_names == JOINTS
    assert [image.name for image in offer.images] == ["observation.images.front"]
    assert (offer.session_epoch, offer.fps, offer.task, offer.wants_rtc) == (1, 20.0, "wave", True)


def test_the_handshake_alone_does_not_stream():
    world = World()
    world.server.hung = True
    world.run(3)
    assert world.sent
    assert world.state is State.CONNECTING


def test_exactly_one_request_is_in_flight():
    world = World(make_config(max_action_age_s=10.0))
    world.inference_ns = ns(0.9)
    world.run(0.9)
    assert len(world.sent) == 1
    world.run(1)
    assert len(world.sent) == 2


def test_it_asks_when_playback_runs_low_and_not_before():
    world = World(make_config(buffer_time_s=0.4)).run(10)
    assert len(world.sent) > 8
    assert max(world.queue_at_request) <= 8
    assert min(world.queue_at_request[2:]) >= 6  # and does not wait for the queue to run dry


def test_auto_buffer_is_at_least_a_fifth_of_a_second():
    world = World(make_config(buffer_time_s="auto")).run(10)
    assert set(world.queue_at_request[2:]) == {4}


def test_auto_buffer_is_twice_the_latency():
    world = World(make_config(buffer_time_s="auto"))
    world.inference_ns = ns(0.28)  # and two hops of 0.01 s
    world.run(15)
    assert set(world.queue_at_request[5:]) <= {11, 12}


def test_requests_carry_the_rows_since_their_capture_and_the_expected_delay():
    """Row k of a prefix is for control tick k after the capture, as row k of the chunk that continues it."""
    world = World(make_config(buffer_time_s=0.9))
    world.inference_ns = ns(0.18)  # a cycle takes 0.2 s: 4 control ticks
    world.server.response_s = 0.18
    streaming(world).run(3)
    assert world.sent[0].prefix_model is None
    assert world.sent[0].prefix_robot is None
    assert world.sent[0].inference_delay_steps == 4
    ticks = [(at_ns, tick.queued.model) for at_ns, tick in world.ticks if tick.queued]
    executed_since = set()
    for request, queued, capture_ns in list(
        zip(world.sent, world.queue_at_request, world.capture_ns, strict=True)
    )[3:-1]:
        assert request.prefix_model is not None
        assert request.inference_delay_steps in {4, 5}
        executed_since.add(len(request.prefix_model) - queued)
        # Until its answer is merged. A tick at the very instant of the capture may come before it or after.
        until_merged = request.prefix_model[:4].tobytes()
        possible = [
            np.array([row for at_ns, row in ticks if at_ns >= first_ns][:4]).tobytes()
            for first_ns in (capture_ns, capture_ns + 1)
        ]
        assert until_merged in possible
    assert 1 in executed_since, "else it proves nothing"


def test_a_cold_robot_tells_the_latency_from_its_first_request_on():
    """A policy that plans for the moment of arrival must not be told zero, in whatever order things begin."""
    world = World(make_config(autostart=False))
    world.inference_ns = ns(0.6)
    world.server.response_s = 0.6
    world.run(2)
    world.reset()
    world.resume()
    world.run(3)
    world.pause()
    world.run(1)
    world.reset()
    world.resume()
    world.run(3)
    world.server.restart()
    world.run(8)
    assert {request.session_epoch for request in world.sent} == {1, 2}
    assert len(world.sent) > 8
    # 0.62 s, and at most a sensor's period more, are 13 ticks of 50 ms.
    assert {request.inference_delay_steps for request in world.sent} <= {13, 14}


def test_the_rows_executed_meanwhile_are_skipped():
    """Row k of a chunk is for control tick k after its capture."""
    world = World(make_config(buffer_time_s=0.6))
    world.inference_ns = ns(0.18)
    streaming(world).run(5)
    firsts = first_steps(world)
    assert firsts.pop(1) == 0
    assert set(firsts.values()) <= {3, 4, 5}


@pytest.mark.parametrize(("merge_mode", "longest"), [("auto", CHUNK_SIZE), ("append", CHUNK_SIZE + 10)])
@pytest.mark.parametrize("continuation", [Continuation.GUIDANCE, Continuation.NONE])
def test_a_chunk_replaces_the_queue_unless_it_is_to_be_appended(
    continuation: Continuation, merge_mode: str, longest: int
):
    world = World(make_config(merge_mode=merge_mode), [SimulatedServer("/server_a")])
    world.server.spec = replace(world.server.spec, continuation=continuation)
    lengths = []
    for _ in range(400):
        world.run(0.01)
        lengths.append(len(world.engine.queue))
    assert longest - 3 <= max(lengths) <= longest


def test_an_observation_is_never_used_twice():
    """A frozen camera must not look fresh, even while its last image is young."""
    world = World(make_config(max_sensor_age_s=5.0))
    streaming(world)
    world.sensors[TOPICS[1]] = False
    sent = len(world.sent)
    world.run(3)
    assert len(world.sent) <= sent + 1
    world.sensors[TOPICS[1]] = True
    world.run(1)
    assert len(world.sent) > sent + 1


@pytest.mark.parametrize("topic", TOPICS)
def test_a_stale_sensor_blocks_requests_and_is_named(topic: str):
    world = streaming(World())
    world.sensors[topic] = False
    world.run(0.6)
    sent = len(world.sent)
    world.run(3)
    assert world.engine.cycle.stale_sources == (topic,)
    assert len(world.sent) == sent
    world.sensors[topic] = True
    world.run(0.5)
    assert world.engine.cycle.stale_sources == ()
    assert len(world.sent) > sent
    assert world.state is State.STREAMING


def test_a_sensor_that_never_came_blocks_requests_and_is_named():
    world = World()
    world.sensors[TOPICS[1]] = False
    world.run(2)
    assert world.sent == []
    assert world.engine.cycle.stale_sources == (TOPICS[1],)


def test_capture_is_the_arrival_of_the_oldest_source():
    world = World()
    world.sensors[TOPICS[1]] = False
    world.after(0, lambda: world.arrivals.update({TOPICS[1]: world.now_ns}))
    oldest_ns = world.now_ns
    world.run_until(lambda: len(world.engine.queue) > 0)
    action = world.engine.queue.get()
    assert action is not None
    assert action.source.capture_ns == oldest_ns
    assert world.arrivals[TOPICS[0]] > oldest_ns


def test_blocking_mode_asks_only_when_the_queue_is_empty_and_holds_meanwhile():
    world = World(make_config(request_mode="blocking"))
    world.inference_ns = ns(0.3)
    world.run(10)
    assert len(world.sent) > 5
    assert set(world.queue_at_request) == {0}
    assert world.states() == [State.STREAMING]  # waiting is no fault here
    sources = {tick.source for _, tick in world.ticks}
    assert sources == {CommandSource.CHUNK, CommandSource.NONE}
    # The robot was held while it waited: skipping the rows of 0.3 s would command a jump. One tick may pass
    # between the capture and the request.
    assert set(first_steps(world).values()) <= {0, 1}


def test_a_buffer_longer_than_a_chunk_is_no_fault():
    """Then a chunk is wanted all the time; what counts is that chunks come."""
    world = World(make_config(buffer_time_s=2.0)).run(6)
    assert world.states() == [State.STREAMING]


def test_closing_ends_the_session_once():
    world = streaming(World())
    session = world.engine.handshake.session
    assert session is not None
    assert world.engine.close() == [CloseSession("/server_a", session.session_id, session.session_token)]
    assert world.engine.close() == []


def test_equal_seeds_and_events_give_equal_effects():
    """Sans-IO: nothing but the events decides."""

    def play() -> list[str]:
        engine = Engine(make_contract(), make_config(), "/c", "/r", seed=3)
        effects = []
        for tick in range(400):
            now_ns = tick * PERIOD_NS
            effects += [f"{now_ns} {effect}" for effect in engine.tick(now_ns)]
            if tick % (SENSOR_NS // PERIOD_NS + 1) == 0:
                engine.take_sensors(dict.fromkeys(TOPICS, now_ns), np.zeros(2), now_ns)
        return effects

    assert play() == play()
    assert len(play()) > 5


@pytest.mark.parametrize("reset_meanwhile", [False, True])
def test_an_episode_still_begins_when_its_first_observation_could_not_be_sent(reset_meanwhile: bool):
    world = streaming(World())
    taken_back = []
    carry_out = world.carry_out

    def fail_once(effects: list) -> None:
        for effect in effects:
            if isinstance(effect, SendRequest) and not taken_back:
                taken_back.append(effect.request)
                if reset_meanwhile:
                    world.engine.reset("", world.now_ns)
                world.engine.take_back_request()
            else:
                carry_out([effect])

    world.reset()
    world.carry_out = fail_once
    sent = len(world.sent)
    world.run(1)
    assert taken_back[0].episode_start
    starts = [request.episode_start for request in world.sent[sent:]]
    assert starts[0]
    assert not starts[-1]
    assert world.sent[sent].episode_id == world.engine.episode.id


def test_it_awaits_an_observation_only_while_nothing_else_is_missing_for_a_request():
    """Images are encoded ahead then: not while paused, in flight, or with a full queue."""
    world = World()
    assert not world.engine.awaits_observation(world.now_ns)
    seen = set()
    for _ in range(400):
        world.run(0.005)
        in_flight = world.sent and world.engine.counters.chunks_merged < len(world.sent)
        awaits = world.engine.awaits_observation(world.now_ns)
        seen.add(awaits)
        assert not (awaits and in_flight)
        assert not (awaits and not world.engine.cycle.wants_chunk(world.now_ns))
    assert seen == {True, False}
    world.pause()
    assert not world.engine.awaits_observation(world.now_ns)
