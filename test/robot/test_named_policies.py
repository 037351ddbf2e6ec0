# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One robot, two policies on two servers: each goal names its own, and no session is opened twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import SessionReply
from remote_inference.robot.safety.effects import CloseSession, GetStatus, OpenSession
from remote_inference.robot.safety.state_machine import State
from support.builders import contract_document, make_config, make_spec
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, stopped

A, B = "/server_a", "/server_b"
PICK, PLACE, TAG = "picker", "placer", "task=place"


class Cell(World):
    """A robot that runs the picker of server A, beside the placer of server B."""

    def __init__(self, contract: Contract | None = None) -> None:
        super().__init__(make_config(servers=(A, B)), contract=contract)
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


def refuse(cell: Cell, server: str) -> None:
    """Let a server's policy have other actions than the robot."""
    spec = cell.servers[server].spec
    cell.servers[server].spec = replace(spec, action_names=spec.action_names[::-1])


def test_a_refused_goal_whose_policy_of_before_is_gone_by_now_leaves_a_paused_robot(cell: Cell):
    cell.servers[B].accepting = False
    cell.use(PLACE)
    cell.servers[A].spec = make_spec(name="picker_v2", fingerprint="f3")
    cell.servers[A].restart()
    cell.run(3.0)
    refuse(cell, B)
    cell.servers[B].accepting = True
    cell.run_until(lambda: cell.engine.paused)
    cell.run(10.0)
    assert cell.engine.policy_refused
    assert not stopped(cell)


def test_two_untried_policies_in_a_row_go_back_to_the_one_that_was_in_use(cell: Cell):
    in_use = cell.in_use
    cell.servers[B].accepting = False
    cell.use(PLACE)
    cell.run(1.0)
    refuse(cell, B)
    cell.servers[B].accepting = True
    other = "stacker"
    cell.servers[B].spec = replace(cell.servers[B].spec, name=other)
    cell.servers[B].restart()
    cell.run_until(lambda: not cell.engine.handshake.policies.find_problem(other))
    cell.use(other)
    cell.run_until(lambda: cell.engine.paused)
    opened = len(cell.all(OpenSession))
    cell.run(10.0)
    assert cell.in_use == in_use
    assert len(cell.all(OpenSession)) <= opened + 1
    assert cell.resume() == ""
    cell.run_to_chunk()


def test_a_server_that_comes_back_with_another_policy_is_left_for_one_that_has_it(cell: Cell):
    third = "/server_c"
    cell = Trio(third)
    cell.use(PLACE)
    cell.run_to_chunk()
    assert cell.in_use[0] == B
    cell.servers[B].spec = make_spec(name="stacker", fingerprint="f3")
    cell.servers[B].restart()
    cell.run_until(lambda: cell.in_use[0] == third and cell.state is State.STREAMING)
    assert not stopped(cell)


class Trio(Cell):
    """With a second server of the placer."""

    def __init__(self, third: str) -> None:
        World.__init__(self, make_config(servers=(A, B, third)))
        self.servers[A].spec = make_spec(name=PICK)
        for server in (B, third):
            self.servers[server].spec = make_spec(name=PLACE, fingerprint="f2")
            self.servers[server].tags = (TAG,)
        self.run_until(lambda: self.state is State.STREAMING)
        self.run(2.0)


def test_a_tag_stands_for_the_policy_of_the_server_that_is_asked(cell: Cell):
    third = "/server_c"
    cell = Trio(third)
    cell.servers[third].spec = make_spec(name="other_placer", fingerprint="f9")
    cell.servers[third].restart()
    cell.run(2.0)
    cell.use(TAG)
    cell.run_to_chunk()
    assert cell.in_use[0] == B
    cell.servers[B].up = False
    cell.run(10.0)
    assert not stopped(cell)
    assert cell.engine.handshake.server == B
    cell.servers[B].restart()
    cell.run_until(lambda: cell.state is State.STREAMING)


def test_each_policy_has_latencies_of_its_own(cell: Cell):
    cell.run(3.0)
    fast = cell.engine.cycle.delay_steps
    cell.use(PLACE)
    cell.inference_ns = 30 * cell.inference_ns
    cell.run(20.0)
    slow = cell.engine.cycle.delay_steps
    assert slow > 2 * fast
    cell.use(PICK)
    cell.inference_ns //= 30
    assert cell.engine.cycle.delay_steps == fast
    cell.use(PLACE)
    assert cell.engine.cycle.delay_steps == slow


def test_a_refusal_leaves_the_arm_to_the_person_who_has_it():
    document = contract_document() | {"takeover": {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}}
    cell = Cell(parse_document(document, Contract, "test.contract.yaml"))
    refuse(cell, B)
    cell.use(PLACE)
    problem, effects = cell.engine.take_over(cell.now_ns)
    cell.carry_out(effects)
    assert problem == ""
    cell.run_until(lambda: bool(cell.engine.policy_refused))
    assert cell.engine.taken_over
    assert not cell.engine.paused
    cell.carry_out(cell.engine.release(cell.now_ns)[1])
    assert cell.engine.paused
    assert cell.engine.pause_cause == cell.engine.policy_refused


def test_one_status_from_before_a_kept_session_does_not_end_it(cell: Cell):
    (first,) = cell.sessions(A)
    cell.use(PLACE)
    cell.run_to_chunk()
    handshake = cell.engine.handshake
    kept = handshake._kept[A]
    handshake._kept[A] = replace(kept, attempt=replace(kept.attempt, is_listed=False))
    handshake.take_server_status(A, cell.servers[A].instance_id, ())
    assert handshake.kept_sessions == [first]
    handshake.take_server_status(A, cell.servers[A].instance_id, (first,))
    handshake.take_server_status(A, cell.servers[A].instance_id, ())
    assert not handshake.kept_sessions


def test_the_time_without_a_server_is_that_of_the_policy_in_use():
    world = Cell.__new__(Cell)
    World.__init__(world, make_config(servers=(A, B), max_offline_s=8.0))
    world.servers[A].spec = make_spec(name=PICK)
    world.servers[B].spec, world.servers[B].tags = make_spec(name=PLACE, fingerprint="f2"), (TAG,)
    world.run_until(lambda: world.state is State.STREAMING)
    world.use(PLACE)
    world.run_to_chunk()
    world.servers[B].up = False
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run(7.0)
    world.inference_ns = 3_000_000_000
    world.use(PICK)
    world.run(6.0)
    assert not stopped(world)
