# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`merge_mode: ensemble`: an action is the weighted mean of what the chunks so far say of its instant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from remote_inference.base.admission import FatalMismatch
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.policy import Continuation
from remote_inference.robot.command import CommandSource
from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy, MergeMode
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.robot.queue.plan import ChunkSource
from remote_inference.robot.requests.handshake import Phase
from remote_inference.robot.requests.timing import Timing, find_timing_problem, find_timing_warnings
from support.builders import (
    CHUNK_SIZE,
    FPS,
    JOINTS,
    contract_document,
    make_config,
    make_contract,
    make_source,
    make_spec,
    ns,
)
from support.robot.asking_robot import Robot
from support.robot.handshakes import REPLY, make_handshake, walk
from support.robot.pose_robot import angle_of, pose_at, pose_contract
from support.robot.replayed import divergences_of, exact, replay, ticks_of
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import World, stopped, streaming

COEFFS = (0.0, 0.01, 0.7, -0.5, 10.0, -10.0)
PLAIN = make_spec(continuation=Continuation.NONE)


@dataclass
class Robots:
    """A queue whose chunks are told apart by instants: the reference keeps all that was said."""

    coeff: float
    contract: Contract | None = None
    now: int = 0  # ticks so far
    said: dict[int, list[tuple[int, np.ndarray]]] = field(default_factory=dict)  # by instant, in order
    seq_id: int = 0

    def __post_init__(self) -> None:
        actions = None if self.contract is None else self.contract.actions
        self.queue = ActionQueue(DelayPolicy.CONSUMED, ensemble=Ensemble(self.coeff, actions))

    def merge(self, rows: np.ndarray, captured: int | None = None, **source: Any) -> None:
        """Merge a chunk whose observation was captured before the tick `captured`; None: this one."""
        captured = self.now if captured is None else captured
        self.seq_id += 1
        for place, row in enumerate(rows):
            if captured + place >= self.now:
                self.said.setdefault(captured + place, []).append((self.seq_id, row))
        rows = np.asarray(rows, np.float32)
        self.queue.merge(
            replace(make_source(self.seq_id, captured), **source),
            rows,
            rows,
            MergeMode.REPLACE,
            latency_steps=self.now - captured,
            executed_before=captured,
        )

    def tick(self) -> tuple[np.ndarray, tuple[int, ...]]:
        """Execute an action; return its point, and the numbers of the chunks that it is of."""
        point = self.queue.plan.head_point
        action = self.queue.get()
        assert action is not None
        self.now += 1
        return point, tuple(source.seq_id for source in (*action.earlier, action.source))

    def expected(self) -> tuple[np.ndarray, tuple[int, ...]]:
        """Return the mean over all that was said of the next instant, by the weights' definition."""
        numbers, rows = zip(*self.said[self.now], strict=True)
        weights = np.exp(-self.coeff * np.arange(len(rows)))
        return weights @ np.array(rows, np.float64) / weights.sum(), numbers


def two(*rows: Sequence[float]) -> np.ndarray:
    return np.array(rows, np.float32)


# -- the mean ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coeff", COEFFS)
def test_asked_in_every_tick_a_robot_executes_the_mean_over_all_chunks(coeff: float) -> None:
    rng, robot = np.random.default_rng(0), Robots(coeff)
    for _ in range(60):
        robot.merge(rng.uniform(-1.0, 1.0, (20, 2)).astype(np.float32))
        (mean, numbers), (point, found) = robot.expected(), robot.tick()
        assert point == pytest.approx(mean, abs=1e-9)
        assert found == numbers
    assert len(found) == 20


@pytest.mark.parametrize("coeff", COEFFS)
def test_late_chunks_and_such_as_were_lost_count_for_the_instants_that_they_meant(coeff: float) -> None:
    rng, robot = np.random.default_rng(1), Robots(coeff)
    robot.merge(rng.uniform(-1.0, 1.0, (30, 2)))
    captured = 0
    for _ in range(25):
        latency = int(rng.integers(1, 6))
        captured = robot.now
        for _ in range(latency):
            (mean, numbers), (point, found) = robot.expected(), robot.tick()
            assert point == pytest.approx(mean, abs=1e-6)
            assert found == numbers
        robot.merge(rng.uniform(-1.0, 1.0, (30, 2)), captured)


def test_what_lies_beyond_the_chunks_before_is_the_newest_s_alone() -> None:
    robot = Robots(0.0)
    robot.merge(two([0.0, 0.0], [0.0, 0.0]))
    robot.tick()
    robot.merge(two([1.0, 2.0], [3.0, 4.0]))
    assert robot.tick()[0].tolist() == [0.5, 1.0]
    assert robot.tick() == (pytest.approx([3.0, 4.0]), (2,))


def test_what_a_chunk_said_itself_stays_with_its_action() -> None:
    """No prefix and no bag takes a mean for what a policy said."""
    robot = Robots(0.0)
    robot.merge(two([0.0, 0.0]))
    robot.merge(two([1.0, 2.0]))
    (action,) = robot.queue.plan.ahead
    assert action.model.tolist() == action.robot.tolist() == [1.0, 2.0]
    assert action.source.seq_id == 2


def test_without_an_ensemble_a_chunk_replaces() -> None:
    queue = ActionQueue()
    for number in (1, 2):
        rows = two([number, 0.0])
        queue.merge(make_source(number), rows, rows, MergeMode.REPLACE, latency_steps=0, executed_before=0)
    (action,) = queue.plan.ahead
    assert (queue.plan.head_point.tolist(), action.earlier) == ([2.0, 0.0], ())


@pytest.mark.parametrize(
    "change",
    [{"episode_id": 1}, {"task": "fold"}, {"policy_version": "f2"}, {"policy_fingerprint": "f2"}],
)
def test_nothing_is_averaged_over_episodes_tasks_and_policies(change: dict[str, Any]) -> None:
    robot = Robots(0.0)
    robot.merge(two([0.0, 0.0]))
    robot.merge(two([1.0, 1.0]), **change)
    assert robot.tick() == (pytest.approx([1.0, 1.0]), (2,))


def test_over_sessions_of_one_policy_it_is() -> None:
    robot = Robots(0.0)
    robot.merge(two([0.0, 0.0]))
    robot.merge(two([1.0, 1.0]), session_id="another")
    assert robot.tick() == (pytest.approx([0.5, 0.5]), (1, 2))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_row_that_is_not_finite_spoils_no_mean_after_it(bad: float) -> None:
    robot = Robots(0.0)
    robot.merge(two([bad, 0.0], [0.0, 0.0]))
    robot.merge(two([1.0, 1.0], [bad, 1.0]))
    assert robot.queue.plan.head_point.tolist() == [1.0, 1.0]
    assert not np.isfinite(robot.queue.plan.points[1]).all(), "what is refused stays so"
    robot.merge(two([2.0, 2.0], [2.0, 2.0]))
    assert robot.tick() == (pytest.approx([1.5, 1.5]), (2, 3))
    assert robot.tick() == (pytest.approx([2.0, 2.0]), (3,))


# -- what has no mean of its numbers -------------------------------------------------------------------------


def pose(angle: float, x: float = 0.0, length: float = 1.0) -> np.ndarray:
    found = pose_at(x=x, angle=angle)
    found[3:] *= length
    return found


@pytest.mark.parametrize("length", [1.0, -1.0, 3.0, -0.2])
def test_orientations_are_averaged_as_such(length: float) -> None:
    """A quaternion, its negative and its multiples are the same orientation."""
    robot = Robots(0.0, pose_contract())
    robot.merge(pose(0.2, x=0.1, length=length)[np.newaxis])
    robot.merge(pose(0.6, x=0.3)[np.newaxis])
    point, _ = robot.tick()
    point[3:] /= np.linalg.norm(point[3:])
    assert angle_of(point, pose(0.4)) == pytest.approx(0.0, abs=1e-4)
    assert point[0] == pytest.approx(0.2)


def test_the_mean_of_orientations_is_that_of_unit_quaternions_of_one_sign() -> None:
    coeff, angles = 0.3, (0.1, 0.9, 0.5, 0.4)
    robot = Robots(coeff, pose_contract())
    for place, angle in enumerate(angles):
        robot.merge(pose(angle, length=(-1.0) ** place * (1.0 + place))[np.newaxis])
    weights = np.exp(-coeff * np.arange(len(angles)))
    mean = weights @ np.array([pose(angle)[3:] for angle in angles])
    point, _ = robot.tick()
    found = point[3:] / np.linalg.norm(point[3:])
    assert found * np.sign(found[-1]) == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


def test_a_row_that_says_no_orientation_stands_alone() -> None:
    robot = Robots(0.0, pose_contract())
    none = pose(0.0, length=0.01)
    robot.merge(none[np.newaxis])
    robot.merge(pose(0.4)[np.newaxis])
    assert robot.queue.plan.head_point == pytest.approx(pose(0.4), abs=1e-6)
    robot.merge(none[np.newaxis])
    assert robot.queue.plan.head_point == pytest.approx(none, abs=1e-6), "the guard refuses it by its rule"


def test_of_a_switch_the_newest_number_counts() -> None:
    document = contract_document()
    limit = {"kind": "switch", "min": 0.0, "max": 1.0, "closes_above": 0.6, "opens_below": 0.4}
    document["actions"]["limits"][JOINTS[1]] = limit
    array = "std_msgs/msg/Float64MultiArray"
    document["commands"] = [{"topic": name, "type": array, "names": [name]} for name in JOINTS]
    robot = Robots(0.0, parse_document(document, Contract, "switch.contract.yaml"))
    for number in (0.0, 0.0, 1.0):
        robot.merge(two([number, number]))
    assert robot.tick()[0] == pytest.approx([1.0 / 3.0, 1.0])


@pytest.mark.parametrize(
    ("angles", "wraps", "mean"),
    [
        ((3.0, -3.0), True, np.pi),
        ((-3.0, 3.0), True, -np.pi),
        ((3.0, -3.0), False, 0.0),
        ((0.5, 0.5 + 4.0 * np.pi), True, 0.5),
        ((3.0, -3.0, 3.0 - 2.0 * np.pi), True, (6.0 + 2.0 * np.pi - 3.0) / 3.0),
    ],
)
def test_an_angle_that_wraps_goes_the_shorter_way(
    angles: tuple[float, ...], wraps: bool, mean: float
) -> None:
    document = contract_document()
    document["actions"]["limits"][JOINTS[0]] |= {"wraps": wraps}
    robot = Robots(0.0, parse_document(document, Contract, "wraps.contract.yaml"))
    for angle in angles:
        robot.merge(two([angle, 0.0]))
    assert robot.tick()[0] == pytest.approx([mean, 0.0], abs=1e-5)


# -- in a robot ----------------------------------------------------------------------------------------------


def test_a_robot_of_means_asks_at_all_times_and_sends_no_prefix() -> None:
    robot = Robot(merge_mode="ensemble")
    robot.finish(robot.ask())
    robot.wait(1)
    assert robot.may_ask()
    assert robot.ask().prefix_robot is None
    plain = Robot(buffer_time_s=0.5)
    plain.finish(plain.ask())
    plain.wait(1)
    assert not plain.may_ask()
    assert plain.ask().prefix_robot is not None


def test_a_robot_that_stands_does_not_average_what_is_too_old() -> None:
    """Else what was seen first would count most for ever."""
    robot = Robot(merge_mode="ensemble", ensemble_coeff=0.0, max_action_age_s=3.0)
    found = []
    for second in range(6):
        robot.finish(robot.ask(), np.full((CHUNK_SIZE, 2), second, np.float32))
        robot.wait(ns(1.0))
        found.append(robot.queue.plan.head_point.tolist()[0])
    assert found == [0.0, 0.5, 1.0, 1.5, 4.0, 4.5]


def make_world(**config: Any) -> World:
    world = World(
        make_config(merge_mode="ensemble", **config),
        [SimulatedServer("/server_a", PLAIN)],
        contract=make_contract(),
    )
    return streaming(world)


def test_a_run_of_means_is_replayed_bit_for_bit() -> None:
    world = make_world().run(4.0)
    _, entries = world.engine.journal.take()
    outcomes = replay(entries)
    assert divergences_of(outcomes) == []
    assert exact(ticks_of(outcomes)) == exact([tick for _, tick in world.ticks])
    assert max(len(tick.queued.earlier) for _, tick in world.ticks if tick.queued) > 5


def test_a_new_episode_begins_with_a_chunk_of_its_own() -> None:
    world = make_world().run(2.0)
    world.reset()
    begin = len(world.ticks)
    world.run(2.0)
    led = [tick for _, tick in world.ticks[begin:] if tick.source is CommandSource.CHUNK]
    rows = [tick.queued for tick in led if tick.queued]
    assert rows[0].earlier == ()
    assert {source.episode_id for row in rows for source in (*row.earlier, row.source)} == {1}
    assert rows[-1].earlier != ()


# -- refused -------------------------------------------------------------------------------------------------


def test_a_policy_that_continues_its_chunks_is_refused() -> None:
    handshake = walk(make_handshake(merge_mode="ensemble"), Phase.OPENING, 0)
    with pytest.raises(FatalMismatch, match=r"merge_mode: found 'ensemble', expected another .*\(RTC\)"):
        handshake.take_session_reply("/a", handshake.epoch, replace(REPLY, rtc=True), 0)
    world = World(make_config(merge_mode="ensemble"), [SimulatedServer("/server_a", make_spec())])
    assert stopped(world.run_until(lambda: stopped(world)))


@pytest.mark.parametrize(
    ("horizon", "age_s", "said"),
    [
        (0, 5.1, ""),
        (0, 5.0, "max_action_age_s: found 5, expected more than a chunk lasts (merge_mode is ensemble)"),
        (59, 3.0, ""),
        (60, 3.0, "max_action_age_s: found 3"),
    ],
)
def test_means_reach_no_further_back_than_actions_may(horizon: int, age_s: float, said: str) -> None:
    config = make_config(merge_mode="ensemble", execution_horizon=horizon, max_action_age_s=age_s)
    problem = find_timing_problem(Timing(config, FPS, 100))
    assert said in problem
    assert bool(problem) == bool(said)


def test_no_buffer_has_to_be_chosen_for_means() -> None:
    for buffer_time_s in (0.0, 0.1, "auto"):
        config = make_config(merge_mode="ensemble", buffer_time_s=buffer_time_s)
        assert find_timing_warnings(Timing(config, FPS, 50, 0.4)) == ()


def test_a_robot_that_asks_with_an_empty_queue_has_nothing_to_average() -> None:
    with pytest.raises(ValidationError, match="request_mode: found 'blocking' with merge_mode 'ensemble'"):
        make_config(merge_mode="ensemble", request_mode="blocking")


def test_by_default_nothing_is_averaged() -> None:
    world = streaming(World()).run(1.0)
    assert {tick.queued.earlier for _, tick in world.ticks if tick.queued} == {()}


def test_sources_of_one_chunk_are_one_object() -> None:
    """A plan of a hundred actions, each a mean of a hundred chunks, has a hundred sources."""
    robot = Robots(0.0)
    for _ in range(3):
        robot.merge(np.zeros((4, 2)))
    sources: set[int] = {id(source) for action in robot.queue.plan.ahead for source in action.earlier}
    assert len(sources) == 2
    assert all(isinstance(one, ChunkSource) for action in robot.queue.plan.ahead for one in action.earlier)
