# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An arm that does not follow its commands is not led on, is named, and steps on from where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import DocumentError, parse_document, parse_yaml
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.estimate import RETRY_NS
from remote_inference.robot.motion.rules import LAG_S
from remote_inference.robot.safety.guard import FOLLOWING_ERROR
from remote_inference.robot.safety.state_machine import State
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINT_TRAJECTORY,
    JOINTS,
    MAX_STEP,
    PERIOD_NS,
    contract_document,
    make_config,
    ns,
)
from support.robot.fed_playback import FedPlayback
from support.robot.motions import FollowingWatch
from support.robot.pose_robot import UPRIGHT, pose_contract
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming

BOUND = 0.3
BOTH = np.ones(2, bool)


def bounded_contract(**limits: Any) -> Contract:
    document = contract_document()
    for name in JOINTS:
        document["actions"]["limits"][name] |= limits
    return parse_document(document, Contract, "test.contract.yaml")


def make_watch(**limits: Any) -> FollowingWatch:
    return FollowingWatch(bounded_contract(**limits))


def look(watch: FollowingWatch, command: float, measured: float, **changes: float) -> list[bool]:
    """Look at an arm whose shoulder is `measured` and whose elbow follows."""
    now = {"age_s": 0.0, "now_ns": 0} | changes
    points = np.array([command, 0.0]), np.array([measured, 0.0])
    ages_s = np.full(2, now["age_s"])
    return watch.look(*points, BOTH, ages_s=ages_s, now_ns=int(now["now_ns"]))[1].tolist()


def test_a_joint_is_astray_beyond_its_bound_alone():
    watch = make_watch(max_following_error=BOUND)
    assert look(watch, BOUND - 1e-9, 0.0) == [False, False]
    assert look(watch, -BOUND - 1e-9, 0.0) == [True, False]
    assert watch.not_following == ("shoulder",)


def test_by_default_the_bound_is_the_way_of_a_lag_at_full_speed():
    bound = LAG_S * MAX_STEP * 1e9 / PERIOD_NS
    assert look(make_watch(), bound - 1e-9, 0.0) == [False, False]
    assert look(make_watch(), bound + 1e-9, 0.0) == [True, False]


def test_what_a_joint_may_have_moved_since_it_was_measured_is_no_error():
    watch = make_watch(max_following_error=BOUND)
    assert look(watch, BOUND + MAX_STEP, 0.0, age_s=1.01 * PERIOD_NS / 1e9) == [False, False]


def test_a_joint_of_which_nothing_is_known_is_judged_by_no_other_and_stays_what_it_was():
    watch = make_watch(max_following_error=BOUND)
    unknown, ages_s = np.array([np.nan, 0.0]), np.zeros(2)
    watch.look(np.array([0.0, 2 * BOUND]), unknown, BOTH, ages_s=ages_s, now_ns=0)
    assert watch.not_following == ("elbow",)
    watch.look(np.zeros(2), np.full(2, np.nan), BOTH, ages_s=ages_s, now_ns=0)
    assert watch.not_following == ("elbow",)


def test_a_joint_is_found_not_to_follow_while_another_one_is_not_measured():
    robot = FedPlayback(bounded_contract(max_following_error=BOUND), "repeat_last")
    robot.measure([0.0, 0.0])
    robot.append(MAX_STEP * np.arange(1, 40)[:, np.newaxis] * np.ones(2))
    robot.now_ns, begin_ns = ns(1.0), ns(1.0)
    farthest = 0.0
    for _ in range(30):
        positions_ns = np.array([begin_ns, robot.now_ns])
        robot.playback.control.change(measured_ns=begin_ns, positions=np.zeros(2), positions_ns=positions_ns)
        command = robot.tick().command
        farthest = farthest if command is None else max(farthest, command[1])
    assert robot.playback.not_following == ("elbow",)
    assert farthest <= BOUND + 2.1 * MAX_STEP


def test_an_astray_joint_that_moves_is_let_go():
    watch = make_watch(max_following_error=BOUND)
    look(watch, 2 * BOUND, 0.0)
    assert look(watch, 2 * BOUND, 0.9 * MAX_STEP) == [True, False]
    led = np.zeros(2, bool)  # the last command does not hold any more
    lost, blocked = watch.look(
        np.full(2, 0.6), np.array([1.1 * MAX_STEP, 0.0]), led, ages_s=np.zeros(2), now_ns=1
    )
    assert blocked.tolist() == [False, False]
    assert lost.tolist() == [True, False], "the next step begins where it is"
    assert watch.not_following == ()


def test_a_joint_that_has_moved_by_no_more_than_a_step_has_not_moved():
    """A step is what noise of the sensor and the arm's own weight may come to."""
    watch = make_watch(max_following_error=BOUND)
    look(watch, 2 * BOUND, 0.0)
    assert look(watch, 2 * BOUND, MAX_STEP) == [True, False]


def test_a_watch_that_forgets_judges_anew():
    watch = make_watch(max_following_error=BOUND)
    look(watch, 2 * BOUND, 0.0)
    watch.forget()
    assert watch.not_following == ()
    assert look(watch, 0.0, 0.0) == [False, False]


def test_a_joint_that_does_not_follow_is_tried_again_after_a_second():
    watch = make_watch(max_following_error=BOUND)
    look(watch, 2 * BOUND, 0.0)
    assert look(watch, 0.0, 0.0, now_ns=ns(0.99)) == [True, False]
    assert look(watch, 0.0, 0.0, now_ns=ns(1.01)) == [False, False]


def test_a_joint_that_stands_still_is_tried_again_after_a_pause_and_stays_named():
    watch = make_watch(max_following_error=BOUND)
    look(watch, 2 * BOUND, 0.0)
    assert look(watch, 0.0, 0.0, now_ns=RETRY_NS - 1) == [True, False]
    assert look(watch, 0.0, 0.0, now_ns=RETRY_NS) == [False, False]
    assert watch.not_following == ("shoulder",)


def test_a_joint_whose_following_error_is_off_is_never_astray():
    watch = make_watch(max_following_error="off")
    assert look(watch, 100.0, 0.0) == [False, False]
    assert watch.not_following == ()


@pytest.mark.parametrize("text", ["off", "'off'", "false"])  # YAML 1.1 and 1.2 differ in what the first means
def test_off_may_be_written_as_people_write_it(text: str):
    document = contract_document()
    document["actions"]["limits"]["elbow"]["max_following_error"] = parse_yaml(f"error: {text}", "f")["error"]
    contract = parse_document(document, Contract, "test.contract.yaml")
    assert contract.actions.limits["elbow"].max_following_error == "off"


@pytest.mark.parametrize("value", [True, "on", 0.0, -1.0, float("inf")])
def test_a_following_error_is_a_number_above_zero_or_off(value: object):
    with pytest.raises(DocumentError, match=r"limits\.elbow\.max_following_error: found .*expected"):
        bounded_contract(max_following_error=value)


def test_a_measurement_from_before_the_last_command_leads_no_arm_back():
    """Its drives came back, and the arm is at its target by now: where it was is a jump away."""
    robot = FedPlayback(bounded_contract(max_following_error=MAX_STEP), "repeat_last")
    robot.measure([0.0, 0.0])
    robot.append(MAX_STEP * np.arange(1, 40)[:, np.newaxis] * np.ones(2))
    delay_ns = 3 * robot.period_ns
    ticks = []
    while not robot.playback.not_following:
        robot.playback.control.change(measured=np.zeros(2), measured_ns=robot.now_ns - delay_ns)
        ticks.append(robot.tick())
    assert ticks[-2].source is CommandSource.CHUNK
    at = ticks[-2].command
    assert at is not None
    assert (at > 4.0 * MAX_STEP).all()
    assert ticks[-1].command is None
    assert ticks[-1].interventions[0] == FOLLOWING_ERROR
    robot.now_ns += delay_ns
    robot.playback.control.change(measured=at, measured_ns=robot.now_ns - delay_ns + robot.period_ns)
    assert robot.tick().source is CommandSource.CHUNK


@pytest.mark.parametrize(("age_ns", "counts"), [(ns(0.05), True), (ns(0.05) + 1, False)])
def test_at_a_high_rate_a_measurement_of_two_rounds_of_the_worker_leads_a_joint_back(
    age_ns: int, counts: bool
):
    """Nobody measures more often; an older one may be from before the drives came back."""
    document = contract_document(fps=100.0)
    for name in JOINTS:
        document["actions"]["limits"][name] |= {"max_velocity": 1.0, "max_following_error": 0.001}
    robot = FedPlayback(parse_document(document, Contract, "test.contract.yaml"), "repeat_last")
    robot.now_ns = ns(1)
    robot.append(0.01 * np.arange(1, 40)[:, np.newaxis] * np.ones(2))
    while not robot.playback.not_following:
        robot.playback.control.change(measured=np.zeros(2), measured_ns=robot.now_ns - age_ns)
        tick = robot.tick()
    assert tick.interventions == (FOLLOWING_ERROR,)
    assert (tick.command is not None) == counts


def test_a_pose_follows_as_far_from_its_command_as_its_bound():
    contract = pose_contract(max_following_error=0.25)
    begin, end = np.array([0.0, 0.0, 0.0, *UPRIGHT]), np.array([0.25, 0.0, 0.0, *UPRIGHT])
    for goal, is_astray in ((end, False), (np.nextafter(end, 1.0), True)):
        watch = FollowingWatch(contract)
        lost, _ = watch.look(goal, begin, np.ones(7, bool), ages_s=np.zeros(7), now_ns=0)
        assert lost.tolist() == [is_astray] * 7


class Grasping(World):
    """An arm whose elbow is a gripper that closes on an object."""

    def _tick(self) -> None:
        super()._tick()
        self.position = np.array([self.position[0], max(self.position[1], 0.5)])

    def _check_step(self, command: np.ndarray) -> None:
        assert abs(command[0] - self.position[0]) <= MAX_STEP + 1e-9


@pytest.mark.parametrize("command", [FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY])
def test_a_gripper_that_closes_on_an_object_stops_nothing_and_holds_on(command: str):
    document = contract_document()
    document["actions"]["limits"]["elbow"]["max_following_error"] = "off"
    document["commands"][0]["type"] = command
    world = Grasping(make_config(), [Closing("/server_a")], contract=parse_document(document, Contract, "f"))
    world.push(np.array([0.0, 0.9]))
    streaming(world).run(3)
    closed_ns = world.now_ns
    world.run(5)
    assert world.states() == [State.STREAMING]
    assert world.engine.guard.counts[FOLLOWING_ERROR] == 0
    since = [tick.command[1] for at_ns, tick in world.ticks if at_ns > closed_ns]
    assert np.array(since) == pytest.approx(-0.5), "it presses on"


@pytest.mark.parametrize("kind", ["velocity", "effort"])
def test_only_positions_can_have_a_following_error(kind: str):
    document = contract_document(kind)
    document["actions"]["limits"]["elbow"]["max_following_error"] = 0.1
    with pytest.raises(DocumentError, match=r"limits\.elbow: found max_following_error with"):
        parse_document(document, Contract, "test.contract.yaml")


class Climbing(SimulatedServer):
    """Its policy leads both joints away from wherever they are."""

    def rows(self, request):
        rows = super().rows(request)
        return np.tile(np.linspace(0.05, 1.0, len(rows), dtype=np.float32)[:, None], (1, 2))


class Closing(SimulatedServer):
    """Its policy waves the shoulder and closes the elbow."""

    def rows(self, request):
        rows = super().rows(request)
        rows[:, 1] = -0.5
        return rows


def drives_off(fallback: str) -> World:
    world = World(make_config(fallback=fallback), [Climbing("/server_a")])
    streaming(world)
    world.push(np.array([-0.5, -0.5]))
    world.reset()
    world.driven = False
    return world.run_until(lambda: world.state is State.STALLED, limit_s=10)


@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_drives_that_are_off_stop_the_commands_and_the_joints_are_named(fallback: str):
    world = drives_off(fallback)
    assert "shoulder, elbow" in world.engine.machine.cause
    assert "shoulder, elbow: farther" in world.warnings()
    assert world.engine.guard.counts[FOLLOWING_ERROR] > 0
    assert world.ticks[-1][1].interventions == (FOLLOWING_ERROR,)
    assert world.ticks[-1][1].source in {CommandSource.NONE, CommandSource.REPEAT_LAST}
    world.run(5)
    assert world.state is State.STALLED, "chunks lead nowhere"
    assert world.warnings().count("farther") == 1
    since = [tick for at_ns, tick in world.ticks if at_ns > world.now_ns - ns(4)]
    offered = [tick.command for tick in since if tick.command is not None]
    assert np.abs(np.stack(offered) - world.position).max() <= MAX_STEP + 1e-9, "one step at a time"


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_drives_that_come_back_let_the_arm_step_on_from_where_it_is(fallback: str, held: bool):
    """Whether the controller goes to its old target, or holds where the arm is until it is commanded."""
    world = drives_off(fallback)
    world.run(3)
    merged = world.engine.counters.chunks_merged
    if held:
        world.driven = True
    else:
        world.drive()
    world.run_until(
        lambda: world.state is State.STREAMING and world.engine.counters.chunks_merged > merged, limit_s=5
    )
    assert world.engine.playback.not_following == ()
    assert (world.run(1).position > 0).all()


@pytest.mark.parametrize("silent_after_s", [0.5, 2.0])  # before and after the joints are tried again
@pytest.mark.parametrize("fallback", ["hold", "repeat_last"])
def test_an_arm_that_did_not_follow_is_not_led_on_while_nobody_measures_it(
    fallback: str, silent_after_s: float
):
    """Its driver may have ended with the drives: the queue would lead on from where it was measured last."""
    world = drives_off(fallback)
    world.run(silent_after_s)
    world.sensors["joint_states"] = False
    silent_ns = world.now_ns
    world.run(4)
    offered = [tick.command for tick in world.commands_since(silent_ns)]
    assert all(np.abs(command - world.position).max() <= MAX_STEP + 1e-9 for command in offered)
    world.sensors["joint_states"] = True
    world.drive()
    world.run_until(lambda: world.state is State.STREAMING, limit_s=10)
