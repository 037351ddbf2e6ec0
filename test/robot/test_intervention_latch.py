# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy most of whose commands the guard must change is stopped, if that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.limit import watch
from remote_inference.robot.motion.select import Choice, Order
from remote_inference.robot.safety.effects import StopLatched
from remote_inference.robot.safety.guard import JOINT_LIMIT, VELOCITY_LIMIT
from support.builders import make_config, make_contract
from support.robot.motions import Motion
from support.robot.playbacks import make_rules
from support.robot.simulation import World, streaming


class Latch(Motion):
    """Commands of a policy of which the guard may change so many."""

    def __init__(self, max_changed: float, window: int) -> None:
        super().__init__(make_rules(make_contract(), max_changed=max_changed, window=window))

    def take(self, altered: tuple[str, ...]) -> str:
        choice = watch(Choice(self.state, Order.LEAD), altered, self.rules)
        self.state = choice.state
        return choice.latch


def feed(latch: Latch, *commands: tuple[str, ...]) -> list[str]:
    return [latch.take(interventions) for interventions in commands]


CLAMPED, GOOD = (JOINT_LIMIT,), ()


def test_more_than_the_ratio_of_a_full_window_stops():
    reasons = feed(Latch(0.5, 4), CLAMPED, CLAMPED, GOOD, GOOD, CLAMPED, CLAMPED, CLAMPED)
    assert [bool(reason) for reason in reasons] == [False] * 6 + [True]


def test_a_window_that_is_not_full_does_not_stop():
    assert feed(Latch(0.1, 4), CLAMPED, CLAMPED, CLAMPED) == [""] * 3


def test_the_reason_names_the_ratio_and_the_rules():
    latch = Latch(0.5, 4)
    *_, reason = feed(latch, CLAMPED, GOOD, (JOINT_LIMIT, VELOCITY_LIMIT), CLAMPED)
    assert "3 of the last 4 commands (joint_limit 3, velocity_limit 1)" in reason
    assert "max_clamped_ratio is 0.5" in reason


def test_after_a_stop_the_window_must_fill_again():
    latch = Latch(0.5, 2)
    assert [bool(reason) for reason in feed(latch, *[CLAMPED] * 5)] == [False, True, False, True, False]


def test_what_was_changed_before_a_stop_counts_no_more():
    reasons = feed(Latch(0.5, 4), *[CLAMPED] * 4, CLAMPED, CLAMPED, GOOD, GOOD)
    assert [bool(reason) for reason in reasons] == [False] * 3 + [True] + [False] * 4


def test_without_a_ratio_it_is_off():
    assert feed(Latch(0.0, 2), *[CLAMPED] * 9) == [""] * 9


@pytest.mark.parametrize("changes", [{"max_clamped_ratio": 1.0}, {"clamped_window": 0}])
def test_a_ratio_or_window_that_stops_never_or_always_is_refused(changes: dict[str, float]):
    with pytest.raises(DocumentError, match=next(iter(changes))):
        parse_document(changes, RobotConfig, "f")


def out_of_domain(**changes: float) -> World:
    """Play a policy that asks for positions beyond the limits after two seconds."""
    world = World(make_config(**{"clamped_window": 30, **changes}))
    world.server.rows = lambda request: np.zeros((20, 2), np.float32)
    streaming(world).run(2)
    world.server.rows = lambda request: np.full((20, 2), 9.0, np.float32)
    return world


def test_a_policy_out_of_its_domain_is_stopped_and_the_rules_are_named():
    world = out_of_domain(max_clamped_ratio=0.5)
    world.run_until(lambda: world.engine.paused, limit_s=5)
    (stop,) = world.all(StopLatched)
    assert "16 of the last 30 commands" in stop.cause
    assert "joint_limit 16" in stop.cause
    assert world.engine.stops.latched == stop.cause
    assert len(world.engine.queue) == 0
    commands = len([tick for _, tick in world.ticks if tick.command is not None])
    world.resume()
    world.run(2)
    assert world.engine.paused, "resume alone does not release it"
    assert len([tick for _, tick in world.ticks if tick.command is not None]) == commands


def test_after_clear_stop_and_resume_the_robot_goes_on_and_may_be_stopped_again():
    world = out_of_domain(max_clamped_ratio=0.5)
    world.run_until(lambda: world.engine.paused, limit_s=5)
    problem, effects = world.engine.clear_stop(world.now_ns)
    world.carry_out(effects)
    assert problem == ""
    assert world.engine.paused
    world.resume()
    assert not world.engine.paused
    world.run_until(lambda: len(world.all(StopLatched)) == 2, limit_s=10)


def test_by_default_it_only_counts():
    world = out_of_domain()
    world.run(5)
    assert world.engine.guard.counts[JOINT_LIMIT] > 30
    assert not world.engine.paused


def test_what_a_gentle_begin_holds_back_is_not_the_policy_s_fault():
    world = World(make_config(max_clamped_ratio=0.3, clamped_window=10, resume_ramp_s=3.0))
    world.server.rows = lambda request: np.tile(np.float32([[0.05], [-0.05]]), (10, 2))
    streaming(world)
    world.pause()
    world.resume()
    world.run(6)
    assert world.engine.guard.counts[VELOCITY_LIMIT] > 0
    assert not world.all(StopLatched)
