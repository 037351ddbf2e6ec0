# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A short piece of `make soak`, and that it would find something."""

from __future__ import annotations

import random

import numpy as np
import pytest
import random_world
import soak
from simulation import World

from remote_inference.core.robot.guard import Guard, Guarded


def test_random_worlds_break_no_rule():
    batch = soak.play_batch(range(60))
    assert batch.violations == []
    assert sum(outcome.commands for outcome in batch.outcomes) > 1000
    assert any(outcome.dead for outcome in batch.outcomes)
    assert any(outcome.reconnects for outcome in batch.outcomes)


def test_a_world_is_the_same_from_the_same_seed():
    assert random_world.play(7) == random_world.play(7)


def test_a_guard_that_lets_a_jump_pass_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Guard, "check", lambda self, action, *_, **__: Guarded(np.clip(action, -1.0, 1.0)))
    violations = soak.play_batch(range(20)).violations
    assert violations
    assert "AssertionError in _check_step" in violations[0]


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
