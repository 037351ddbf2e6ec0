# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands between the policy's rows: straight from row to row, within the limits, in the rows' own time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.exchange import Request
from remote_inference.base.policy import Float32Array
from remote_inference.robot.command import CommandSource
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue, MergeMode
from remote_inference.robot.queue.plan import MOST_AHEAD
from remote_inference.robot.safety.guard import AGE, VELOCITY_LIMIT
from support.builders import (
    FPS,
    JOINT_TRAJECTORY,
    contract_document,
    make_config,
    make_rows,
    ns,
)
from support.robot.playbacks import MAX_AGE_NS, make_playback
from support.robot.played_arm import feed
from support.robot.replayed import exact, replay, ticks_of
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, streaming
from support.robot.steps import Steps

TICKS = 5  # of control that a row lasts


def make_steps(queue: ActionQueue, ticks_per_row: int = TICKS, mode: str = "linear") -> Steps:
    return Steps(queue, ticks_per_row, is_linear=mode == "linear")


class Arm:
    """A playback at zero whose control is faster than its policy; it follows its commands."""

    def __init__(self, ticks_per_row: int = TICKS, interpolation: str = "linear", **limits: float):
        document = contract_document(ticks_per_row=ticks_per_row)
        document["interpolation"] = interpolation
        for limit in document["actions"]["limits"].values():
            limit.update(limits)
        contract = parse_document(document, Contract, "test.contract.yaml")
        self.period_ns = round(contract.period_s * 1e9)
        self.max_step = contract.actions.limits["elbow"].max_velocity * contract.period_s
        self.queue = ActionQueue()
        self.playback = make_playback(contract, self.queue, max_sensor_age_ns=MAX_AGE_NS)
        self.playback.control.change(measured=np.zeros(2))
        self.now_ns = ns(10)

    def tick(self) -> Tick:
        tick = self.playback.tick(self.now_ns)
        if tick.command is not None:
            self.playback.control.change(measured=tick.command.copy())
        self.now_ns += self.period_ns
        return tick

    def play(self, ticks: int) -> list[Tick]:
        return [self.tick() for _ in range(ticks)]

    def feed(self, rows: np.ndarray, mode: MergeMode = MergeMode.APPEND) -> None:
        feed(self.queue, rows, self.now_ns, mode)


def commands_of(ticks: list[Tick]) -> np.ndarray:
    return np.stack([tick.command for tick in ticks if tick.command is not None])


def test_the_way_from_row_to_row_is_straight_and_even():
    arm = Arm()
    arm.feed(make_rows(3, step=0.05))
    ticks = arm.play(2 * TICKS + 1)
    assert commands_of(ticks)[:, 0] == pytest.approx(0.01 * np.arange(2 * TICKS + 1))
    assert [tick.queued.step_index for tick in ticks if tick.queued] == [0] * TICKS + [1] * TICKS + [2]
    assert [tick.row_fraction for tick in ticks[:TICKS]] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])


def test_without_interpolation_each_row_is_repeated():
    arm = Arm(interpolation="none", max_velocity=1000.0)
    rows = make_rows(3, step=0.05)
    arm.feed(rows)
    ticks = arm.play(3 * TICKS)
    assert commands_of(ticks) == pytest.approx(np.repeat(rows, TICKS, axis=0))
    assert [tick.row_fraction for tick in ticks[:TICKS]] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])


def test_the_last_row_is_held_for_its_time_and_then_the_fallback_runs():
    arm = Arm()
    arm.feed(make_rows(2, step=0.05))
    ticks = arm.play(2 * TICKS + 1)
    assert [tick.source for tick in ticks[: 2 * TICKS]] == [CommandSource.CHUNK] * (2 * TICKS)
    assert commands_of(ticks)[TICKS:] == pytest.approx(np.tile([0.05, -0.05], (TICKS, 1)))
    assert ticks[-1].source is CommandSource.NONE
    assert arm.playback.starved == "queue empty"


def test_a_row_that_comes_late_begins_at_once():
    arm = Arm()
    arm.feed(make_rows(1))
    arm.play(TICKS + 2)
    arm.feed(make_rows(2, first=0.01))
    assert [tick.row_fraction for tick in arm.play(3)] == pytest.approx([0.0, 0.2, 0.4])


def test_a_row_that_comes_while_the_last_one_is_held_is_approached_in_the_ticks_left():
    arm = Arm()
    arm.feed(make_rows(1))
    arm.play(3)
    arm.feed(make_rows(1, first=0.06))
    assert commands_of(arm.play(3))[:, 0] == pytest.approx([0.02, 0.04, 0.06])


def test_a_chunk_that_changes_the_next_row_bends_the_way_and_breaks_it_nowhere():
    arm = Arm()
    arm.feed(make_rows(3, step=0.05))
    arm.play(3)  # at 0.02, on the way to 0.05
    arm.feed(make_rows(3, first=-0.04, step=0.0), mode=MergeMode.REPLACE)
    assert commands_of(arm.play(4))[:, 0] == pytest.approx([0.0, -0.02, -0.04, -0.04], abs=1e-6)


def test_a_row_in_progress_that_is_too_old_makes_room_for_the_next():
    arm = Arm()
    capture_ns = arm.now_ns - MAX_AGE_NS + arm.period_ns
    feed(arm.queue, make_rows(1, first=0.01), capture_ns)
    arm.feed(make_rows(1, first=0.02))
    ticks = arm.play(3)
    assert [tick.queued.source.capture_ns for tick in ticks if tick.queued] == [capture_ns] * 2 + [ns(10)]
    assert ticks[2].row_fraction == 0.0
    assert ticks[2].age_s < 1.0


def test_a_row_in_progress_that_is_too_old_with_none_behind_it_is_not_executed_on():
    arm = Arm()
    feed(arm.queue, make_rows(1), arm.now_ns - MAX_AGE_NS)
    assert [tick.source for tick in arm.play(2)] == [CommandSource.CHUNK, CommandSource.NONE]
    assert arm.playback.rules.guard.counts[AGE] == 1


def test_a_robot_that_may_have_been_moved_begins_a_row():
    arm = Arm()
    arm.feed(make_rows(3, step=0.01))
    arm.play(2)
    arm.playback.control.change(paused=True)
    arm.play(1)
    arm.playback.control.change(paused=False, forget=True)
    tick = arm.tick()
    assert tick.queued is not None
    assert (tick.queued.step_index, tick.row_fraction) == (1, 0.0)


def test_a_row_that_waits_for_a_joint_goes_on_where_it_was():
    """As the queue does: a tick that commands no row takes no time from it."""
    arm = Arm()
    arm.feed(make_rows(3, step=0.01))
    arm.play(2)
    arm.playback.control.change(paused=True)
    arm.play(3)
    arm.playback.control.change(paused=False)
    tick = arm.tick()
    assert tick.queued is not None
    assert (tick.queued.step_index, tick.row_fraction) == (0, pytest.approx(0.4))


def test_a_way_that_is_too_fast_is_limited_in_every_tick():
    arm = Arm(max_velocity=1.0)
    arm.feed(np.array([[0.0, 0.0], [0.2, 0.0], [0.2, 0.0]], np.float32))  # 4 rad/s
    ticks = arm.play(3 * TICKS)
    steps = np.abs(np.diff(commands_of(ticks), axis=0))
    assert steps.max() == pytest.approx(arm.max_step)
    assert {rule for tick in ticks for rule in tick.interventions} == {VELOCITY_LIMIT}
    assert commands_of(ticks)[-1, 0] == pytest.approx(14 * arm.max_step)


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("play"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["append", "replace"]), st.integers(1, 6)),
    ),
    max_size=20,
)


@given(happenings, st.integers(0, 2**32 - 1), st.integers(2, 12))
def test_each_point_lies_on_the_way_to_the_next_row_and_each_row_is_met(
    schedule: list[tuple[str, int]], seed: int, ticks_per_row: int
):
    rng = np.random.default_rng(seed)
    queue = ActionQueue()
    steps = make_steps(queue, ticks_per_row)
    before: np.ndarray | None = None
    for event, amount in schedule:
        if event != "play":
            feed(queue, rng.uniform(-1, 1, (amount, 2)).astype(np.float32), 0, MergeMode(event))
            continue
        for _ in range(amount):
            goal = queue.plan.head
            step = steps.step()
            if step is None:
                assert goal is None
            elif step.fraction == 0.0:
                assert step.action is goal
                assert step.point.tolist() == step.action.robot.tolist()
            else:
                assert before is not None
                assert queue.plan.head is goal, "a row is taken when it begins"
                left = round((1.0 - step.fraction) * ticks_per_row) + 1
                way = 0.0 if goal is None else (goal.robot - before) / left
                np.testing.assert_allclose(step.point, before + way, atol=1e-12)
            before = None if step is None else step.point


@given(happenings, st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from(["linear", "none"]))
def test_every_command_is_within_the_limits_and_a_control_tick_s_step(
    schedule: list[tuple[str, int]], seed: int, ticks_per_row: int, interpolation: str
):
    rng = np.random.default_rng(seed)
    arm = Arm(ticks_per_row, interpolation)
    before = np.zeros(2)
    for event, amount in schedule:
        if event != "play":
            arm.feed(rng.uniform(-1.5, 1.5, (amount, 2)).astype(np.float32), MergeMode(event))
            continue
        for tick in arm.play(amount):
            if tick.command is not None:
                assert (np.abs(tick.command) <= 1.0).all()
                assert (np.abs(tick.command - before) <= arm.max_step + 1e-12).all()
                before = tick.command


@given(happenings, st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from(["linear", "none"]))
def test_what_is_foreseen_comes_true(
    schedule: list[tuple[str, int]], seed: int, ticks_per_row: int, mode: str
):
    rng = np.random.default_rng(seed)
    queue = ActionQueue()
    steps = make_steps(queue, ticks_per_row, mode)
    for event, amount in schedule:
        if event == "play":
            for _ in range(amount):
                steps.step()
        else:
            feed(queue, rng.uniform(-1, 1, (amount, 2)).astype(np.float32), 0, MergeMode(event))
    foresight = steps.foresee()
    for point, capture_ns in zip(foresight.points, foresight.capture_ns, strict=True):
        step = steps.step()
        assert step is not None
        assert step.action.source.capture_ns == capture_ns
        assert step.point.tolist() == point.tolist()
    assert len(queue) == 0 or len(foresight.points) >= MOST_AHEAD - ticks_per_row


# -- with the engine around it -------------------------------------------------------------------------------


class WaveServer(SimulatedServer):
    """Answers with one wave in time, so that its chunks fit one another as those of a good policy."""

    def rows(self, request: Request) -> Float32Array:
        time = request.client_mono_ns * 1e-9 * FPS + np.arange(self.spec.chunk_size)
        return np.stack([np.sin(0.1 * time), np.cos(0.1 * time)], axis=1).astype(np.float32)


def make_world(ticks_per_row: int, *, command_type: str | None = None, **changes: str) -> World:
    document = {**contract_document(ticks_per_row=ticks_per_row), **changes}
    if command_type is not None:
        document["commands"][0]["type"] = command_type
    for limit in document["actions"]["limits"].values():
        limit.update(max_velocity=1e3)
    return World(make_config(), [WaveServer("/server_a")], contract=parse_document(document, Contract, "f"))


def test_delays_and_prefixes_count_rows_whatever_the_control_rate():
    worlds = [streaming(make_world(ticks)).run(5.0) for ticks in (1, TICKS)]
    slow, fast = (
        [(r.inference_delay_steps, len(r.prefix_robot)) for r in w.sent[5:10] if r.prefix_robot is not None]
        for w in worlds
    )
    assert slow
    for (delay, prefix), (other_delay, other_prefix) in zip(slow, fast, strict=True):
        assert abs(delay - other_delay) <= 1
        assert abs(prefix - other_prefix) <= 2
    assert fast[0][0] < 5, "a row lasts 50 ms, an answer takes 80 ms"


def test_an_offer_and_the_timing_speak_of_the_policy_s_rate():
    world = streaming(make_world(TICKS))
    assert world.engine.handshake.offer.fps == FPS
    assert world.contract.fps == FPS * TICKS
    assert not any("Hz" in text for text in world.warnings().splitlines())


@pytest.mark.parametrize("command_type", [None, JOINT_TRAJECTORY])
def test_a_robot_moves_more_smoothly_between_rows_than_from_row_to_row(command_type: str | None):
    def largest_step(mode: str) -> float:
        world = streaming(make_world(TICKS, command_type=command_type, interpolation=mode)).run(4.0)
        ticks = [tick for _, tick in world.ticks if tick.source is CommandSource.CHUNK]
        assert len(ticks) > 4.0 * FPS * TICKS * 0.9
        return float(np.abs(np.diff(commands_of(ticks), axis=0)).max())

    assert largest_step("linear") < 0.5 * largest_step("none")


def test_a_robot_between_rows_is_replayed_bit_for_bit():
    world = streaming(make_world(TICKS)).run(2.0)
    world.pause()
    world.run(0.3)
    world.resume()
    world.run(2.0)
    _, entries = world.engine.journal.take()
    replayed = ticks_of(replay(entries))
    assert any(tick.row_fraction for tick in replayed)
    assert exact(replayed) == exact([tick for _, tick in world.ticks])
