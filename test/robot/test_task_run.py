# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How a run on one task ends, and what counts first when several things happen at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from remote_inference.robot.safety.state_machine import Event
from remote_inference.robot.task_run import (
    MAX_DURATION_S,
    Outcome,
    RobotView,
    TaskRun,
    Termination,
    find_duration_problem,
)
from support.robot.simulation import World, streaming

DRIVING = RobotView(
    state_name="STREAMING",
    cause="chunk merged",
    dead=False,
    offline=False,
    stop="",
    policy_refused="",
    taken_over=False,
    paused=False,
    pauses=0,
    chunks=10,
    holds=5,
    interventions=2,
)


def begun(max_duration_s: float = 30.0) -> TaskRun:
    run = TaskRun(max_duration_s, DRIVING, 100.0)
    run.begun = True
    return run


def test_a_run_goes_on_while_nothing_ends_it():
    assert begun().find_outcome(DRIVING, 129.9) is None


def test_it_ends_when_its_time_is_over():
    assert begun().find_outcome(DRIVING, 130.0) == Outcome(Termination.TIME_OUT, "not done within 30 s")


def test_without_a_limit_it_may_last_for_ever():
    assert begun(0.0).find_outcome(DRIVING, 1e9) is None


@pytest.mark.parametrize(
    ("changes", "termination", "message"),
    [
        ({"dead": True, "cause": "another policy"}, Termination.ERROR, "the robot gave up: another policy"),
        (
            {"dead": True, "offline": True, "cause": "no server for 60 s"},
            Termination.OFFLINE,
            "the robot gave up: no server for 60 s",
        ),
        ({"stop": "stop input button", "paused": True}, Termination.STOPPED, "stopped by stop input button"),
        ({"paused": True}, Termination.STOPPED, "paused by somebody else"),
        ({"policy_refused": "it does not fit", "paused": True}, Termination.ERROR, "it does not fit"),
        ({"taken_over": True}, Termination.TAKEN_OVER, "a person took over"),
    ],
)
def test_what_happens_to_the_robot_ends_it(changes: dict, termination: Termination, message: str):
    assert begun().find_outcome(replace(DRIVING, **changes), 101.0) == Outcome(termination, message)


def test_a_robot_that_still_waits_to_be_resumed_is_not_paused_by_somebody_else():
    run = TaskRun(30.0, DRIVING, 100.0)
    assert run.find_outcome(replace(DRIVING, paused=True), 101.0) is None


def test_what_was_refused_before_it_began_is_another_run_s():
    run = TaskRun(30.0, DRIVING, 100.0)
    assert run.find_outcome(replace(DRIVING, policy_refused="the policy before"), 101.0) is None


def accepted(world: World) -> TaskRun:
    """Return the run of a goal that is accepted now."""
    return TaskRun(30.0, replace(DRIVING, paused=world.engine.paused, pauses=world.engine.pauses), 100.0)


def begin(world: World, run: TaskRun, policy: str = "") -> None:
    world.carry_out(run.begin(world.engine, "clap", policy, world.now_ns))


def test_it_begins_with_an_episode_and_resumes_a_paused_robot():
    world = streaming(World())
    world.pause()
    run = accepted(world)
    begin(world, run)
    assert (run.begun, run.refusal) == (True, "")
    assert not world.engine.paused
    assert (world.engine.episode.id, world.engine.episode.task) == (1, "clap")


def test_a_policy_that_is_gone_since_the_goal_was_accepted_moves_nothing():
    world = streaming(World())
    world.pause()
    run = accepted(world)
    begin(world, run, "stacker")
    assert (run.begun, world.engine.paused, world.engine.episode.id) == (False, True, 0)
    assert run.refusal.startswith("policy: found 'stacker'")


def test_it_does_not_slow_down_a_robot_that_is_not_paused():
    world = streaming(World())
    blend_ins = world.engine.control.operator.blend_ins
    run = accepted(world)
    begin(world, run)
    assert (run.begun, run.refusal) == (True, "")
    assert world.engine.control.operator.blend_ins == blend_ins


@pytest.mark.parametrize("was_paused", [True, False])
def test_a_pause_after_the_goal_was_accepted_is_not_undone_by_it(was_paused: bool):
    world = streaming(World())
    if was_paused:
        world.pause()
        world.run(0.3)
    run = accepted(world)
    world.engine.pause_at_once()
    paused_ns = world.now_ns
    world.run(0.1)
    begin(world, run)
    assert (run.begun, run.refusal) == (False, "paused meanwhile")
    assert world.engine.episode.id == 0, "the queue is kept"
    world.run(0.5)
    assert world.engine.paused
    assert world.commands_since(paused_ns) == []


@pytest.mark.parametrize("was_paused", [True, False])
def test_a_robot_that_gave_up_after_the_goal_was_accepted_begins_nothing(was_paused: bool):
    world = streaming(World())
    if was_paused:
        world.pause()
    run = accepted(world)
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    begin(world, run)
    assert (run.begun, run.refusal) == (False, "stopped: another policy")
    assert world.engine.episode.id == 0
    assert world.engine.paused is was_paused


def test_a_robot_that_may_not_be_resumed_ends_it_with_the_reason():
    run = TaskRun(30.0, DRIVING, 100.0)
    run.refusal = "stop input button was never heard"
    outcome = run.find_outcome(replace(DRIVING, paused=True), 101.0)
    assert outcome == Outcome(Termination.STOPPED, "not resumed: stop input button was never heard")


def test_success_counts_before_a_cancellation_and_a_stop_before_success():
    run = begun()
    run.succeeded = run.canceled = True
    assert run.find_outcome(DRIVING, 200.0) == Outcome(Termination.SUCCEEDED, "the success topic said true")
    stopped = run.find_outcome(replace(DRIVING, stop="stop input button", paused=True), 200.0)
    assert stopped is not None
    assert stopped.termination is Termination.STOPPED
    run.succeeded = False
    assert run.find_outcome(DRIVING, 200.0) == Outcome(Termination.CANCELED, "canceled")


def test_progress_counts_from_the_goal_on():
    progress = begun().progress(replace(DRIVING, chunks=14, holds=5, interventions=3), 102.5)
    assert (progress.elapsed_s, progress.chunks, progress.holds, progress.interventions) == (2.5, 4, 0, 1)


@pytest.mark.parametrize("duration_s", [0.0, 30.0, MAX_DURATION_S])
def test_a_run_may_last_so_long(duration_s: float):
    assert find_duration_problem(duration_s) == ""


@pytest.mark.parametrize("duration_s", [-1.0, float("nan"), float("inf"), 2 * MAX_DURATION_S])
def test_other_durations_are_refused(duration_s: float):
    assert find_duration_problem(duration_s).startswith("max_duration_s: found")
