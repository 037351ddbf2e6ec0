# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""After a stop the arm begins gently, if it is asked to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.motion.limit import ramp_scale
from remote_inference.robot.safety.state_machine import State
from support.builders import (
    FLOAT64_MULTI_ARRAY,
    JOINTS,
    MAX_STEP,
    contract_document,
    make_config,
    make_contract,
    ns,
)
from support.robot.fed_playback import FedPlayback
from support.robot.motions import FIRST, Motion
from support.robot.playbacks import make_rules
from support.robot.simulation import World, streaming


class Ramp(Motion):
    """A ramp of the velocity limits, of a second unless given, before any action has left."""

    def __init__(self, ramp_s: float = 1.0) -> None:
        super().__init__(make_rules(make_contract(), ramp_begin=0.2, ramp_ns=ns(ramp_s)))

    def scale(self, at_s: float) -> float:
        return ramp_scale(self.state, self.rules, ns(at_s))

    def lead(self, at_s: float) -> None:
        """Let an action of the policy leave."""
        if self.state.sent.ramp_begins:
            self.state = self.state.send(ramp_begins=False, ramp_ns=ns(at_s))

    def look(self, *, is_stalled: bool = False, is_absent: bool = False) -> None:
        """Let a tick find that a joint does not follow, or has no controller."""
        self.state = replace(self.state, joints=replace(self.state.joints, stalled=FIRST & is_stalled))
        self.unsubscribed = FIRST & is_absent
        self.estimate()


def begun() -> Ramp:
    """Return a ramp whose first action has left at 10 s."""
    ramp = Ramp()
    ramp.estimate(blend_ins=1)
    ramp.lead(10)
    return ramp


def test_the_ramp_rises_from_the_first_action_on():
    ramp = Ramp()
    assert ramp.scale(5) == 1.0
    ramp.estimate(blend_ins=1)
    scales = [ramp.scale(at_s) for at_s in (7, 10)]
    ramp.lead(10)
    scales += [ramp.scale(at_s) for at_s in (10.25, 10.5, 11, 11.5)]
    assert scales == pytest.approx([0.2, 0.2, 0.4, 0.6, 1.0, 1.0])


def test_an_action_that_did_not_leave_begins_no_ramp():
    ramp = begun()
    ramp.estimate(withheld=1)
    assert ramp.scale(20) == pytest.approx(0.2)


def test_while_an_arm_does_not_follow_each_step_is_as_small_as_the_first():
    ramp = begun()
    for at_s in (10.5, 12):
        ramp.look(is_stalled=True)
        assert ramp.scale(at_s) == pytest.approx(0.2)
        ramp.lead(at_s)
    ramp.look()
    assert ramp.scale(12.5) == pytest.approx(0.6)


def test_for_a_controller_that_was_absent_the_ramp_begins_anew():
    ramp = begun()
    for at_s in (12, 13):
        ramp.look(is_absent=True)
        assert ramp.scale(at_s) == 1.0, "others go on"
    ramp.look()
    assert ramp.scale(13) == pytest.approx(0.2)
    ramp.lead(13)
    ramp.look()
    assert ramp.scale(13.5) == pytest.approx(0.6)


@pytest.mark.parametrize("lacks", ["is_stalled", "is_absent"])
def test_what_follows_or_is_back_begins_gently_also_long_after_a_resume(lacks: str):
    ramp = begun()
    assert ramp.scale(20) == 1.0
    ramp.look(**{lacks: True})
    ramp.look()
    assert ramp.scale(30) == pytest.approx(0.2)


def test_what_followed_from_the_first_begins_no_ramp():
    ramp = Ramp()
    ramp.look()
    assert ramp.scale(10) == 1.0


def test_without_a_time_there_is_no_ramp():
    ramp = Ramp(ramp_s=0.0)
    ramp.estimate(blend_ins=1)
    ramp.look(is_stalled=True, is_absent=True)
    ramp.look()
    assert ramp.scale(10) == 1.0


def steps(world: World, begin_ns: int) -> list[float]:
    """Return the largest step of each command since an instant."""
    commands = [tick.command for tick in world.commands_since(begin_ns)]
    return [float(np.abs(step).max()) for step in np.diff(np.stack(commands), axis=0)]


def gentle_world() -> World:
    world = streaming(World(make_config(resume_ramp_s=1.0, resume_velocity_scale=0.2)))
    world.server.rows = lambda request: np.tile(np.float32([0.9, -0.9]) * (-1) ** request.seq_id, (20, 1))
    return world.run(3)


def test_after_resume_the_first_steps_are_small_and_grow():
    world = gentle_world()
    world.pause()
    world.run(0.5)
    begin_ns = world.now_ns
    world.resume()
    found = steps(world.run(3), begin_ns)
    assert max(found[:3]) <= 0.5 * MAX_STEP
    assert max(found[20:]) == pytest.approx(MAX_STEP)


@pytest.mark.parametrize("lacks", ["driven", "heard"])
def test_after_resume_the_first_steps_are_small_also_of_an_arm_that_moves_later(lacks: str):
    world = gentle_world()
    world.pause()
    world.run(3)
    setattr(world, lacks, False)
    world.resume()
    world.run(3.5)
    world.drive()
    world.heard = True
    before, found = world.position, []
    for _ in range(100):
        world.run(0.04)
        found.append(float(np.abs(world.position - before).max()))
        before = world.position
    moved = [step for step in found if step > 1e-9]
    assert max(moved[:3]) <= 0.5 * MAX_STEP
    assert max(moved[20:]) == pytest.approx(MAX_STEP)


def test_one_controller_of_two_that_is_back_begins_gently():
    document = contract_document()
    document["commands"] = [{"topic": name, "type": FLOAT64_MULTI_ARRAY, "names": [name]} for name in JOINTS]
    contract = parse_document(document, Contract, "two_controllers.contract.yaml")
    robot = FedPlayback(contract, ramp_begin=0.2, ramp_ns=ns(1))
    robot.append([[1.0, 1.0]] * 9)

    def step() -> float:
        robot.measure([0.0, 0.0])
        return float(np.abs(robot.tick().command[1]))

    assert step() == pytest.approx(MAX_STEP)
    robot.playback.listen([contract.commands[1]])
    assert step() == pytest.approx(MAX_STEP)
    robot.playback.listen(())
    assert step() == pytest.approx(0.2 * MAX_STEP)


def test_after_a_reconnect_the_first_steps_are_small():
    world = gentle_world()
    world.server.restart()
    world.run_until(lambda: world.state is State.RECONNECTING)
    world.run_until(lambda: world.state is State.STREAMING)
    begin_ns = world.now_ns
    assert max(steps(world.run(0.3), begin_ns)) <= 0.6 * MAX_STEP


def test_a_tick_right_after_the_merge_of_a_reconnect_is_gentle_too():
    """The control thread may run between any two lines of the worker's, which merges the chunk."""
    world = gentle_world()
    world.server.restart()
    world.run_until(lambda: world.state is State.RECONNECTING)
    merge, found = world.engine.queue.merge, []

    def merge_and_tick(*arguments: Any, **options: Any) -> None:
        merge(*arguments, **options)
        found.append(world.engine.playback.tick(world.now_ns).command - world.position)

    world.engine.queue.merge = merge_and_tick
    world.run_until(lambda: bool(found))
    assert 0 < np.abs(found[0]).max() <= 0.2 * MAX_STEP + 1e-6
