# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the engine makes of news and orders: once, at once, and of those that count only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Chunk
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.engine import LATENCY_KNOWN_AFTER
from remote_inference.robot.safety.effects import GetStatus, Inform, SendRequest, Warn
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import contract_document, make_config, make_rows, ns
from support.robot.simulation import World, streaming

TWO = ("/server_a", "/server_b")


def with_sections(config: RobotConfig | None = None, **sections: Any) -> World:
    """Return a robot whose contract has more sections."""
    return World(config, contract=parse_document(contract_document() | sections, Contract, "robot"))


def shared() -> World:
    """Return a robot that a person may take over."""
    return with_sections(takeover={"topic": "teleop", "type": "sensor_msgs/msg/JointState"})


def without_rows(chunk: Chunk) -> list[tuple[int, Chunk]]:
    """Return what arrives of a server that has nothing to say."""
    return [(0, replace(chunk, model=make_rows(0), robot=make_rows(0)))]


def with_nan(chunk: Chunk) -> list[tuple[int, Chunk]]:
    """Return what arrives of a policy that has diverged: rows, none of which may be executed."""
    rows = np.full_like(chunk.robot, np.nan)
    return [(0, replace(chunk, model=rows, robot=rows))]


def rejected(world: World, count: int) -> None:
    """Run a world until so many more chunks are rejected."""
    target = world.engine.counters.chunks_rejected + count
    world.run_until(lambda: world.engine.counters.chunks_rejected == target)


def test_failures_in_a_row_lead_to_the_next_server_though_this_one_has_delivered() -> None:
    world = streaming(World(make_config(servers=TWO, max_timeouts=3)))
    world.fate = without_rows
    rejected(world, 2)
    assert world.engine.handshake.server == "/server_a"
    rejected(world, 1)
    assert world.engine.handshake.server == "/server_b"
    assert world.engine.counters.reconnects == 1


def test_a_chunk_that_must_not_be_executed_ends_the_failures_in_a_row() -> None:
    """The server moves robots: what is wrong with its rows, another one of the same policy has, too."""
    world = streaming(World(make_config(servers=TWO, max_timeouts=3)))
    for fate, count in ((without_rows, 2), (with_nan, 1), (without_rows, 2)):
        world.fate = fate
        rejected(world, count)
    assert world.engine.counters.reconnects == 0
    rejected(world, 1)
    assert world.engine.counters.reconnects == 1


def test_what_answers_take_is_judged_once_when_it_is_known() -> None:
    world = World(make_config(buffer_time_s=0.05))
    world.inference_ns = ns(0.15)
    merged = world.engine.counters
    world.run_until(lambda: merged.chunks_merged == LATENCY_KNOWN_AFTER - 1)
    assert "the robot waits at each seam" not in world.warnings()
    world.run_until(lambda: merged.chunks_merged == LATENCY_KNOWN_AFTER)
    world.run(1.0)
    assert world.warnings().count("the robot waits at each seam") == 1


def test_a_request_that_was_not_sent_does_not_count_and_is_made_again() -> None:
    world = streaming(World())
    world.run_until(lambda: world.engine.cycle.request_in_flight is None)
    world.run_until(lambda: world.engine.cycle.request_in_flight is not None)
    unsent, requests = world.sent[-1], world.engine.counters.requests
    world.engine.take_back_request()
    assert world.engine.counters.requests == requests - 1
    assert world.engine.cycle.request_in_flight is None
    world._open_request = None
    world.run_until(lambda: world.sent[-1] is not unsent, limit_s=0.5)
    assert world.engine.counters.requests == requests


def test_a_robot_that_has_given_up_gives_way_to_nobody() -> None:
    world = World()
    world.server.alter_reply = lambda reply: replace(reply, action_names=("other",))
    world.run_until(lambda: world.engine.dead)
    assert world.engine.take_duplicate_node(True, world.now_ns) == []


def test_a_takeover_that_ends_for_another_node_is_told_in_words() -> None:
    world = shared()
    world.server.up = False
    world.run(0.5)
    assert world.take_over() == ""
    effects = world.engine.take_duplicate_node(True, world.now_ns)
    assert not world.engine.taken_over
    assert Inform("released to the policy") in effects
    assert all(not isinstance(effect, str) for effect in effects)
    assert [effect.text[:18] for effect in effects if isinstance(effect, Warn)][-1:] == ["the takeover ends:"]


def test_a_robot_that_resumes_asks_at_once() -> None:
    world = World(make_config(autostart=False))
    world.run_until(lambda: world.engine.handshake.open)
    world.run(0.5)
    problem, effects = world.engine.resume(world.now_ns)
    assert problem == ""
    assert [type(effect) for effect in effects] == [SendRequest]


def test_a_robot_that_may_not_resume_does_nothing() -> None:
    world = World()
    world.engine.take_outside_stop()
    before = world.engine.pauses
    world.engine.pause_at_once()
    problem, effects = world.engine.resume(world.now_ns, pauses=before)
    assert problem
    assert effects == [], "not even its first step of a handshake"
    assert any(isinstance(effect, GetStatus) for effect in world.engine.tick(world.now_ns))


def test_a_robot_that_is_not_taken_over_does_nothing_when_it_is_released() -> None:
    world = shared()
    problem, effects = world.engine.release(world.now_ns)
    assert (problem, effects) == ("not taken over", [])
    assert world.engine.machine.state is State.CONNECTING


def test_a_released_robot_goes_on_at_once() -> None:
    world = shared()
    assert world.take_over() == ""
    _, effects = world.engine.release(world.now_ns)
    assert [type(effect) for effect in effects] == [Inform, GetStatus]


def test_a_robot_may_be_commanded_unless_something_has_stopped_it_or_it_is_on_its_way_home() -> None:
    """What sends goals to action servers asks this, on a thread of its own."""
    button = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
    world = with_sections(make_config(autostart=False), stops={"button": button})
    engine = world.engine
    engine.hear_stop("button", False, world.now_ns)
    assert engine.commands_since_ns() is None, "paused"
    assert engine.resume(world.now_ns)[0] == ""
    assert engine.commands_since_ns() is not None
    engine.hear_stop("button", True, world.now_ns)
    assert engine.commands_since_ns() is None, "stopped, and not paused yet"
    engine.pause_at_once()
    engine.hear_stop("button", False, world.now_ns)
    assert engine.commands_since_ns() is None


def test_a_person_who_takes_over_commands_from_that_moment_on() -> None:
    world = shared()
    assert world.take_over() == ""
    assert world.engine.commands_since_ns() == world.now_ns


@pytest.mark.parametrize("homing", [True, False])
def test_a_robot_that_has_given_up_may_be_commanded_on_its_way_home_alone(homing: bool) -> None:
    world = World()
    assert world.engine.commands_since_ns() is not None
    world.engine.control.halt(wants_home=homing)
    assert (world.engine.commands_since_ns() is not None) == homing


def test_an_observation_is_awaited_by_a_robot_with_a_session_that_is_not_idle() -> None:
    world = World()
    arrivals = dict.fromkeys(world.contract.topics, world.now_ns)
    world.engine.take_sensors(arrivals, world.position, world.now_ns)
    assert world.engine.cycle.awaits_observation(world.now_ns)
    assert not world.engine.awaits_observation(world.now_ns), "no session"
    assert world.engine.session_id == ""
    world.run_until(lambda: world.engine.awaits_observation(world.now_ns))
    assert world.engine.session_id
    world.engine.pause()
    assert world.engine.cycle.awaits_observation(world.now_ns)
    assert not world.engine.awaits_observation(world.now_ns)


def test_a_robot_that_has_given_up_awaits_no_observation() -> None:
    world = streaming(World())
    engine = world.engine
    world.run_until(lambda: engine.awaits_observation(world.now_ns))
    engine._die(Event.CONTRACT_VIOLATED, "a test")
    assert engine.handshake.open
    assert engine.cycle.awaits_observation(world.now_ns)
    assert not engine.awaits_observation(world.now_ns)


def test_no_observation_is_awaited_while_a_request_waits_for_its_answer() -> None:
    world = streaming(World())
    world.run_until(lambda: world.engine.cycle.request_in_flight is not None)
    assert not world.engine.awaits_observation(world.now_ns)


def test_a_request_without_an_answer_is_told() -> None:
    world = streaming(World(make_config(request_timeout_s=0.5)))
    world.server.hung = True
    world.run_until(lambda: world.engine.counters.request_timeouts > 0)
    assert "was not answered" in world.warnings()


def test_a_robot_has_ended_when_it_is_dead_and_has_got_its_last_commands_or_their_time_is_over() -> None:
    world = streaming(World())
    engine = world.engine
    assert not engine.has_ended(world.now_ns)
    world.stuck = True  # the control thread: nothing is played any more
    engine._die(Event.CONTRACT_VIOLATED, "a test")
    assert engine.dead
    assert not engine.has_ended(world.now_ns), "it has not looked at the clock since"
    died_ns = world.now_ns
    engine.tick(died_ns)
    last_ns = died_ns + int(engine.playback.rules.longest_end_s * 1e9)
    assert not engine.has_ended(last_ns)
    assert engine.has_ended(last_ns + 1)


def test_a_robot_has_ended_as_soon_as_it_has_got_its_last_commands() -> None:
    world = streaming(World())
    engine = world.engine
    engine._die(Event.CONTRACT_VIOLATED, "a test")
    died_ns = world.now_ns
    world.run_until(lambda: engine.playback.finished)
    assert engine.has_ended(world.now_ns)
    assert world.now_ns - died_ns < engine.playback.rules.longest_end_s * 1e9 / 2


def test_a_robot_that_gives_up_awaits_no_answer() -> None:
    world = streaming(World())
    world.run_until(lambda: world.engine.cycle.request_in_flight is not None)
    world.engine._die(Event.CONTRACT_VIOLATED, "a test")
    assert world.engine.cycle.request_in_flight is None


def test_a_robot_that_gives_up_in_a_person_s_hands_goes_nowhere() -> None:
    world = shared()
    assert world.take_over() == ""
    world.engine._die(Event.CONTRACT_VIOLATED, "a test")
    assert not world.engine.control.operator.wants_home


def test_a_person_s_command_reaches_the_control_thread() -> None:
    world = shared()
    assert world.take_over() == ""
    world.engine.hear_person(np.array([0.1, 0.1]), world.now_ns)
    world.run(0.1)
    assert world.ticks[-1][1].command is not None
