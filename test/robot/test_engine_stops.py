# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Stop inputs in the engine: the commands end at once, and only a person lets the robot move again."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.robot.command import CommandSource
from remote_inference.robot.safety.effects import StopLatched
from remote_inference.robot.safety.state_machine import Event, State
from support.builders import JOINT_TRAJECTORY, PERIOD_NS, contract_document, make_config, ns
from support.robot.interruption import interrupt
from support.robot.simulation import World, streaming

BUTTON = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
BEAT = {"topic": "beat", "type": "std_msgs/msg/Header", "stop_when": "silent", "silent_s": 0.5}


def stoppable(kind: str = "position", command: str = "", **changes: Any) -> World:
    """Return a world whose robot has a button and a heartbeat, both unheard."""
    document = contract_document(kind) | {"stops": {"button": BUTTON, "beat": BEAT}}
    if command:
        document["commands"][0]["type"] = command
    fallback = "zero" if kind == "velocity" else "hold"
    contract = parse_document(document, Contract, "f")
    world = World(make_config(fallback=fallback, **changes), contract=contract)
    world.beats = True
    world.follows = kind == "position"
    world._every(ns(0.1), lambda: world.beats and hear(world, "beat", stops=False))
    return world


def hear(world: World, name: str, *, stops: bool) -> None:
    world.engine.stops.receive(name, stops=stops, now_ns=world.now_ns)


def driving(**options: Any) -> World:
    world = stoppable(**options)
    world.run(0.1)
    hear(world, "button", stops=False)
    return streaming(world).run(0.5)


def calm() -> World:
    """Return a robot that has heard its inputs and begins to drive; cheaper than `driving`."""
    world = stoppable()
    world.run(0.1)
    hear(world, "button", stops=False)
    return world.run(0.3)


def next_tick(world: World) -> Any:
    """Run the control thread alone, as if the worker were busy."""
    world.now_ns += PERIOD_NS
    return world.engine.playback.tick(world.now_ns)


def test_the_next_tick_stops_without_the_worker():
    world = driving()
    assert next_tick(world).command is not None
    hear(world, "button", stops=True)
    assert next_tick(world).source is CommandSource.NONE
    assert not world.engine.paused  # the worker has not seen it


def test_a_velocity_robot_is_sent_zeros_at_once():
    world = driving(kind="velocity")
    hear(world, "button", stops=True)
    ticks = [next_tick(world) for _ in range(12)]
    assert {tick.source for tick in ticks[:10]} == {CommandSource.ZERO}
    assert all((tick.command == 0.0).all() for tick in ticks[:10])
    assert {tick.source for tick in ticks[10:]} == {CommandSource.NONE}


def test_the_horizon_of_a_trajectory_controller_ends_at_once():
    world = driving(command=JOINT_TRAJECTORY)
    next_tick(world)
    assert len(next_tick(world).horizon) > 1
    hear(world, "button", stops=True)
    tick = next_tick(world)
    assert tick.source is CommandSource.HOLD
    assert len(tick.horizon) == 1


def test_a_stop_pauses_drops_the_queue_and_is_told_once():
    world = driving()
    hear(world, "button", stops=True)
    stopped_ns = world.now_ns
    sent = len(world.sent)
    world.run(2)
    assert world.engine.paused
    assert len(world.engine.queue) == 0
    assert len(world.sent) == sent
    assert world.commands_since(stopped_ns) == []
    assert world.all(StopLatched) == [StopLatched("button: estop says true")]
    assert world.state is State.STREAMING


def test_a_silent_heartbeat_stops_within_its_time_and_a_period():
    world = driving()
    world.beats = False
    silent_ns = world.now_ns
    world.run(2)
    last_ns = max(at_ns for at_ns, tick in world.ticks if tick.command is not None)
    assert last_ns - silent_ns <= ns(0.5) + PERIOD_NS
    assert "beat: beat is silent" in world.engine.stops.latched


def test_a_thread_that_hears_no_more_is_a_stop_by_silence():
    """Messages reach the node on its executor's thread. The control thread looks at the clock by itself."""
    world = driving()
    for _ in range(int(ns(0.5) / PERIOD_NS) - 2):
        assert next_tick(world).command is not None
    ticks = [next_tick(world) for _ in range(4)]
    assert ticks[-1].source is CommandSource.NONE
    assert "beat is silent" in world.engine.stops.latched


def test_a_flapping_input_stays_latched_and_resume_is_refused():
    world = driving()
    for _ in range(20):
        hear(world, "button", stops=True)
        world.run(0.003)
        hear(world, "button", stops=False)
        world.run(0.003)
    flapped_ns = world.now_ns
    assert "stopped by button: estop says true" in world.resume()
    world.run(1)
    assert world.commands_since(flapped_ns) == []
    assert len(world.all(StopLatched)) == 1


def test_the_way_back_is_a_good_input_then_clear_then_resume():
    world = driving()
    hear(world, "button", stops=True)
    world.run(0.5)
    assert world.clear_stop() == "stop input button: estop says true"
    hear(world, "button", stops=False)
    world.position = np.array([0.9, -0.9])  # moved by hand; the world checks the steps against this
    world.run(0.5)
    assert world.clear_stop() == ""
    cleared_ns = world.now_ns
    world.run(1)
    assert world.commands_since(cleared_ns) == []  # cleared is not resumed
    world.resume()
    world.run(2)
    assert world.commands_since(cleared_ns)[0].source is CommandSource.CHUNK
    assert world.states() == [State.STREAMING]


def test_a_stop_that_is_cleared_before_the_worker_saw_it_still_pauses():
    world = driving()
    hear(world, "button", stops=True)
    hear(world, "button", stops=False)
    assert world.clear_stop() == ""
    cleared_ns = world.now_ns
    world.run(1)
    assert world.engine.paused
    assert world.commands_since(cleared_ns) == []
    assert len(world.all(StopLatched)) == 1


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("name", ["button", "beat"])
def test_a_short_stop_is_not_cleared_by_what_was_called_before_it(is_stopped: bool, name: str):
    """Another one may be latched then: the second leaves no trace in the latch."""
    world = driving()
    if is_stopped:
        hear(world, "button", stops=True)
        world.run(0.1)
        hear(world, "button", stops=False)
    stops, pauses = world.engine.stops.heard, world.engine.pauses
    if name == "beat":
        world.beats = False  # for a moment longer than it may be silent
        world.run(0.55)
        world.beats = True
        world.run(0.1)
    else:
        hear(world, name, stops=True)
        hear(world, name, stops=False)
    stopped_ns = world.now_ns
    assert world.clear_stop(stops) == "the robot was stopped meanwhile"
    assert "stopped by" in world.resume(pauses)
    world.run(0.5)
    assert world.engine.paused
    assert world.commands_since(stopped_ns) == []
    assert world.clear_stop(world.engine.stops.heard) == ""


@pytest.mark.parametrize("autostart", [True, False])
def test_a_stop_that_was_never_heard_keeps_the_robot_where_it_is(autostart: bool):
    world = stoppable(autostart=autostart)
    world.run(3)
    assert "nothing was ever heard of stop input button (estop, std_msgs/msg/Bool)" in world.resume()
    world.run(1)
    assert world.commands_since(0) == []
    start = "the node starts when its stop inputs are good"
    assert world.engine.pause_cause == (start if autostart else "the node starts so (autostart: false)")
    hear(world, "button", stops=False)
    if not autostart:
        world.run(1)
        assert world.engine.paused
        world.resume()
    streaming(world)


def test_where_nothing_has_stopped_there_is_nothing_to_clear_and_that_is_well():
    world = driving()
    assert world.clear_stop() == ""
    world.run(0.5)
    assert not world.engine.paused
    hear(world, "button", stops=True)
    world.run(0.1)
    hear(world, "button", stops=False)
    assert (world.clear_stop(), world.clear_stop()) == ("", "")


def test_autostart_is_over_once_a_stop_came_or_an_operator_paused():
    for interfere, cause in (
        (lambda w: hear(w, "button", stops=True), "stopped by button"),
        (lambda w: w.pause(), "pause was called"),
    ):
        world = stoppable()
        world.run(1)
        interfere(world)
        hear(world, "button", stops=False)
        world.run(2)
        assert world.engine.paused
        assert cause in world.engine.pause_cause


def test_autostart_is_over_as_soon_as_a_pause_is_called():
    """Before the worker comes to the pause, it may find the inputs good."""
    world = stoppable()
    world.run(1)
    world.engine.pause_at_once()
    hear(world, "button", stops=False)
    world.run(1)
    assert world.engine.paused
    assert world.commands_since(0) == []


def test_a_robot_that_gave_up_while_it_waited_for_its_inputs_starts_no_more():
    world = stoppable()
    world.run(1)
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    hear(world, "button", stops=False)
    world.run(1)
    assert world.engine.paused


def test_a_stop_ends_the_way_home():
    document = contract_document() | {
        "stops": {"button": BUTTON},
        "home": {"positions": [0.9, 0.9], "duration_s": 5.0},
    }
    world = World(contract=parse_document(document, Contract, "f"))
    hear(world, "button", stops=False)
    streaming(world)
    world.carry_out(world.engine._die(Event.CONTRACT_VIOLATED, "another policy"))
    world.run(1)
    assert world.ticks[-1][1].source is CommandSource.HOMING
    hear(world, "button", stops=True)
    stopped_ns = world.now_ns
    world.run(1)
    assert world.commands_since(stopped_ns) == []
    assert world.engine.playback.finished


@pytest.mark.parametrize("act", ["clear", "resume"])
def test_a_stop_between_any_two_lines_of_the_operator_s_command_is_not_lost(act: str):
    for line in range(120):
        world = calm()
        hear(world, "button", stops=True)
        world.run(0.05)
        hear(world, "button", stops=False)
        if act == "resume":
            world.clear_stop()
        work = world.clear_stop if act == "clear" else world.resume
        press = threading.Thread(target=hear, args=(world, "button"), kwargs={"stops": True})
        if not interrupt(work, line, lambda t=press: (t.start(), t.join(0.02))):
            break
        press.join()  # it waited where the line before held the lock
        assert next_tick(world).command is None, line
        world.resume()
        world.run(0.05)
        assert world.engine.paused, line
    assert line > 20


@pytest.mark.parametrize("stopped", [False, True])
def test_a_short_press_between_any_two_lines_of_clear_stop_leaves_the_robot_paused(stopped: bool):
    """Pressed and released again, it leaves no trace but the latch."""
    for line in range(200):
        world = calm()
        if stopped:
            hear(world, "beat", stops=True)  # another stop, over by now
            world.run(0.05)
            hear(world, "beat", stops=False)

        def push(robot: World = world) -> None:
            hear(robot, "button", stops=True)
            hear(robot, "button", stops=False)

        press = threading.Thread(target=push)
        if not interrupt(world.clear_stop, line, lambda t=press: (t.start(), t.join(0.02))):
            break
        press.join()  # it waited where the line before held the lock
        assert next_tick(world).command is None, line
        world.run(0.05)
        assert world.engine.paused, line
    assert line > 20


def test_a_stop_of_the_guard_is_not_cleared_by_what_was_called_before_it():
    """The orders wait for a busy worker while the policy leaves its domain."""
    world = driving()
    stops, pauses = world.engine.stops.heard, world.engine.pauses
    world.engine.stops.latch("guard: it changed 90 of the last 100 commands")
    world.run(0.1)
    stopped_ns = world.now_ns
    assert world.clear_stop(stops) == "the robot was stopped meanwhile"
    assert "stopped by guard" in world.resume(pauses)
    world.run(0.5)
    assert world.commands_since(stopped_ns) == []
    assert world.clear_stop(world.engine.stops.heard) == ""


@pytest.mark.parametrize("autostart", [False, True])
def test_a_robot_whose_controller_takes_other_joints_pauses_and_resumes_only_when_it_is_mended(
    autostart: bool,
):
    problem = "controller /arm takes elbow, shoulder; expected shoulder, elbow"
    world = World(make_config(autostart=autostart)).run(0.5)
    world.engine.take_controllers(problem)
    assert world.engine.paused
    assert (world.engine.control.operator.pause_cause == problem) == autostart
    assert world.engine.resume(world.now_ns)[0] == problem
    world.engine.take_controllers("")
    assert world.engine.paused
    assert world.engine.resume(world.now_ns)[0] == ""
    assert not world.engine.paused
