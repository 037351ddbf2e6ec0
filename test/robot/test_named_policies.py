# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One robot, two policies on two servers: each goal names its own, and no session is opened twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remote_inference.base.exchange import SessionReply
from remote_inference.robot.safety.effects import CloseSession, GetStatus, OpenSession
from remote_inference.robot.safety.state_machine import State
from support.builders import make_config, make_spec
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, stopped

A, B = "/server_a", "/server_b"
PICK, PLACE, TAG = "picker", "placer", "task=place"


class Cell(World):
    """A robot that runs the picker of server A, beside the placer of server B."""

    def __init__(self) -> None:
        super().__init__(make_config(servers=(A, B)))
        self.servers[A].spec = make_spec(name=PICK)
        self.servers[B].spec, self.servers[B].tags = make_spec(name=PLACE, fingerprint="f2"), (TAG,)
        self.run_until(lambda: self.state is State.STREAMING)
        self.run(2.0)

    @property
    def in_use(self) -> tuple[str, str]:
        """The server in use and its session, empty without one."""
        return self.engine.handshake.server, self.engine.session_id

    def use(self, policy: str, task: str = "go on") -> None:
        """Begin an episode with a policy, as a goal does."""
        assert not self.engine.handshake.policies.find_problem(policy)
        self.carry_out(self.engine.reset(task, self.now_ns, policy))

    def run_to_chunk(self, limit_s: float = 4.0) -> float:
        """Run until the next chunk is merged; return how long that took [s]."""
        merged, begin_ns = self.engine.counters.chunks_merged, self.now_ns
        self.run_until(lambda: self.engine.counters.chunks_merged > merged, limit_s)
        return (self.now_ns - begin_ns) / 1e9

    def sessions(self, server: str) -> list[str]:
        return [session.session_id for session in self.servers[server].registry.all()]


@pytest.fixture
def cell() -> Cell:
    return Cell()


@pytest.mark.parametrize("name", [PLACE, TAG])
def test_a_goal_s_policy_is_asked_without_a_restart(cell: Cell, name: str):
    (first,) = cell.sessions(A)
    cell.use(name, "put it down")
    cell.run_to_chunk()
    assert cell.in_use == (B, cell.sessions(B)[0])
    assert cell.sent[-1].session_id == cell.sessions(B)[0]
    assert (cell.sent[-1].task, cell.state) == ("put it down", State.STREAMING)
    assert cell.engine.handshake.kept_sessions == [first]
    assert not cell.all(CloseSession)


def test_a_policy_that_was_used_before_answers_within_one_request_cycle(cell: Cell):
    in_use = cell.in_use
    alone_s = cell.run_to_chunk()
    cell.use(PLACE)
    cell.run_to_chunk()
    cell.run(3.0)
    asked = len(cell.all(GetStatus)), len(cell.all(OpenSession))
    cell.use(PICK)
    assert cell.in_use == in_use
    sent = len(cell.sent)
    assert cell.run_to_chunk() <= cell.inference_ns / 1e9 + 0.1 <= alone_s + 0.2
    assert {request.session_id for request in cell.sent[sent:]} == {in_use[1]}
    assert cell.sent[sent].episode_start
    assert (len(cell.all(GetStatus)), len(cell.all(OpenSession))) == asked
    assert cell.state is State.STREAMING


def test_the_policy_in_use_goes_on_in_its_session(cell: Cell):
    in_use = cell.in_use
    cell.use(PICK)
    assert cell.in_use == in_use
    cell.use("")
    assert cell.in_use == in_use
    assert len(cell.all(OpenSession)) == 1


def test_a_named_policy_is_asked_from_no_server_of_another_one(cell: Cell):
    cell.use(PLACE)
    cell.run_to_chunk()
    opened = len(cell.all(OpenSession))
    cell.servers[B].up = False
    cell.run(10.0)
    assert cell.state is State.RECONNECTING
    assert {call.server for call in cell.all(OpenSession)[opened:]} <= {B}
    cell.servers[B].restart()
    cell.run_until(lambda: cell.state is State.STREAMING)
    assert cell.in_use[0] == B


@pytest.mark.parametrize("accepts", [False, True])
def test_a_robot_whose_server_dies_before_any_goal_asks_no_other_policy_but_with_leave(accepts: bool):
    world = World(make_config(servers=(A, B), accept_new_policy=accepts))
    world.servers[A].spec, world.servers[B].spec = (
        make_spec(name=PICK),
        make_spec(name=PLACE, fingerprint="f2"),
    )
    world.run_until(lambda: world.state is State.STREAMING)
    world.run(2.0)
    world.servers[A].up = False
    world.run(10.0)
    assert not stopped(world)
    assert (world.engine.handshake.server == B) == accepts
    world.servers[A].restart()
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_policy_that_moves_to_another_server_is_found_there(cell: Cell):
    cell.use(PLACE)
    cell.run_to_chunk()
    cell.servers[B].up = False
    cell.servers[A].spec = cell.servers[B].spec
    cell.servers[A].restart()
    cell.run_until(lambda: cell.state is State.RECONNECTING)
    cell.run_until(lambda: cell.state is State.STREAMING)
    assert cell.in_use[0] == A


def test_a_policy_that_no_server_has_is_named_with_those_that_there_are(cell: Cell):
    problem = cell.engine.handshake.policies.find_problem("stacker")
    assert problem == f"policy: found 'stacker', expected picker of {A}; or placer, {TAG} of {B}"
    fresh = World(make_config(servers=(A, B))).engine.handshake.policies
    assert "of which none has been heard" in fresh.find_problem(PICK)
    assert "found 300 characters" in fresh.find_problem(300 * "x")


def test_a_policy_that_does_not_fit_moves_nothing_and_the_one_before_stays(cell: Cell):
    in_use, spec = cell.in_use, cell.servers[B].spec
    cell.servers[B].spec = replace(spec, action_names=spec.action_names[::-1])
    cell.use(PLACE)
    at_ns = cell.now_ns
    cell.run_until(lambda: cell.engine.paused)
    assert not any(tick.queued for tick in cell.commands_since(at_ns))
    assert not stopped(cell)
    refused = f"the policy {PLACE} is refused by {B}: refuses (actions): action 0 is"
    assert cell.engine.policy_refused.startswith(refused)
    assert cell.engine.pause_cause == cell.engine.policy_refused
    assert cell.in_use == in_use
    assert cell.resume() == ""
    cell.run_to_chunk()
    assert cell.in_use == in_use
    cell.use(PICK)
    assert not cell.engine.policy_refused


def test_a_policy_has_the_weights_that_its_name_had_first(cell: Cell):
    cell.use(PLACE)
    cell.run_to_chunk()
    cell.use(PICK)
    cell.run_to_chunk()
    cell.servers[B].spec = replace(cell.servers[B].spec, fingerprint="f3")
    cell.servers[B].restart()
    cell.run(2.0)
    cell.use(PLACE)
    cell.run_until(lambda: bool(stopped(cell)))
    assert "policy fingerprint is f3, expected f2" in cell.engine.machine.cause


def test_a_server_that_serves_another_policy_by_now_is_left_at_once(cell: Cell):
    def become_another(reply: SessionReply) -> SessionReply:
        return replace(reply, policy_name="stacker")

    cell.servers[B].alter_reply = become_another
    cell.use(PLACE)
    cell.run(5.0)
    assert f"server {B}: serves 'stacker' now, expected '{PLACE}'" in cell.warnings()
    assert cell.all(CloseSession)
    assert not cell.sessions(B)
    cell.servers[B].alter_reply = lambda reply: reply
    cell.run_until(lambda: cell.state is State.STREAMING)
    assert cell.in_use[0] == B


def restart(server: SimulatedServer) -> None:
    server.restart()


def expire(server: SimulatedServer) -> None:
    for session in server.registry.all():
        server.registry.remove(session.session_id)


@pytest.mark.parametrize("end", [restart, expire])
def test_a_kept_session_that_its_server_has_ended_is_opened_anew(
    cell: Cell, end: Callable[[SimulatedServer], None]
):
    (first,) = cell.sessions(A)
    cell.use(PLACE)
    cell.run_to_chunk()
    end(cell.servers[A])
    cell.run(2.0)
    assert not cell.engine.handshake.kept_sessions
    cell.use(PICK)
    cell.run_to_chunk()
    assert cell.in_use == (A, cell.sessions(A)[0])
    assert cell.in_use[1] != first


def test_a_server_that_died_while_its_session_was_kept_is_asked_again(cell: Cell):
    cell.use(PLACE)
    cell.run_to_chunk()
    cell.servers[A].up = False
    cell.run(2.0)
    cell.use(PICK)
    cell.run_until(lambda: cell.state is State.RECONNECTING)
    cell.servers[A].restart()
    cell.run_until(lambda: cell.state is State.STREAMING)
    assert cell.in_use[0] == A


def test_a_robot_that_ends_closes_every_session(cell: Cell):
    cell.use(PLACE)
    cell.run_to_chunk()
    cell.carry_out(cell.engine.close())
    cell.run(0.5)
    assert (cell.sessions(A), cell.sessions(B)) == ([], [])
    assert not cell.engine.handshake.kept_sessions
