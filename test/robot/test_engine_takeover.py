# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A person takes a robot over and gives it back: their commands pass the guard, then the policy goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.safety.guard import SENSOR_AGE
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import (
    JOINT_TRAJECTORY,
    LIMIT,
    MAX_STEP,
    contract_document,
    make_config,
    make_contract,
    ns,
)
from support.robot.simulation import World, streaming


class Person:
    """Publishes commands while `target` is set."""

    def __init__(self, world: World) -> None:
        self.target: np.ndarray | None = None
        self._world = world
        world._every(ns(0.02), self._publish)

    def _publish(self) -> None:
        if self.target is not None:
            self._world.engine.human.deposit(self.target, self._world.now_ns)


def shared(command: str = "", kind: str = "position", **changes: Any) -> tuple[World, Person]:
    document = contract_document(kind)
    document["takeover"] = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    if command:
        document["commands"][0]["type"] = command
    fallback = "zero" if kind == "velocity" else "hold"
    contract = parse_document(document, Contract, "f")
    world = World(make_config(**{"fallback": fallback, **changes}), contract=contract)
    world.follows = kind == "position"
    return world, Person(world)


def since(world: World, at_ns: int) -> list[Tick]:
    return [tick for time_ns, tick in world.ticks if time_ns > at_ns]


def test_during_a_takeover_only_the_person_commands_within_the_guard_s_limits():
    world, person = shared()
    streaming(world)
    person.target = np.array([5.0, -5.0])  # beyond the limits; the world checks limits and steps
    assert world.take_over() == ""
    taken_ns, sent = world.now_ns, len(world.sent)
    world.run(3)
    ticks = since(world, taken_ns)
    assert {tick.source for tick in ticks[2:]} == {CommandSource.HUMAN}
    assert ticks[-1].command.tolist() == [LIMIT, -LIMIT]
    assert world.engine.guard.counts["joint_limit"] > 50
    assert world.engine.guard.counts["velocity_limit"] > 5
    assert len(world.sent) == sent  # the policy is asked nothing
    assert world.states() == [State.STREAMING]


def test_a_silent_topic_means_the_fallback_and_never_the_policy():
    world, person = shared()
    streaming(world)
    person.target = np.array([0.3, 0.3])
    world.take_over()
    world.run(1)
    person.target = None
    silent_ns = world.now_ns
    world.run(5)
    ticks = since(world, silent_ns + ns(0.6))
    assert {tick.source for tick in ticks} == {CommandSource.NONE}
    assert world.engine.playback.starved == "takeover topic silent"
    assert world.engine.taken_over
    person.target = np.array([0.4, 0.4])
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.HUMAN


def test_a_takeover_without_a_person_stops_the_policy_at_once():
    world, _ = shared(kind="velocity")
    streaming(world)
    world.take_over()
    taken_ns = world.now_ns
    world.run(1)
    assert {tick.source for tick in since(world, taken_ns)} == {CommandSource.ZERO}


def test_a_takeover_stops_the_policy_before_the_worker_has_carried_it_out():
    """The worker may be busy, and a person sees a policy that misbehaves."""
    world, person = shared()
    streaming(world)
    person.target = np.zeros(2)
    world.engine.take_over_at_once(world.now_ns)
    called_ns = world.now_ns
    world.run(0.5)
    assert CommandSource.CHUNK not in {tick.source for tick in since(world, called_ns)}
    assert since(world, called_ns)[-1].source is CommandSource.HUMAN
    assert world.take_over() == ""
    assert world.release() == ""
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.CHUNK


def test_a_trajectory_controller_s_horizon_ends_with_the_takeover():
    world, person = shared(command=JOINT_TRAJECTORY)
    streaming(world)
    person.target = np.zeros(2)
    world.run(0.1)
    world.take_over()
    taken_ns = world.now_ns
    world.run(0.5)
    assert {len(tick.horizon) for tick in since(world, taken_ns)} == {1}


def test_on_release_the_policy_goes_on_from_where_the_arm_is_in_the_same_episode():
    world, person = shared()
    streaming(world)
    person.target = np.array([0.9, -0.9])
    world.take_over()
    world.run(2)
    assert world.position.tolist() == pytest.approx([0.9, -0.9])
    released_ns, sent = world.now_ns, len(world.sent)
    assert world.release() == ""
    assert len(world.engine.queue) == 0
    world.run(2)
    first = world.commands_since(released_ns)[0]
    assert first.source is CommandSource.CHUNK
    assert np.abs(first.command - [0.9, -0.9]).max() <= MAX_STEP + 1e-9
    assert world.capture_ns[sent] > released_ns  # no observation of the time before
    assert not world.sent[sent].episode_start
    assert world.engine.episode.id == 0
    assert CommandSource.HUMAN not in {tick.source for tick in since(world, released_ns)}
    assert world.states() == [State.STREAMING]


def test_a_release_takes_no_joint_for_where_the_person_s_last_command_was():
    world, person = shared()
    streaming(world)
    person.target = np.zeros(2)
    world.take_over()
    world.run(0.5)
    before = world.engine.control.operator
    assert world.release() == ""
    assert world.engine.control.operator.forgets == before.forgets + 1


def test_the_answer_to_a_request_from_before_the_takeover_is_dropped():
    world, person = shared()
    streaming(world)
    person.target = np.zeros(2)
    sent = len(world.sent)
    world.run_until(lambda: len(world.sent) > sent)
    dropped = world.engine.counters.chunks_dropped
    world.take_over()
    world.run(0.5)
    assert world.engine.counters.chunks_dropped == dropped + 1
    assert len(world.engine.queue) == 0


def test_a_pause_holds_a_person_s_commands_too():
    world, person = shared()
    streaming(world)
    person.target = np.array([0.5, 0.5])
    world.pause()
    world.take_over()
    taken_ns = world.now_ns
    world.run(1)
    assert world.commands_since(taken_ns) == []
    world.resume()
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.HUMAN


def test_a_person_drives_on_when_the_server_is_lost():
    world, person = shared(max_offline_s=12.0)
    streaming(world)
    person.target = np.array([0.5, 0.5])
    world.take_over()
    world.server.up = False
    world.run(15)
    assert world.state is State.RECONNECTING
    assert world.ticks[-1][1].source is CommandSource.HUMAN
    world.server.up = True
    world.release()
    world.run_until(lambda: world.state is State.STREAMING)


def test_a_robot_that_gives_up_during_a_takeover_does_not_drive_home():
    document = contract_document()
    document["takeover"] = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}
    document["home"] = {"positions": [0.9, 0.9], "duration_s": 1.0}
    world = World(contract=parse_document(document, Contract, "f"))
    streaming(world)
    world.take_over()
    died_ns = world.now_ns
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    world.run(2)
    assert world.commands_since(died_ns) == []


@pytest.mark.parametrize("fault", ["the worker hangs", "the joints fall silent"])
def test_a_person_leads_no_arm_on_that_nobody_measures(fault: str):
    """Whether it follows, nobody knows, and a step would begin where it was long ago."""
    world, person = shared()
    streaming(world)
    world.take_over()
    person.target = np.array([0.9, -0.9])
    world.run(0.3)
    if fault == "the worker hangs":
        world.hung = True
    else:
        world.sensors["joint_states"] = False
    silent_ns = world.now_ns
    world.run(2)
    assert world.commands_since(silent_ns)
    assert world.commands_since(silent_ns + ns(world.config.max_sensor_age_s) + world.period_ns) == []
    person.target = None
    world.run(4)
    world.position = np.array([0.2, 0.2])  # moved by hand, unseen
    person.target = np.array([0.2, 0.2])
    world.run(1)
    assert world.ticks[-1][1].interventions == (SENSOR_AGE,)
    world.hung, world.sensors["joint_states"] = False, True
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.HUMAN


def test_what_cannot_be_is_refused_with_its_reason():
    assert "names no takeover topic" in World().take_over()
    world, _ = shared()
    assert world.release() == "not taken over"
    world, _ = shared(command_mode="shadow")
    assert "shadow" in world.take_over()


def test_a_newcomer_is_not_taken_over_while_another_node_of_its_name_is_alive():
    """The services of both nodes answer to one name: an operator's call reaches the two."""
    world, person = shared(autostart=False)
    person.target = np.array([0.5, 0.5])
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    assert "another node is called /robot_1/client" in world.take_over()
    world.resume()
    world.run(2)
    assert world.commands_since(0) == []
    world.carry_out(world.engine.take_duplicate_node(False, world.now_ns))
    assert world.take_over() == ""
    world.run(1)
    assert world.commands_since(0)


def test_a_newcomer_that_finds_the_other_node_late_ends_its_takeover():
    world, person = shared()
    person.target = np.array([0.5, 0.5])
    world.server.up = False
    world.run(0.1)
    world.take_over()
    world.run(1)
    found_ns = world.now_ns
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    world.run(2)
    assert not world.engine.taken_over
    assert world.commands_since(found_ns) == []
    assert "the takeover ends" in world.warnings()


def test_a_robot_that_has_had_a_session_stays_taken_over_when_a_newcomer_appears():
    world, person = shared()
    streaming(world)
    person.target = np.array([0.5, 0.5])
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    assert world.take_over() == ""
    world.carry_out(world.engine.take_duplicate_node(True, world.now_ns))
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.HUMAN


def test_a_person_s_commands_do_not_count_as_the_policy_s():
    world, person = shared(max_clamped_ratio=0.2, clamped_window=10)
    world.server.rows = lambda request: np.zeros((20, 2), np.float32)
    streaming(world)
    person.target = np.array([5.0, -5.0])
    world.take_over()
    world.run(3)
    assert world.engine.guard.counts["joint_limit"] > 50
    assert not world.engine.paused


def test_a_command_that_is_not_finite_is_refused():
    world, person = shared()
    streaming(world)
    person.target = np.array([np.nan, 0.0])
    world.take_over()
    taken_ns = world.now_ns
    world.run(1)
    assert world.commands_since(taken_ns) == []
    assert world.engine.guard.counts["non_finite"] > 10


def test_shadow_mode_marks_every_tick_and_measures_the_distance_to_the_arm():
    world = World(make_config(command_mode="shadow"))
    world.follows = False  # a person drives the arm elsewhere
    world.position = np.array([0.9, -0.9])  # farther than an arm that must follow could be
    streaming(world)
    world.run(2)
    assert {tick.shadow for _, tick in world.ticks} == {True}
    would_be = [tick for _, tick in world.ticks if tick.source is CommandSource.CHUNK]
    error = world.engine.playback.shadow.error
    assert error.ticks == len(would_be) > 30
    assert error.largest.min() > world.max_following_error
    differences = np.abs(np.stack([tick.command for tick in would_be]) - world.position)
    np.testing.assert_allclose(error.mean, differences.mean(axis=0))
    np.testing.assert_allclose(error.largest, differences.max(axis=0))
    assert world.state is State.STREAMING
    world.reset()
    world.run(0.6)
    assert 0 < world.engine.playback.shadow.error.ticks < 20


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_only_positions_are_compared_with_the_measured_joints(kind: str):
    world = World(make_config(command_mode="shadow", fallback="zero"), contract=make_contract(kind))
    world.follows = False
    streaming(world).run(1)
    assert world.engine.playback.shadow.error.ticks == 0


def test_live_ticks_are_not_marked():
    world = streaming(World())
    assert {tick.shadow for _, tick in world.ticks} == {False}
    assert world.engine.playback.shadow is None


def test_after_a_release_the_policy_begins_gently():
    world, person = shared(resume_ramp_s=1.0, resume_velocity_scale=0.2)
    world.server.rows = lambda request: np.full((20, 2), 0.9, np.float32)
    streaming(world)
    person.target = np.array([-0.9, -0.9])
    world.take_over()
    world.run(3)
    released_ns = world.now_ns
    world.release()
    world.run(1)
    commands = np.stack([tick.command for tick in since(world, released_ns) if tick.command is not None])
    steps = np.abs(np.diff(commands, axis=0)).max(axis=1)
    assert steps[:3].max() <= 0.5 * MAX_STEP
