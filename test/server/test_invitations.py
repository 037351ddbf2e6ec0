# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server that returns is asked at once, not when the pause between attempts is over; a full one is not."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from remote_inference.robot.requests.handshake import INVITATION_JITTER_S
from remote_inference.robot.requests.server_list import SILENCE_NS, Invitations
from remote_inference.robot.safety.effects import GetStatus
from remote_inference.robot.safety.state_machine import State
from remote_inference.server.sessions import Session
from support.builders import make_config, ns
from support.robot.simulated_server import Processors
from support.robot.simulation import World, streaming

TWO = ("/server_a", "/server_b")
STATUS_S = 1.0  # a server's status comes once a second


def wait_for_a_long_pause(world: World) -> None:
    """Run until the robot has just begun a pause of about 10 s."""

    def attempts() -> int:
        return len(world.all(GetStatus))

    world.run(30)
    before = attempts()
    world.run_until(lambda: attempts() > before)
    world.run(2.1)  # the attempt's deadline


@pytest.mark.parametrize("returns", ["restart", "thaw", "accept"])
def test_a_server_that_returns_is_asked_at_once(returns: str):
    world = streaming(World(make_config(max_offline_s=3600.0)))
    if returns == "accept":
        world.server.accepting = False
        world.server.registry.remove(world.server.registry.all()[0].session_id)
    else:
        world.server.up = False
    wait_for_a_long_pause(world)
    returned_ns = world.now_ns
    if returns == "restart":
        world.server.restart()
    world.server.up = world.server.accepting = True
    world.run_until(lambda: world.state is State.STREAMING, limit_s=STATUS_S + INVITATION_JITTER_S + 0.3)
    assert world.now_ns > returned_ns


def test_a_restarted_robot_is_served_when_its_predecessor_s_session_has_ended():
    world = World(make_config(max_offline_s=3600.0))
    world.server.max_sessions = 100  # the real registry behind the altered replies keeps each
    world.server.alter_reply = lambda reply: replace(reply, accepted=False, rejection="name", message="taken")
    wait_for_a_long_pause(world)
    world.server.alter_reply = lambda reply: reply
    world.server.registry.remove(world.server.registry.all()[0].session_id)
    world.run_until(lambda: world.state is State.STREAMING, limit_s=STATUS_S + INVITATION_JITTER_S + 0.3)


def test_a_robot_without_a_place_gets_the_next_that_is_free():
    world = World(make_config(max_offline_s=3600.0))
    offer = world.engine.handshake.offer
    others = [Session(name, replace(offer, robot_namespace=f"/{name}"), Processors()) for name in "abcd"]
    for other in others:
        world.server.registry.add(other)
    wait_for_a_long_pause(world)
    assert world.state is State.CONNECTING
    world.server.registry.remove("c")
    world.run_until(lambda: world.state is State.STREAMING, limit_s=STATUS_S + INVITATION_JITTER_S + 0.3)


def test_whichever_listed_server_returns_is_asked_first():
    world = streaming(World(make_config(servers=TWO, max_offline_s=3600.0)))
    for server in world.servers.values():
        server.up = False
    wait_for_a_long_pause(world)
    world.servers["/server_b"].restart()
    world.run_until(lambda: world.state is State.STREAMING, limit_s=4)
    assert world.engine.handshake.server == "/server_b"


def test_a_full_server_that_publishes_its_status_is_asked_with_growing_pauses():
    world = World(make_config(max_offline_s=3600.0))
    world.server.max_sessions = 0
    world.run(60)
    assert len(world.all(GetStatus)) <= 12


def test_a_fleet_does_not_ask_in_the_same_instant():
    asked_ns = []
    for seed in range(20):
        world = World(make_config(max_offline_s=3600.0), seed=seed)
        world.server.up = False
        world.run(30 + 0.3)
        world.server.restart()
        attempts, begun_ns = len(world.all(GetStatus)), world.now_ns
        world.run_until(lambda w=world, n=attempts: len(w.all(GetStatus)) > n, limit_s=4)
        asked_ns.append(world.now_ns - begun_ns)
    assert len(set(asked_ns)) >= 8
    assert max(asked_ns) - min(asked_ns) <= ns(2.5)


def test_an_invitation_stands_until_the_server_has_answered():
    invitations = Invitations()
    assert invitations.note_status("/a", "a#1", True, ns(1))
    assert invitations.note_status("/a", "a#1", True, ns(2))  # its services may be found later
    invitations.answer("/a")
    assert not invitations.note_status("/a", "a#1", True, ns(3))
    assert not invitations.note_status("/a", "a#1", False, ns(4))
    assert invitations.note_status("/a", "a#1", True, ns(5))
    invitations.answer("/a")
    assert invitations.note_status("/a", "a#2", True, ns(6))  # restarted
    invitations.answer("/a")
    assert invitations.note_status("/a", "a#2", True, ns(6) + SILENCE_NS + 1)  # the network was away
    assert not invitations.note_status("/b", "b#1", False, ns(6))


def test_only_who_was_refused_for_another_s_session_hears_an_end_of_one_as_an_invitation():
    invitations = Invitations()

    def hear(at_s: float, *sessions: str) -> bool:
        return invitations.note_status("/a", "a#1", True, ns(at_s), sessions)

    assert hear(1, "x", "y")  # it is new
    invitations.answer("/a")
    assert not hear(2, "y")
    invitations.answer("/a", session_in_the_way=True)
    assert not hear(3, "y")
    assert not hear(4, "y", "z")
    assert hear(5, "y")
    assert hear(6, "y")  # until it has answered
    invitations.answer("/a")
    assert not hear(7)


def test_random_statuses_never_make_a_refusing_server_invite_again():
    rng, invitations, now_ns = random.Random(1), Invitations(), 0
    invitations.note_status("/a", "a#1", True, now_ns)
    invitations.answer("/a")
    for _ in range(200):
        now_ns += rng.randrange(SILENCE_NS)
        assert not invitations.note_status("/a", "a#1", True, now_ns)
