# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Choosing among servers, and giving up: refusals, silence, draining, contract violations, time offline."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import ChunkStatus, SessionReply, StatusReply
from remote_inference.robot.requests.handshake import Phase
from remote_inference.robot.safety.effects import CloseSession, GetStatus, Inform, OpenSession, Stop
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.safety.supervisor import MAX_STARTS
from support.builders import contract_document, make_config, make_spec, ns
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, stopped, streaming

EMPTY = np.empty((0, 0), np.float32)
TWO = ("/server_a", "/server_b")


def servers_tried(world: World) -> list[str]:
    """Return the servers in the order of the attempts: get_status is sent twice to one that is silent."""
    return [server for server, _ in groupby(call.server for call in world.all(GetStatus))]


def fill(server: SimulatedServer) -> None:
    server.max_sessions = 0


def kill(server: SimulatedServer) -> None:
    server.up = False


def drain(server: SimulatedServer) -> None:
    server.accepting = False


@pytest.mark.parametrize("trouble", [fill, kill, drain])
def test_a_server_that_refuses_or_is_silent_gives_way_to_the_next(trouble: Any):
    world = World(make_config(servers=TWO))
    trouble(world.servers["/server_a"])
    world.run_until(lambda: world.state is State.STREAMING, limit_s=4)
    assert servers_tried(world) == ["/server_a", "/server_b"]
    assert world.engine.handshake.server == "/server_b"
    assert "/server_a" in world.warnings()


@pytest.mark.parametrize(("accepts", "tried"), [(True, TWO[:1]), (False, TWO)])
def test_a_robot_that_wants_no_updates_of_weights_is_served_by_a_server_that_takes_none(
    accepts: bool, tried: tuple[str, ...]
):
    world = World(make_config(servers=TWO, accept_weight_updates=accepts))
    world.servers["/server_a"].updates_weights = True
    world.run_until(lambda: world.state is State.STREAMING, limit_s=4)
    assert servers_tried(world) == list(tried)
    assert world.engine.handshake.server == tried[-1]
    assert ("trainers may change the server's" in world.warnings()) == (not accepts)


def test_a_server_at_capacity_is_asked_again_later_and_is_no_violation():
    world = World(make_config(servers=TWO, max_offline_s=3600.0))
    for server in world.servers.values():
        fill(server)
    world.run(60)
    assert not stopped(world)
    assert servers_tried(world)[:4] == [*TWO, *TWO]
    assert 8 <= len(servers_tried(world)) <= 40  # backed off
    assert "capacity" in world.warnings()
    world.servers["/server_b"].max_sessions = 4
    world.run_until(lambda: world.state is State.STREAMING)


def test_attempts_are_counted_per_handshake_step_that_makes_no_progress():
    """Granted, but our endpoints never match: the session is given back before the next attempt."""
    world = World(make_config(servers=TWO))
    world.presence = False
    world.run(3)
    (closed,) = world.all(CloseSession)
    assert closed.server == "/server_a"
    assert servers_tried(world) == ["/server_a", "/server_b"]


def test_a_grant_that_comes_too_late_is_given_back_to_the_server_that_granted_it():
    """Otherwise it occupies a place there until it is idle for five minutes."""
    world = World(make_config(servers=TWO))
    a = world.servers["/server_a"]
    world.run_until(lambda: bool(world.all(OpenSession)))
    epoch = world.all(OpenSession)[0].offer.session_epoch
    kill(a)
    world.run_until(lambda: world.engine.handshake.server == "/server_b")
    late = SessionReply(accepted=True, session_id="late", server_instance_id=a.instance_id)
    effects = world.engine.take_session_reply("/server_a", epoch, late, world.now_ns)
    assert effects == [CloseSession("/server_a", "late")]
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_grant_of_an_earlier_attempt_is_not_taken_for_the_current_one():
    world = World(make_config(service_timeout_s=0.5))
    world.run_until(lambda: bool(world.all(OpenSession)))
    kill(world.server)
    world.run(0.3)
    world.server.restart()
    world.run_until(lambda: len(world.all(OpenSession)) == 2)
    late = SessionReply(accepted=True, session_id="late", action_names=("shoulder", "elbow"))
    assert world.engine.take_session_reply("/server_a", 1, late, world.now_ns) == [
        CloseSession("/server_a", "late")
    ]
    assert world.engine.handshake.session is None
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_reconnect_waits_for_matched_endpoints_too():
    world = streaming(World())
    world.server.restart()
    world.carry_out(world.engine.take_server_status("/server_a", "another instance", (), world.now_ns))
    world.presence = False
    sent = len(world.sent)
    world.run(1)
    assert world.engine.handshake.epoch == 2
    assert len(world.sent) == sent
    world.presence = True
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_late_refusal_is_ignored():
    world = streaming(World())
    assert (
        world.engine.take_session_reply(
            "/server_a", 0, SessionReply(accepted=False, rejection="actions"), world.now_ns
        )
        == []
    )
    assert world.engine.take_session_reply("/server_a", 0, None, world.now_ns) == []
    assert world.state is State.STREAMING


def test_the_late_status_of_another_server_is_ignored():
    world = World(make_config(servers=TWO)).run(0.001)
    assert world.engine.take_status_reply("/server_b", StatusReply(accepting=True), world.now_ns) == []


def test_a_lost_answer_of_get_status_costs_no_pause():
    """Under Zenoh, a server may answer before it has discovered the robot."""
    world = World()
    kill(world.server)
    world.run(0.1)
    world.server.up = True
    world.run_until(lambda: world.state is State.STREAMING, limit_s=world.config.service_timeout_s)
    assert "did not answer" not in world.warnings()


def test_silence_that_the_caller_notices_counts_as_silence():
    world = World(make_config(servers=TWO))
    kill(world.servers["/server_a"])
    world.run(0.1)
    world.carry_out(world.engine.take_status_reply("/server_a", None, world.now_ns))
    world.run(0.5)
    assert world.state is State.STREAMING
    assert world.engine.handshake.server == "/server_b"


def change_reply(**changes: Any) -> Any:
    return lambda reply: replace(reply, **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"action_names": ("elbow", "shoulder")}, ["action 0", "'shoulder'", "'elbow'"]),
        ({"action_names": ("shoulder",)}, ["2", "1"]),
        ({"action_names": ("shoulder", "elbow", "wrist")}, ["2", "3"]),
        ({"schema_version": 2}, ["schema", "2"]),
        ({"schema_version": 0}, ["schema", "0"]),
        ({"chunk_size": 0}, ["chunk_size", "0", "at least 1"]),
        ({"accepted": False, "rejection": "actions", "message": "action 0 is"}, ["action 0 is"]),
    ],
)
def test_an_answer_that_violates_the_contract_is_the_end(changes: dict[str, Any], words: list[str]):
    world = World()
    world.server.alter_reply = change_reply(**changes)
    world.run(5)
    assert world.state is State.DEAD
    (stop,) = world.all(Stop)
    assert all(word in stop.cause for word in words)
    assert "/server_a" in stop.cause
    assert world.sent == []
    assert world.engine.playback.control.operator.halted
    assert world.states() == [State.DEAD]


def reconnect_to_another_policy(**config: Any) -> World:
    world = streaming(World(make_config(**config)))
    world.server.spec = make_spec(fingerprint="f2")
    world.server.restart()
    return world


def test_another_policy_than_the_session_began_with_is_the_end():
    """Chunks of another policy must not be executed by a robot in the middle of a task."""
    world = reconnect_to_another_policy()
    world.run_until(lambda: stopped(world), limit_s=3)
    died_ns = world.now_ns
    assert "f1" in world.all(Stop)[0].cause
    assert "f2" in world.all(Stop)[0].cause
    assert "accept it once, start this robot's node again; " in world.all(Stop)[0].cause
    assert "accept_new_policy" in world.all(Stop)[0].cause
    world.run(2)
    assert world.commands_since(died_ns) == []
    assert world.states()[-2:] == [State.RECONNECTING, State.DEAD]


def test_another_policy_is_accepted_when_the_operator_says_so():
    world = reconnect_to_another_policy(accept_new_policy=True)
    world.run_until(lambda: world.engine.counters.reconnects == 1)
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_new_policy_is_not_asked_to_continue_rows_of_the_one_before():
    """The robot still executes them when it asks the new one."""
    servers = [SimulatedServer("/server_a"), SimulatedServer("/server_b", make_spec(fingerprint="f2"))]
    world = World(make_config(servers=TWO, accept_new_policy=True, buffer_time_s=0.9), servers)
    streaming(world).run(1)
    assert world.sent[-1].prefix_model is not None
    sent = len(world.sent)
    world.fate = lambda chunk: [(0, replace(chunk, status=ChunkStatus.DRAINING))]
    drain(servers[0])
    world.run_until(lambda: bool(servers[1].registry.all()))
    world.fate = lambda chunk: [(0, chunk)]
    world.run_until(lambda: world.sent[-1].session_id == world.engine.session_id != world.sent[0].session_id)
    assert len(world.sent) > sent
    assert world.queue_at_request[-1] > 0
    assert world.sent[-1].prefix_model is None
    assert world.sent[-1].prefix_robot is None
    merged = world.engine.counters.chunks_merged
    world.run_until(lambda: world.engine.counters.chunks_merged > merged + 1)
    assert world.sent[-1].prefix_model is not None, "its own rows it continues"


def test_the_policy_is_compared_with_the_next_servers_too():
    world = World(
        make_config(servers=TWO),
        servers=[SimulatedServer("/server_a"), SimulatedServer("/server_b", make_spec(fingerprint="f2"))],
    )
    streaming(world)
    kill(world.servers["/server_a"])
    world.run_until(lambda: stopped(world), limit_s=10)
    assert "/server_b" in world.all(Stop)[0].cause


def test_too_long_offline_is_the_end_and_not_a_moment_earlier():
    world = streaming(World(make_config(max_offline_s=10.0)))
    kill(world.server)
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run(9.8)
    assert world.state is State.RECONNECTING
    world.run(0.4)
    assert world.state is State.DEAD
    (stop,) = world.all(Stop)
    assert "10 s" in stop.cause
    died_ns = world.now_ns
    world.server.restart()
    world.run(20)
    assert world.commands_since(died_ns) == []
    assert len(world.all(Stop)) == 1


def test_time_offline_is_counted_anew_after_each_recovery():
    world = streaming(
        World(make_config(max_offline_s=5.0, reconnect_max_backoff_s=0.5, service_timeout_s=0.5))
    )
    for _ in range(4):
        kill(world.server)
        world.run(3)
        world.server.restart()
        world.run_until(lambda: world.state is State.STREAMING)
    world.run(6)
    assert not stopped(world)
    assert not world.engine.playback.control.operator.halted


@pytest.mark.parametrize("obstacle", ["pause", "sensor"])
def test_time_offline_does_not_count_while_a_robot_with_a_session_must_not_ask(obstacle: str):
    world = streaming(World(make_config(max_offline_s=5.0)))
    if obstacle == "pause":
        world.pause()
    else:
        world.sensors["joint_states"] = False
        world.run(1)
    world.server.restart()
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run(15)
    assert world.engine.handshake.open
    assert world.state is State.RECONNECTING


def waits(world: World) -> list[str]:
    return [told.text for told in world.all(Inform) if "waits for" in told.text]


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_robot_waits_as_long_as_a_server_loads_and_says_so_once(is_heard: bool):
    """A status may be lost: each attempt asks for it, too."""
    world = streaming(World(make_config(max_offline_s=5.0)))
    kill(world.server)
    world.run(1)
    if is_heard:
        world.load(world.server)
    else:
        world.server.restart()
        world.server.loading = True
    world.run(40)
    assert world.state is State.RECONNECTING
    assert world.engine.cause.endswith("; waits for /server_a to load the policy")
    assert waits(world) == ["waits for /server_a to load the policy: the clock of max_offline_s stands"]
    assert "accepts no sessions" not in world.warnings()
    world.server.loading = False
    world.run_until(lambda: world.state is State.STREAMING, limit_s=2)
    assert "waits" not in world.engine.cause


def test_a_server_that_ends_while_it_loads_is_waited_for_until_it_is_found_silent():
    world = streaming(World(make_config(max_offline_s=5.0)))
    world.load(world.server)
    world.run(30)
    kill(world.server)
    asked = len(world.all(GetStatus))
    world.run_until(lambda: len(world.all(GetStatus)) > asked)
    world.run(world.config.service_timeout_s)
    assert "waits" not in world.engine.cause
    assert world.state is State.RECONNECTING
    world.run(4.8)
    assert world.state is State.RECONNECTING
    world.run(0.4)
    assert world.state is State.DEAD


def test_a_server_that_crashes_again_and_again_while_it_loads_is_not_waited_for():
    world = streaming(World(make_config(max_offline_s=5.0)))
    for _ in range(MAX_STARTS):
        world.load(world.server)
        world.run(8)
        assert "waits for /server_a" in world.engine.cause
        kill(world.server)
        world.run(1)
    assert world.state is State.RECONNECTING
    world.load(world.server)
    world.run(1)
    assert f"/server_a started more than {MAX_STARTS} times and loads again" in world.engine.cause
    assert "the clock of max_offline_s runs" in world.warnings()
    world.run(5)
    assert world.state is State.DEAD


def test_crashes_are_counted_where_no_status_arrives_but_answers_do():
    world = streaming(World(make_config(max_offline_s=5.0)))
    kill(world.server)
    world.run(1)
    for _ in range(3 * MAX_STARTS):
        world.server.restart()
        world.server.loading, world.server.loads = True, world.server.loads + 1  # and no status says so
        world.run(3)
        kill(world.server)
        world.run(1)
    assert world.state is State.DEAD


def test_a_server_that_was_repaired_while_the_robot_was_paused_is_waited_for():
    world = streaming(World(make_config(max_offline_s=5.0)))
    for _ in range(MAX_STARTS):
        world.load(world.server)
        world.run(3)
        kill(world.server)
        world.run(1)
    world.pause()
    world.load(world.server)
    world.run(8)
    world.resume()
    world.run(20)
    assert "waits for /server_a" in world.engine.cause


def test_updates_of_a_server_that_each_go_well_are_no_crashes():
    """Without its sensor the robot asks for no chunk that could say so."""
    world = streaming(World(make_config(max_offline_s=5.0)))
    world.sensors["joint_states"] = False
    world.run(1)
    for _ in range(2 * MAX_STARTS):
        world.load(world.server)
        world.run(7)
        assert "waits for /server_a" in world.engine.cause
        world.server.loading = False
        world.run(6)
        assert world.engine.handshake.open


def test_a_server_that_loads_holds_no_robot_back_from_the_next():
    world = streaming(World(make_config(servers=TWO)))
    world.load(world.server)
    world.run_until(lambda: world.engine.handshake.server == "/server_b" and world.engine.handshake.open)
    assert "waits" not in world.engine.cause


def test_a_robot_may_wait_for_its_first_server():
    world = World(make_config(max_offline_s=5.0))
    kill(world.server)
    world.run(30)
    assert world.state is State.CONNECTING
    world.server.restart()
    world.run_until(lambda: world.state is State.STREAMING)


def test_draining_moves_on_while_the_queue_still_feeds_the_robot():
    world = streaming(World(make_config(servers=TWO)))
    a = world.servers["/server_a"]
    drain(a)
    world.fate = lambda chunk: [
        (
            0,
            chunk
            if a.registry.get(chunk.session_id) is None
            else replace(chunk, status=ChunkStatus.DRAINING),
        )
    ]
    merged, moved_ns = world.engine.counters.chunks_merged, world.now_ns
    world.run(3)
    assert world.engine.handshake.server == "/server_b"
    assert world.state is State.STREAMING
    assert world.engine.counters.chunks_merged > merged
    assert world.engine.counters.chunks_rejected == 0  # the last chunk of the draining server is used
    assert all(tick.command is not None for at_ns, tick in world.ticks if at_ns > moved_ns)
    assert a.closed
    assert servers_tried(world) == ["/server_a", "/server_b"]  # it does not ask the draining one again
    assert State.RECONNECTING in world.states()


def test_a_lone_draining_server_is_asked_again_until_it_accepts():
    world = streaming(World())
    drain(world.server)
    world.fate = lambda chunk: [(0, replace(chunk, status=ChunkStatus.DRAINING))]
    world.run(5)
    assert world.state is State.RECONNECTING
    world.server.accepting = True
    world.fate = lambda chunk: [(0, chunk)]
    world.run_until(lambda: world.state is State.STREAMING)


def test_each_session_has_a_new_epoch():
    world = streaming(World())
    for _ in range(2):
        world.server.restart()
        reconnects = world.engine.counters.reconnects
        world.run_until(lambda before=reconnects: world.engine.counters.reconnects > before)
        world.run_until(lambda: world.state is State.STREAMING)
    epochs = [request.session_epoch for request in world.sent]
    assert sorted(set(epochs)) == [1, 2, 3]
    assert epochs == sorted(epochs)


def test_the_first_cycle_after_a_reconnect_is_not_counted_as_latency():
    world = streaming(World())
    longest = world.engine.cycle.latency.quantile_s(1.0)
    world.server.restart()
    world.inference_ns = ns(0.9)
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run_until(lambda: world.state is State.STREAMING)
    assert world.engine.cycle.latency.quantile_s(1.0) == longest


def test_an_error_while_draining_moves_the_robot_on_too():
    world = streaming(World(make_config(servers=TWO)))
    a = world.servers["/server_a"]
    drain(a)
    failed = {"status": ChunkStatus.DRAINING, "message": "out of memory", "model": EMPTY, "robot": EMPTY}
    world.fate = lambda chunk: [
        (0, replace(chunk, **failed) if a.registry.get(chunk.session_id) else chunk),
    ]
    world.run(3)
    assert world.engine.handshake.server == "/server_b"
    assert world.state is State.STREAMING
    assert "server answered DRAINING: out of memory" in world.warnings()
    assert State.STALLED not in world.states()


def test_a_newcomer_waits_while_another_node_of_its_name_is_alive():
    world = World()
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    world.run(20)
    assert world.all(GetStatus) == []
    assert world.commands_since(0) == []
    assert world.warnings().count("another node is called /robot_1/client") == 1
    world.carry_out(world.engine.take_duplicate_node(False, world.now_ns))
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_newcomer_that_finds_the_other_node_late_gives_its_session_back():
    world = World()
    world.presence = False
    world.run_until(lambda: world.engine.handshake.phase is Phase.MATCHING)
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    world.run(1)
    assert world.server.closed
    assert world.engine.handshake.session is None
    assert world.state is State.CONNECTING


def test_a_robot_that_has_had_a_session_does_not_give_way_to_a_newcomer():
    world = streaming(World())
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    world.run(2)
    assert world.state is State.STREAMING
    world.server.restart()
    world.run(5)
    assert world.state is State.STREAMING


def test_each_process_tells_the_server_who_it_is():
    offers = [world.run(1).all(OpenSession)[0].offer for world in (World(seed=1), World(seed=2))]
    assert offers[0].client_instance_id != offers[1].client_instance_id


def test_a_robot_that_was_taken_over_while_it_slept_gives_up_and_moves_nothing():
    """Its successor drives the arm by now: neither the fallback nor the way home may interfere."""
    document = contract_document() | {"home": {"positions": [0.5, 0.5], "duration_s": 1.0}}
    contract = parse_document(document, Contract, "test.contract.yaml")
    world = streaming(World(make_config(fallback="repeat_last"), contract=contract))
    world.server.restart()
    refused = {"accepted": False, "rejection": "name", "message": "belongs to another process"}
    world.server.alter_reply = lambda reply: replace(reply, **refused)
    world.run_until(lambda: stopped(world))
    dead_ns = world.now_ns
    world.run(3)
    assert world.commands_since(dead_ns) == []
    assert "taken this robot over" in world.engine.machine.cause
    assert world.engine.playback.finished


def test_a_newcomer_that_is_refused_for_its_name_tries_again():
    world = World()
    world.server.max_sessions = 100  # the real registry behind the altered replies keeps each
    world.server.alter_reply = lambda reply: replace(reply, accepted=False, rejection="name", message="taken")
    world.run(5)
    assert world.state is State.CONNECTING
    world.server.alter_reply = lambda reply: reply
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_session_that_no_status_ever_lists_is_lost():
    """It was taken before the first status came: waiting for it to be listed would be for ever."""
    world = streaming(World())
    (session,) = world.server.registry.all()
    world.server.registry.remove(session.session_id)
    handshake = world.engine.handshake
    handshake._attempt = replace(handshake._attempt, is_listed=False)
    world.run_until(lambda: State.RECONNECTING in world.states(), limit_s=5)
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_dead_robot_is_done_with_its_server():
    """Its session ends with the node, once; nothing that a server does makes it end again."""
    world = streaming(World(make_config(max_offline_s=1.0)))
    session = world.engine.handshake.session
    assert session is not None
    world.server.alter_reply = lambda reply: replace(reply, policy_fingerprint="other")
    world.server.restart()
    world.run_until(lambda: world.engine.dead)
    handshake = world.engine.handshake
    handshake.session, handshake._step = session, replace(handshake._step, phase=Phase.OPEN)
    states = world.states()
    for effects in (
        world.engine.take_server_status(world.server.name, "another", (), world.now_ns),
        world.engine.take_presence(True, world.now_ns),
        world.engine.take_presence(False, world.now_ns),
    ):
        assert effects == []
    assert world.states() == states
    assert [type(effect) for effect in world.engine.close()] == [CloseSession]


def test_a_warning_of_a_rival_is_repeated_now_and_then():
    world = World()
    for _ in range(250):
        world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
        world.run(0.1)
    assert world.warnings().count("another node is called") == 3
