# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Worlds in which several things of the robot fail at once, as `make soak` found them."""

from __future__ import annotations

import numpy as np
import pytest

from remote_inference.robot.command import CommandSource
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY, make_config, make_contract, make_spec, ns
from support.robot.fed_playback import FedPlayback
from support.robot.simulated_server import SimulatedServer
from support.robot.simulation import streaming
from support.robot.watched_world import WatchedWorld


def make_world(fps: float, watchdog_timeout_s: float) -> WatchedWorld:
    return WatchedWorld(
        make_config(watchdog_timeout_s=watchdog_timeout_s),
        [SimulatedServer("/server_a", make_spec(chunk_size=60, trained_fps=fps))],
        contract=make_contract(fps=fps, command=JOINT_TRAJECTORY),
    )


def freeze_while_beats_are_lost(world: WatchedWorld, before_s: float, frozen_s: float) -> None:
    """Freeze the node some time after the last beat that the watchdog heard; it stops the arm meanwhile."""
    assert world.watchdog is not None
    trips = world.watchdog.trips
    world.beats_are_lost = True
    world.run(before_s)
    world.stand_still(frozen_s, "stuck", "hung", "deaf")
    world.run(1.0)
    assert world.watchdog.trips != trips, "else it proves nothing"
    assert world.engine.paused
    assert CommandSource.HOLD in {tick.source for _, tick in world.ticks}


@pytest.mark.parametrize("stuck_s", [0.06, 0.08, 0.11, 0.15, 0.2])
def test_a_freeze_while_the_watchdog_stops_the_arm_ends_in_no_jump(stuck_s: float):
    """It has lost beats before, so that the node is frozen for less than its patience."""
    world = make_world(fps=20.0, watchdog_timeout_s=0.2)
    streaming(world).run(0.4)
    freeze_while_beats_are_lost(world, 0.12, stuck_s)


@pytest.mark.parametrize("frozen_s", [0.11, 0.15, 0.2])
def test_a_freeze_that_makes_no_tick_late_ends_in_no_jump_either(frozen_s: float):
    """At a low rate it may lie between two ticks, and the watchdog's word waits for the thaw."""
    world = make_world(fps=5.0, watchdog_timeout_s=0.1)
    streaming(world).run(0.4)
    ticks = len(world.ticks)
    world.run_until(lambda: len(world.ticks) > ticks)
    freeze_while_beats_are_lost(world, 0.41 - frozen_s, frozen_s)


@pytest.mark.parametrize("frozen_s", [0.06, 0.22, 0.4, 5.0])
@pytest.mark.parametrize(
    ("kind", "command", "fps"),
    [
        ("position", JOINT_TRAJECTORY, 20.0),
        ("position", JOINT_TRAJECTORY, 50.0),
        ("position", FLOAT64_MULTI_ARRAY, 20.0),
        ("velocity", FLOAT64_MULTI_ARRAY, 20.0),
    ],
)
def test_a_freeze_within_a_tick_sends_nothing_that_was_decided_before_it(
    kind: str, command: str, fps: float, frozen_s: float
):
    """The world's judge looks at each command, by where the arm is when it is sent."""
    world = WatchedWorld(
        make_config(fallback="zero" if kind == "velocity" else "hold"),
        [SimulatedServer("/server_a", make_spec(chunk_size=60, trained_fps=fps))],
        contract=make_contract(kind=kind, fps=fps, command=command),
    )
    streaming(world).run(0.5)
    world.freezes_in_tick_s = frozen_s
    world.run(frozen_s + 0.3)
    assert not world.freezes_in_tick_s
    assert world.watchdog is not None
    assert world.engine.paused == bool(world.watchdog.trips)
    if world.engine.paused:
        assert world.resume() == ""
    world.run_until(lambda: world.ticks[-1][1].source is CommandSource.CHUNK)
    world.run(0.5)


def test_a_tick_that_waits_and_stands_still_notices_that_the_watchdog_has_acted_meanwhile():
    """It came late, and commanded nothing: nothing of it was outdated, and its beat began a new silence."""
    world = make_world(fps=10.0, watchdog_timeout_s=0.2)
    streaming(world).run(0.4)
    ticks = len(world.ticks)
    world.run_until(lambda: len(world.ticks) > ticks)
    world.run(0.095)
    world.freezes_in_tick_s = 0.3
    world.stand_still(0.2, "stuck")
    world.run_until(lambda: not world.freezes_in_tick_s)
    world.freezes_in_tick_s = 0.1
    world.run(0.35)
    assert world.watchdog is not None
    assert world.watchdog.trips == 1
    assert world.engine.paused
    world.run(1.0)


@pytest.mark.parametrize("command", [JOINT_TRAJECTORY, FLOAT64_MULTI_ARRAY])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_first_command_that_did_not_leave_has_not_to_be_ended(command: str, leaves: bool):
    robot = FedPlayback(make_contract(command=command))
    robot.measure([0.0, 0.0])
    robot.append([[0.05 * row, 0.0] for row in range(1, 20)])
    assert robot.tick().source is CommandSource.CHUNK
    if not leaves:
        robot.playback.control.change(lose=True, withhold=True)
    robot.playback.control.halt()
    ends = robot.tick()
    assert ends.source is (
        CommandSource.HOLD if leaves and command == JOINT_TRAJECTORY else CommandSource.NONE
    )
    assert robot.playback.finished == (ends.source is CommandSource.NONE)


@pytest.mark.parametrize("threads", [("stuck",), ("stuck", "hung", "deaf")])
def test_an_unwatched_arm_stays_whose_drives_come_back_after_its_rows_ended_in_a_stall(
    threads: tuple[str, ...],
):
    """Its controller stands at the last row, far from where the arm has stopped on the way.

    A process that stood still as a whole has measured nothing meanwhile, and does so only after some ticks.
    """
    world = WatchedWorld(
        make_config(max_action_age_s=1.0),
        [SimulatedServer("/server_a", make_spec(chunk_size=60, trained_fps=20.0))],
        contract=make_contract(fps=20.0, command=JOINT_TRAJECTORY),
        watched=False,
    )
    streaming(world).run(0.5)
    world.sensor_ns = ns(0.1)
    world.stand_still(2.0, *threads)
    world.run(0.1)
    world.drive_off()
    world.server.up = False
    world.run(4.0)  # its controller needs some of it for the way back
    held = [tick for _, tick in world.ticks if tick.source is CommandSource.HOLD]
    assert held, "it is held where it is measured"
    stopped = world.position
    world.drive_on(held=False)
    assert world.position == pytest.approx(stopped)


@pytest.mark.parametrize(("stuck_s", "is_led"), [(0.2, True), (0.6, False)])
def test_drives_that_come_back_in_a_stall_follow_rows_until_the_watchdog_ends_them(
    stuck_s: float, is_led: bool
):
    """Nobody looks at the arm meanwhile: its trajectory controller goes on, and so may the drives."""
    world = make_world(fps=20.0, watchdog_timeout_s=0.2)
    streaming(world).run(0.5)
    world.drive_off()
    world.run(0.2)
    stopped, commanded = world.position, world.commanded
    world.stand_still(1.0, "stuck")
    world.run(stuck_s)
    world.drive_on(held=False)
    assert world.watchdog is not None
    assert bool(world.watchdog.trips) is not is_led
    if is_led:
        assert (np.abs(world.position - commanded) <= world.beats.deadline_s * world.max_velocity).all()
        assert (np.abs(world.position - commanded) > 0.1).any(), "the rows went on"
    else:
        assert world.position == pytest.approx(stopped)
