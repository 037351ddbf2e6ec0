# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What stays in force at each kind of controller when nobody commands it any more."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from remote_inference.base.wire.sensors.content_time import stamp_ns
from remote_inference.msg import ExecutedAction
from support.faults.judge import TRANSPORT_S
from support.faults.moving_arm import MovingArm
from support.faults.panel import BUTTON, Panel
from support.faults.watched_arm import WatchedArm, article

MAX_ACTION_AGE_S = 1.0
PATIENT_S = 10.0  # of the watchdog: what stops the arm here is the fallback, however busy the machine
Note = Callable[[str, str], None]


def each_fallback(fault: str, *fallbacks: tuple[str, str], arm: str = "watched") -> pytest.MarkDecorator:
    """Return a mark that repeats a test of a fault with pairs of a controller and a fallback.

    arm: the fixture of the arm.
    """
    cases = [
        pytest.param(
            kind,
            fallback,
            marks=pytest.mark.fault(f"{fault}, with {article(kind)} {kind} controller and `{fallback}`"),
        )
        for kind, fallback in fallbacks
    ]
    return pytest.mark.parametrize((arm, "fallback"), cases, indirect=[arm])


@each_fallback(
    "server killed (SIGKILL)",
    ("velocity", "zero"),
    ("effort", "zero"),
    ("trajectory", "hold"),
    ("trajectory", "repeat_last"),
)
def test_without_actions_the_controller_is_left_with_a_stop(
    watched: WatchedArm, fallback: str, note: Note
) -> None:
    watched.fallback = fallback
    watched.start(max_action_age_s=MAX_ACTION_AGE_S, watchdog_timeout_s=PATIENT_S)
    begin_ns = time.time_ns()
    watched.server.kill()
    watched.wait_for(lambda: is_stopped(watched, begin_ns), "the controller is stopped")
    watched.wait_for_executed(30)  # nothing moves it again
    assert not watched.received[-1].moves
    last = watched.moves_since(begin_ns)[-1]
    moved_s = (last.time_ns - begin_ns) / 1e9
    assert moved_s <= MAX_ACTION_AGE_S + TRANSPORT_S
    assert watched.watchdog_states[-1].trips == 0
    note(f"moved for {moved_s:.1f} s more, then {describe(watched)}", "-")


@each_fallback("server killed (SIGKILL)", ("position", "hold"), ("position", "repeat_last"), arm="moving")
def test_without_actions_a_position_controller_is_left_with_the_last_one(
    moving: MovingArm, fallback: str, note: Note
) -> None:
    moving.fallback = fallback
    moving.start(max_action_age_s=MAX_ACTION_AGE_S, watchdog_timeout_s=PATIENT_S)
    begin_ns = time.time_ns()
    moving.server.kill()
    moving.wait_for(lambda: moving.executed[-1].source != ExecutedAction.CHUNK, "the last action")
    moving.wait_for_executed(30)  # nothing leads it on
    actions = [tick for tick in moving.executed if tick.source == ExecutedAction.CHUNK]
    last = tuple(reversed(actions[-1].action))
    moved_s = (stamp_ns(actions[-1]) - begin_ns) / 1e9
    assert moved_s <= MAX_ACTION_AGE_S + TRANSPORT_S
    repeated = [command for command in moving.received if command.time_ns > stamp_ns(actions[-1])]
    assert {command.values for command in repeated} == {last}
    assert moving.watchdog_states[-1].trips == 0
    note(f"moved for {moved_s:.1f} s more, then the last position", "-")


@each_fallback("a stop input says stop", ("velocity", "zero"), ("effort", "zero"), ("trajectory", "hold"))
def test_a_stop_leaves_the_controller_with_a_stop(watched: WatchedArm, fallback: str, note: Note) -> None:
    watched.sections, watched.fallback = {"stops": BUTTON}, fallback
    panel = Panel(watched)
    panel.press(False)
    watched.start()
    begin_ns = time.time_ns()
    panel.press(True)
    watched.wait_for(lambda: watched.states[-1].stop.startswith("button: "), "stopped by the button")
    watched.wait_for(lambda: is_stopped(watched, begin_ns), "the controller is stopped")
    watched.wait_for_executed(30)
    stop = watched.first_stop_since(begin_ns)
    assert stop is not None
    stopped_s = (stop.time_ns - begin_ns) / 1e9
    assert stopped_s <= TRANSPORT_S
    assert all(command.time_ns < stop.time_ns for command in watched.moves_since(begin_ns))
    note(f"{describe(watched)} after {stopped_s:.2f} s", "-, `clear_stop` and `resume`")


def is_stopped(arm: WatchedArm, begin_ns: int) -> bool:
    """Return whether the last command, of after a time, is a stop."""
    last = arm.received[-1]
    return last.time_ns > begin_ns and not last.moves


def describe(arm: WatchedArm) -> str:
    """Return what the controller was left with."""
    return "the end of the trajectory" if arm.controller == "trajectory" else f"zero {arm.controller}"
