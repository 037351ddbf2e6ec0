# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal reaches the robot's node and its watchdog at the same time, as a terminal sends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from rig import write_manifest
from terminal import Terminal
from waiting import wait_until
from watched_arm import (
    LATE,
    PERIOD_S,
    TIMEOUT_S,
    WatchedArm,
    begin,
    each_controller,
    go_on_after_resume,
    wait_for_stop,
)

from remote_inference.deployment import bringup

Note = Callable[[str, str], None]


@pytest.fixture
def terminal(watched: WatchedArm) -> Iterator[Terminal]:
    """A terminal in which watchdog and robot run; the robot moves."""
    contract = watched.write_contract()
    watched.start_server(write_manifest(watched.folder, policy={"chunk_size": 60}))
    parameters = {"autostart": True, **watched.parameters()}
    with Terminal(watched.folder / "terminal.log") as made:
        made.run(
            [
                bringup.command_watchdog(contract, namespace=watched.namespace),
                bringup.robot(contract, namespace=watched.namespace, parameters=parameters),
            ]
        )
        watched.wait_for_watchdog("ARMED")
        watched.wait_for_motion()
        yield made


def wait_for_end(arm: WatchedArm, terminal: Terminal, begin_ns: int) -> str:
    """Wait until both processes have ended, and judge what the controller got; return what happened."""
    wait_until(lambda: not terminal.alive, "node and watchdog end")
    stop = arm.first_stop_since(begin_ns)
    assert stop is not None, f"the controller's last command: {arm.received[-1]}"
    if arm.controller == "velocity":
        assert stop.values == (0.0, 0.0)
    assert all(command.time_ns < stop.time_ns for command in arm.moves_since(begin_ns))
    stopped_s = (stop.time_ns - begin_ns) / 1e9
    assert stopped_s < LATE * (TIMEOUT_S + PERIOD_S)
    words = "the end of its trajectory" if arm.controller == "trajectory" else "zero velocity"
    return f"the controller got {words} after {stopped_s:.2f} s, node and watchdog ended"


@each_controller("the terminal of node and watchdog is closed")
def test_a_closed_terminal_stops_the_arm(watched: WatchedArm, terminal: Terminal, note: Note) -> None:
    """Nothing can be printed any more, and nobody reads it: the stop must not depend on it."""
    begin_ns = begin(watched, terminal.close)
    note(wait_for_end(watched, terminal, begin_ns), "-")


@each_controller("Ctrl-\\ in the terminal of node and watchdog")
def test_a_quit_stops_the_arm(watched: WatchedArm, terminal: Terminal, note: Note) -> None:
    begin_ns = begin(watched, lambda: terminal.press("Ctrl-\\"))
    note(wait_for_end(watched, terminal, begin_ns), "-")


@each_controller("Ctrl-Z in the terminal of node and watchdog")
def test_a_suspended_node_is_stopped_by_its_watchdog(
    watched: WatchedArm, terminal: Terminal, note: Note
) -> None:
    begin_ns = begin(watched, lambda: terminal.press("Ctrl-Z"))
    stopped = wait_for_stop(watched, begin_ns)
    os.killpg(terminal.group, signal.SIGCONT)  # `fg`
    go_on_after_resume(watched)
    note(f"{stopped}; paused after `fg`", "-, `resume`")
