# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A short piece of `make soak`, and that it would find something."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
import soak

from remote_inference.robot import pose_geometry
from remote_inference.robot.command import CommandSource
from remote_inference.robot.fallbacks import Zero
from remote_inference.robot.motion import emit, estimate, limit
from remote_inference.robot.motion.command_mode import StopInputs
from remote_inference.robot.motion.emit import Outcome
from remote_inference.robot.motion.rules import FollowingBounds
from remote_inference.robot.motion.state import JointEstimate, MotionState, Tick
from remote_inference.robot.pose_geometry import PoseRule
from remote_inference.robot.safety.guard import Guard, Guarded, SwitchRule
from remote_inference.robot.safety.supervisor import Supervisor
from remote_inference.robot.watchdog import Watchdog
from support.robot import random_lying_world, random_watched_world, random_world
from support.robot.simulation import World


def find_none(_: FollowingBounds, command: np.ndarray, *__: object) -> np.ndarray:
    return np.zeros(len(command), bool)


def lose_nothing(joints: JointEstimate, _: int) -> JointEstimate:
    return joints


def hold_nothing(state: MotionState, *_: object) -> Outcome:
    return Outcome(state, Tick(None, CommandSource.NONE))


def switch_without_hysteresis(self: SwitchRule, action: np.ndarray, *_: object) -> tuple:
    nearer = np.where(action >= self._middle, self._closed, self._open)
    return np.where(self.places, nearer, action), False


def test_random_worlds_break_no_rule():
    batch = soak.play_batch(range(60), ["network"])
    assert batch.violations == []
    assert sum(outcome.commands for outcome in batch.outcomes) > 1000
    assert any(outcome.dead for outcome in batch.outcomes)
    assert any(outcome.reconnects for outcome in batch.outcomes)


def test_random_worlds_in_which_the_robot_itself_fails_break_no_rule():
    batch = soak.play_batch(range(60), ["robot"])
    assert batch.violations == []
    assert sum(outcome.commands for outcome in batch.outcomes) > 1000
    assert any(outcome.dead for outcome in batch.outcomes)


def test_random_worlds_in_which_sensors_lie_break_no_rule():
    batch = soak.play_batch(range(60), ["lies"])
    assert batch.violations == []
    assert sum(outcome.commands for outcome in batch.outcomes) > 1000


def test_sensors_that_are_late_and_come_in_bursts_break_no_rule(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(random_lying_world, "HONEST", 1.0)
    assert soak.play_batch(range(40), ["lies"]).violations == []


@pytest.mark.parametrize("kind", soak.KINDS)
def test_a_robot_that_does_not_believe_the_truth_is_found(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(random_lying_world, "HONEST", 1.0)
    counted = itertools.count()
    monkeypatch.setattr(World, "_implausible", property(lambda _: next(counted)))
    violations = soak.play_batch(range(5), [kind]).violations
    assert any("of a led arm were not believed" in violation for violation in violations)


@pytest.mark.parametrize("kind", soak.KINDS)
def test_a_world_is_the_same_from_the_same_seed(kind: str):
    assert soak.play_world(kind, 7) == soak.play_world(kind, 7)


def test_a_guard_that_lets_a_jump_pass_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Guard, "check", lambda self, action, *_, **__: Guarded(np.clip(action, -1.0, 1.0)))
    violations = soak.play_batch(range(20), ["network"]).violations
    assert violations
    assert "AssertionError in _check_step" in violations[0]


@pytest.mark.parametrize("rule", ["wait_for", "need_no_server"])
def test_a_robot_that_gives_up_while_it_should_wait_is_found(rule: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Supervisor, rule, lambda *_: [])
    assert any(isinstance(soak.play_world("network", seed), str) for seed in range(30))


BROKEN = {
    "a stall costs no reference": (estimate, "_lose", lose_nothing),
    "an arm that does not follow is led on": (FollowingBounds, "find_lost", find_none),
    "a trajectory is not ended": (emit, "_hold", hold_nothing),
    "a velocity is not stopped": (Zero, "stop", lambda self, last: last),
    "a stop input is not heard": (StopInputs, "_latch", lambda self, _: None),
    "a pose is cut by its columns": (PoseRule, "limit_step", lambda self, _, __, limited, ___: limited),
    "a pose turns at any speed": (pose_geometry, "slerp", lambda _, end, __: end),
    "a pose that does not follow is led on": (FollowingBounds, "_are_apart", find_none),
    "a switch changes too often": (limit, "find_settling", lambda *_: None),
    "a switch follows every number": (SwitchRule, "decide", lambda self, action, *_: (action, False)),
    "a switch has no hysteresis": (SwitchRule, "decide", switch_without_hysteresis),
    "the watchdog sleeps": (Watchdog, "check", lambda self, _: False),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_in_the_robot_is_found(broken: tuple, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(*broken)
    assert any(isinstance(soak.play_world("robot", seed), str) for seed in range(300))


@pytest.mark.parametrize("event", random_watched_world.EVENTS)
def test_every_event_leaves_a_robot_that_can_be_cured(event: random_watched_world.Occurrence):
    rng = random.Random(1)
    world = random_watched_world.make_world(rng, 1)
    world.run(1)
    event(world, rng)
    random_watched_world.cure(world)
    merged = world.engine.counters.chunks_merged
    world.run_until(lambda: world.engine.dead or world.engine.counters.chunks_merged > merged, limit_s=20)


@pytest.mark.parametrize("event", random_world.EVENTS)
def test_every_event_leaves_a_world_that_can_be_cured(event: random_world.Occurrence):
    world = World(random_world.make_config())
    world.run(1)
    event(world, random.Random(1))
    random_world.cure(world)
    merged = world.engine.counters.chunks_merged
    world.run_until(lambda: world.engine.counters.chunks_merged > merged, limit_s=random_world.RECOVERY_S)


@pytest.mark.parametrize(
    ("sizes", "growth"), [((10.0, 12.0, 11.0), 1.1), ((10.0, 10.0), 1.0), ((10.0,), 1.0)]
)
def test_memory_growth_compares_the_last_worlds_with_the_first(sizes: tuple[float, ...], growth: float):
    assert soak.memory_growth([soak.Batch(1, size) for size in sizes]) == pytest.approx(growth)
