# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is too old to say where an arm is, what to continue, or that somebody still leads it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.command_mode import HumanCommands
from remote_inference.robot.motion.estimate import WAIT_NS
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import MergeMode
from remote_inference.robot.safety.guard import AGE, SENSOR_AGE
from support.builders import (
    JOINT_TRAJECTORY,
    JOINTS,
    contract_document,
    make_config,
    make_contract,
    make_source,
    make_spec,
    ns,
)
from support.robot.controllers import Trajectory
from support.robot.fed_playback import FedPlayback
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming
from support.robot.watched_world import WatchedWorld

SPEED = 2.0  # rad/s
STEP = 0.09  # rad in a period of 50 ms: somewhat less than the speed allows


def trajectory_contract(fps: float = 20.0, **limit: Any) -> Contract:
    document = contract_document(fps=fps)
    for name in JOINTS:
        document["actions"]["limits"][name] = {"min": -6.0, "max": 6.0, "max_velocity": SPEED, **limit}
    document["commands"] = [{"topic": "arm", "type": JOINT_TRAJECTORY, "names": list(JOINTS)}]
    return parse_document(document, Contract, "trajectory.yaml")


def way(rows: int, step: float = STEP) -> list[list[float]]:
    return [[step * row, 0.0] for row in range(1, rows + 1)]


# -- rows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("paused_s", "goes_on"), [(0.5, True), (60.0, False)])
def test_after_a_pause_no_policy_is_asked_to_go_on_with_rows_that_have_aged_out(
    paused_s: float, goes_on: bool
) -> None:
    """Somebody may have moved the arm, and it would go on from where it was."""
    world = streaming(World(make_config(max_action_age_s=3.0)))
    assert world.engine.handshake.session is not None
    assert world.engine.handshake.session.rtc
    world.pause()
    left = len(world.engine.queue)
    world.run(paused_s)
    assert len(world.engine.queue) == left > 0
    sent = len(world.sent)
    world.resume()
    world.run_until(lambda: len(world.sent) > sent)
    assert (world.sent[sent].prefix_robot is not None) == goes_on


# -- measurements --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", ["streams", "paused"])
@pytest.mark.parametrize(("every", "silent"), [(1, range(14, 23)), (4, range(0)), (8, range(0))])
def test_a_trajectory_controller_that_is_back_is_led_from_where_its_joints_are(
    ends: str, every: int, silent: range
) -> None:
    """It has gone on along its rows, of which an older measurement knows nothing."""
    robot, controller, at = FedPlayback(trajectory_contract()), Trajectory(), np.zeros(2)
    robot.measure(at)
    robot.append(way(60))
    commanded = 0
    for index in range(40):
        at = controller.lead(at, robot.now_ns, robot.now_ns)
        if index % every == 0 and index not in silent:
            robot.measure(at)
        is_away = 12 <= index < 22
        robot.playback.listen(robot.contract.commands if is_away else [])
        if index == 13:
            robot.playback.control.change(paused=ends == "paused")
        now_ns = robot.now_ns
        tick = robot.tick()
        if tick.command is None or is_away:
            continue
        if index >= 22:
            commanded += 1
            assert abs(tick.command[0] - at[0]) <= SPEED * 0.05 + 1e-9, index
        assert tick.horizon is not None
        controller.command(tick.horizon, robot.period_ns, now_ns, at)
    assert commanded > 0


class Away(SimulatedServer):
    """Leads the first joint away from where the arm is."""

    world: World

    def rows(self, request: Request) -> Float32Array:
        begin = self.world.position[0]
        return np.stack([np.linspace(begin, begin + 2.0, 80), np.zeros(80)], axis=1).astype(np.float32)


def test_an_arm_is_held_while_nobody_measures_another() -> None:
    """Each has a joint topic and a trajectory controller of its own; there is no watchdog."""
    document = contract_document()
    document["state"] = [
        {"topic": f"arm_{name}/joint_states", "type": "sensor_msgs/msg/JointState", "names": [name]}
        | {"field": "position"}
        for name in JOINTS
    ]
    for name in JOINTS:
        document["actions"]["limits"][name] |= {"min": -1.0, "max": 1.0, "max_velocity": 0.3}
    document["commands"] = [
        {"topic": f"arm_{name}", "type": JOINT_TRAJECTORY, "names": [name]} for name in JOINTS
    ]
    contract = parse_document(document, Contract, "two_arms.yaml")
    server = Away("/server_a", make_spec(chunk_size=80))
    server.world = world = WatchedWorld(make_config(), [server], contract=contract, watched=False)
    world.position = world.seen = np.array([-0.9, 0.0])
    world.run_until(lambda: world.engine.counters.chunks_merged >= 2)
    world.sensors[f"arm_{contract.actions.names[1]}/joint_states"] = False
    world.run(0.6)
    world.stand_still(0.3, "stuck")
    world.run(0.2)
    world.engine.pause_at_once()
    world.run(0.3)
    began, at = len(world.ticks), world.position[0]
    world.run(3.0)
    holds = [tick for _, tick in world.ticks[began - 10 :] if tick.source is CommandSource.HOLD]
    assert {tick.ends for tick in holds} == {(f"arm_{contract.actions.names[0]}",)}
    assert all(tick.late_ns <= ns(0.1) for tick in holds), "the age of its own joint"
    assert world.position[0] == pytest.approx(at, abs=0.02)


def test_a_hold_of_where_a_moving_arm_was_gives_it_time_to_come_back() -> None:
    """A period is too short for what it has moved since, and for the way back from the row that it is at."""
    age_ns = ns(0.045)
    robot = FedPlayback(trajectory_contract(fps=500.0), given_up_after_ns=ns(0.2))
    robot.measure([0.0, 0.0])
    robot.append(way(1000, step=0.0036))
    robot.tick()
    robot.now_ns += ns(0.3)
    robot.playback.control.change(paused=True)
    assert robot.tick().command is None, "it is measured later"
    robot.now_ns += ns(0.1)
    robot.playback.control.change(measured=np.array([0.5, 0.0]), measured_ns=robot.now_ns - age_ns)
    tick = robot.tick()
    assert tick.source is CommandSource.HOLD
    assert tick.command is not None
    assert tick.command[0] == 0.5
    way_s = (0.0036 * robot.now_ns / robot.period_ns - 0.5) / 2.0
    assert tick.late_ns == pytest.approx(ns(way_s), abs=5 * robot.period_ns)
    assert tick.late_ns > age_ns


def test_a_hold_of_the_last_command_is_due_at_once() -> None:
    robot = FedPlayback(trajectory_contract())
    robot.measure([0.0, 0.0])
    robot.append(way(10))
    robot.tick()
    robot.playback.control.change(paused=True)
    tick = robot.tick()
    assert (tick.source, tick.late_ns) == (CommandSource.HOLD, 0)


def test_what_does_not_follow_is_tried_by_single_steps_without_what_would_come_after() -> None:
    """Its drives may come back while the node stands still."""
    robot = FedPlayback(trajectory_contract(max_following_error=0.05))
    robot.measure([0.0, 0.0])
    robot.append(way(60))
    tried = []
    for _ in range(60):
        robot.measure([0.0, 0.0])
        tick = robot.tick()
        if tick.source is CommandSource.CHUNK and robot.playback.not_following:
            tried.append(tick)
    assert tried
    for tick in tried:
        assert tick.horizon is not None
        assert len(tick.horizon) == 1


def test_an_arm_outside_its_limits_that_has_nothing_to_do_stays_where_it_is() -> None:
    document = contract_document()
    document["actions"]["limits"] = {name: {"min": -1.0, "max": 1.0, "max_velocity": 2.0} for name in JOINTS}
    robot = FedPlayback(parse_document(document, Contract, "arm.yaml"), "repeat_last")
    robot.measure([2.9, 0.0])
    robot.append([[0.9, 0.0]])
    led = robot.tick().command
    assert led is not None
    assert led[0] == pytest.approx(2.8)
    for _ in range(10):
        robot.measure(led)
        tick = robot.tick()
        assert tick.source is CommandSource.REPEAT_LAST
        assert tick.command == pytest.approx(led)


# -- late ticks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fps", [1.0, 5.0])
def test_a_late_tick_without_an_action_lets_no_velocity_go_on(fps: float) -> None:
    robot = FedPlayback(
        make_contract("velocity", fps=fps),
        "zero",
        given_up_after_ns=ns(0.2 + 1 / fps),
        late_after_ns=ns(1.5 / fps),
    )
    robot.now_ns = ns(2.9)
    source = make_source(capture_ns=0)
    rows = np.full((3, 2), 0.5, np.float32)
    robot.queue.merge(source, rows, rows, MergeMode.APPEND, latency_steps=0, executed_before=0)
    assert robot.tick().source is CommandSource.CHUNK
    late = robot.playback.tick(robot.now_ns, robot.now_ns - ns(0.06))
    assert robot.now_ns > ns(3.0)
    assert (late.source, late.in_force) == (CommandSource.ZERO, True)
    assert robot.guard.counts[AGE] == 2
    assert robot.playback.starved == "actions older than max_action_age_s"


@pytest.mark.parametrize("fps", [50.0, 100.0, 500.0])
def test_a_fast_robot_waits_after_a_freeze_as_long_as_its_executor_may_need(fps: float) -> None:
    """The watchdog may have held its arm, and its word be on the way: a period is too short for it."""

    def thawed() -> FedPlayback:
        period_ns = round(1e9 / fps)
        robot = FedPlayback(
            trajectory_contract(fps), given_up_after_ns=ns(0.2) + period_ns, late_after_ns=period_ns * 3 // 2
        )
        robot.measure([0.0, 0.0])
        robot.append(way(round(2 * fps), 1.8 / fps))
        assert robot.tick().source is CommandSource.CHUNK
        robot.now_ns += ns(0.15)
        return robot

    robot = thawed()
    thawed_ns, heard_ns = robot.now_ns, robot.now_ns - ns(0.15)
    while robot.now_ns < thawed_ns + WAIT_NS:
        tick = robot.playback.tick(robot.now_ns, heard_ns)
        assert (tick.source, tick.in_force) == (CommandSource.NONE, True)
        robot.now_ns += robot.period_ns
    assert robot.playback.tick(robot.now_ns, heard_ns).source is CommandSource.CHUNK
    robot = thawed()
    assert robot.playback.tick(robot.now_ns, heard_ns).source is CommandSource.NONE
    robot.now_ns += robot.period_ns
    assert robot.tick().source is CommandSource.CHUNK, "all is heard"


def test_a_freeze_while_it_waits_does_not_count_as_waiting() -> None:
    robot = FedPlayback(trajectory_contract(50.0), given_up_after_ns=ns(0.25), late_after_ns=ns(0.03))
    robot.measure([0.0, 0.0])
    robot.append(way(100, 0.03))
    assert robot.tick().source is CommandSource.CHUNK
    heard_ns = robot.now_ns
    for frozen_s in (0.1, 0.1, 0.0):
        robot.now_ns += ns(frozen_s)
        assert robot.playback.tick(robot.now_ns, heard_ns).source is CommandSource.NONE
        robot.now_ns += robot.period_ns
    assert robot.playback.tick(robot.now_ns, heard_ns).source is CommandSource.CHUNK


@pytest.mark.parametrize("speaks", [True, False])
def test_a_late_tick_of_a_takeover_lets_only_a_person_who_speaks_go_on(speaks: bool) -> None:
    human = HumanCommands(0.2)
    robot = FedPlayback(
        make_contract("velocity"), "zero", given_up_after_ns=ns(1.0), late_after_ns=ns(0.9), human=human
    )
    robot.append(np.full((5, 2), 0.5))
    assert robot.tick().source is CommandSource.CHUNK
    robot.playback.control.change(taken_over=True)

    def late() -> Tick:
        return robot.playback.tick(robot.now_ns, robot.now_ns - ns(0.06))

    human.deposit(np.array([0.1, 0.1]), robot.now_ns)
    policy_s = late()
    assert (policy_s.source, policy_s.in_force) == (CommandSource.ZERO, True), "the policy's velocity ends"
    assert robot.tick().source is CommandSource.HUMAN
    robot.now_ns += ns(0.1 if speaks else 0.3)
    tick = late()
    assert tick.source is (CommandSource.NONE if speaks else CommandSource.ZERO)
    assert tick.in_force


def test_a_late_tick_after_a_release_lets_no_velocity_of_the_person_go_on() -> None:
    human = HumanCommands(0.5)
    robot = FedPlayback(
        make_contract("velocity"), "zero", given_up_after_ns=ns(1.0), late_after_ns=ns(0.075), human=human
    )
    robot.playback.control.change(taken_over=True)
    human.deposit(np.array([0.9, 0.9]), 0)
    assert robot.tick().source is CommandSource.HUMAN
    robot.playback.control.change(taken_over=False, forget=True, blend_in=True)
    robot.append([[0.1, 0.1]] * 5)
    robot.now_ns += ns(0.1)
    assert robot.tick().source is CommandSource.ZERO
    assert robot.tick().source is CommandSource.CHUNK


@pytest.mark.parametrize("fps", [1.0, 8.0, 20.0])
def test_a_plan_of_velocities_leads_no_farther_when_ticks_wait(fps: float) -> None:

    def drive(unheard_s: float) -> float:
        robot = FedPlayback(
            make_contract("velocity", fps=fps), "zero", given_up_after_ns=ns(9.0), late_after_ns=ns(8.0)
        )
        robot.append([[0.05, 0.0], [0.05, 0.0], [0.02, 0.0]])
        way = velocity = 0.0
        for tick in range(6):
            heard_ns = robot.now_ns - (ns(unheard_s) if tick == 1 else 0)
            command = robot.playback.tick(robot.now_ns, heard_ns).command
            velocity = velocity if command is None else float(command[0])
            way += velocity / fps
            robot.now_ns += robot.period_ns
        return way

    assert drive(0.0) == pytest.approx(0.12 / fps)
    assert drive(0.06) == pytest.approx(0.12 / fps)


# -- a person ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("watched", [True, False])
def test_a_person_s_message_that_waited_moves_nobody_after_they_have_let_go(watched: bool) -> None:
    document = contract_document()
    document["takeover"] = {"topic": "teleop", "type": "sensor_msgs/msg/JointState", "silent_s": 0.5}
    contract = parse_document(document, Contract, "shared.yaml")
    server = SimulatedServer("/server_a")
    world = WatchedWorld(make_config(), [server], contract=contract, watched=watched)
    world.run_until(lambda: world.engine.counters.chunks_merged >= 2)
    assert world.take_over() == ""
    world.target = np.array([-0.9, -0.9])
    world.run(2.5)
    world.target = np.array([0.9, 0.9])
    world.run(0.3)
    world.stand_still(3.0, "deaf")
    world.run(0.1)
    world.target = None
    let_go_ns = world.now_ns
    world.run(5.0)
    led = [at_ns for at_ns, tick in world.ticks if tick.source is CommandSource.HUMAN and at_ns > let_go_ns]
    assert all(at_ns - let_go_ns <= ns(0.5) for at_ns in led)


@pytest.mark.parametrize("stops", [True, False])
def test_who_let_go_before_a_stop_or_pause_moves_nobody_after_it(stops: bool) -> None:
    document = contract_document()
    document["takeover"] = {"topic": "teleop", "type": "sensor_msgs/msg/JointState", "silent_s": 5.0}
    document["stops"] = {"button": {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}}
    contract = parse_document(document, Contract, "f")
    world = World(make_config(), contract=contract)
    world.engine.hear_stop("button", False, world.now_ns)
    streaming(world)
    world.engine.hear_person(np.array([0.9, -0.9]), world.now_ns)
    world.run(0.1)
    assert world.take_over() == ""
    taken_over_ns = world.now_ns
    world.run(0.1)

    def led_since(at_ns: int) -> list[int]:
        return [
            now_ns for now_ns, tick in world.ticks if now_ns > at_ns and tick.source is CommandSource.HUMAN
        ]

    assert not led_since(taken_over_ns), "what was said before the takeover is no order of it"
    world.engine.hear_person(np.array([0.9, -0.9]), world.now_ns)
    world.run(0.1)
    assert led_since(taken_over_ns)
    if stops:
        world.engine.hear_stop("button", True, world.now_ns)
        world.run(0.1)
        world.engine.hear_stop("button", False, world.now_ns)
        assert world.clear_stop() == ""
    else:
        world.pause()
        world.run(0.1)
    resumed_ns = world.now_ns
    assert world.resume() == ""
    world.run(1.0)
    assert not led_since(resumed_ns)
    assert world.engine.misses_person(world.now_ns)
    world.engine.hear_person(np.array([0.1, 0.1]), world.now_ns)
    world.run(0.1)
    assert led_since(resumed_ns)
    assert not world.engine.misses_person(world.now_ns)


def test_a_silent_sensor_is_named_where_only_an_old_measurement_is_left() -> None:
    robot = FedPlayback(trajectory_contract(), given_up_after_ns=ns(0.2))
    robot.measure([0.0, 0.0])
    robot.append(way(60))
    robot.tick()
    robot.now_ns += ns(0.3)
    robot.playback.control.change(paused=True)
    assert robot.tick().interventions == (SENSOR_AGE,)
