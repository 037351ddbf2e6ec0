# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal reaches the robot's node and its watchdog at the same time, as a terminal sends it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import yaml

from remote_inference.tools.deployment import bringup
from support.faults.terminal import Terminal
from support.faults.watched_arm import (
    WatchedArm,
    begin,
    each_controller,
    go_on_after_resume,
    wait_for_stop,
)
from support.waiting import wait_until

Note = Callable[[str, str], None]


@pytest.fixture
def terminal(watched: WatchedArm) -> Iterator[Terminal]:
    """A terminal in which watchdog and robot run; the robot moves."""
    parameters = {"autostart": True, **watched.parameters()}
    contract = watched.write_contract()
    processes = [
        bringup.command_watchdog(contract, namespace=watched.namespace),
        bringup.robot(contract, namespace=watched.namespace, parameters=parameters),
    ]
    with Terminal(watched.folder / "terminal.log") as made:
        run(watched, made, processes)
        yield made


def run(arm: WatchedArm, terminal: Terminal, processes: Sequence[bringup.Process]) -> None:
    """Run processes in the terminal until they move the arm."""
    arm.start_server(arm.write_manifest())
    terminal.run(processes)
    arm.wait_for_watchdog("ARMED")
    arm.wait_for_motion()


def wait_for_end(arm: WatchedArm, terminal: Terminal, begin_ns: int) -> str:
    """Wait until both processes have ended, and judge what the controller got; return what happened."""
    wait_until(lambda: not terminal.alive, "node and watchdog end")
    stop = arm.first_stop_since(begin_ns)
    assert stop is not None, f"the controller's last command: {arm.received[-1]}"
    if arm.controller == "velocity":
        assert stop.values == (0.0, 0.0)
    assert all(command.time_ns < stop.time_ns for command in arm.moves_since(begin_ns))
    stopped_s = (stop.time_ns - begin_ns) / 1e9
    assert stopped_s < arm.latest_stop_s(begin_ns)
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


@pytest.mark.fault("Ctrl-Z in the terminal of `remote-inference robot`")
@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_deployment_suspends_its_node_and_not_its_watchdog(watched: WatchedArm, note: Note) -> None:
    """Its processes are in no terminal's session: the key reaches only the deployment itself."""
    parameters = watched.folder / "parameters.yaml"
    node = {"ros__parameters": {"autostart": True, **watched.parameters()}}
    parameters.write_text(yaml.safe_dump({"/**/remote_inference": node}))
    words = ["robot", "--namespace", watched.namespace, "--contract", str(watched.write_contract())]
    words = [sys.executable, "-m", "remote_inference.tools.cli", *words, "--params-file", str(parameters)]
    with Terminal(watched.folder / "terminal.log") as terminal:
        run(watched, terminal, [bringup.Process("robot", "robot", words=words)])
        begin_ns = begin(watched, lambda: terminal.press("Ctrl-Z"))
        stopped = wait_for_stop(watched, begin_ns)
        os.killpg(terminal.group, signal.SIGCONT)  # `fg`
        go_on_after_resume(watched)
    note(f"{stopped}; paused after `fg`", "-, `resume`")
