# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's own node dies, freezes or hangs: the command watchdog, another process, stops the arm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from remote_inference.base.wire.qos import LATCHED_QOS, WATCHDOG_TOPIC
from remote_inference.msg import WatchdogState
from remote_inference.tools.deployment import bringup
from remote_inference.tools.deployment.process_group import ProcessError
from support.faults.watched_arm import (
    WatchedArm,
    begin,
    each_controller,
    go_on_after_resume,
    wait_for_reports,
    wait_for_stop,
)
from support.nodes.rig import DEADLINE_S, write_contract
from support.waiting import wait_until

Note = Callable[[str, str], None]


@each_controller("the robot's node is killed")
def test_a_killed_node_is_stopped_and_its_successor_waits_for_the_operator(
    watched: WatchedArm, note: Note
) -> None:
    watched.start()
    begin_ns = begin(watched, watched.robot.kill)
    stopped = wait_for_stop(watched, begin_ns)
    watched.start_watched_robot()  # with autostart
    go_on_after_resume(watched)
    note(f"{stopped}; a new node stays paused", "-, `resume`")


@each_controller("the robot's node is frozen")
def test_a_frozen_node_is_stopped_and_comes_back_paused(watched: WatchedArm, note: Note) -> None:
    watched.start()
    begin_ns = begin(watched, lambda: watched.robot.send_signal(signal.SIGSTOP))
    stopped = wait_for_stop(watched, begin_ns)
    thawed_ns = time.time_ns()
    watched.robot.send_signal(signal.SIGCONT)
    watched.wait_for_watchdog("RETURNED")
    assert len(watched.moves_since(thawed_ns)) <= 1  # that of the tick in which it was frozen
    go_on_after_resume(watched)
    note(f"{stopped}; paused when it came back", "-, `resume`")


@each_controller("the control thread hangs")
def test_a_hung_control_thread_in_a_live_node_is_stopped_and_comes_back_paused(
    watched: WatchedArm, note: Note
) -> None:
    watched.start()
    begin_ns = begin(watched, watched.stick_control)
    stopped = wait_for_stop(watched, begin_ns)
    states = len(watched.states)
    watched.wait_for(lambda: len(watched.states) > states + 2, "states of the live process")
    assert watched.watchdog_states[-1].state_name == "TRIPPED"
    freed_ns = time.time_ns()
    watched.free_control()
    watched.wait_for_watchdog("RETURNED")
    assert not watched.moves_since(freed_ns)
    go_on_after_resume(watched)
    note(f"{stopped}; paused when it came back", "-, `resume`")


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_node_that_pauses_or_ends_in_order_is_left_alone(watched: WatchedArm) -> None:
    watched.start()
    assert watched.trigger("pause").success
    watched.wait_for_watchdog("DISARMED")
    assert watched.trigger("resume").success
    watched.wait_for_motion()
    watched.wait_for_watchdog("ARMED")
    watched.robot.terminate()
    assert watched.robot.wait(DEADLINE_S) == 0
    watched.wait_for_watchdog("DISARMED")
    wait_until(lambda: not watched.received[-1].moves, "the node has sent zeros")
    wait_for_reports(watched, 1)  # by then its last commands have arrived
    ended = len(watched.received)
    wait_for_reports(watched, 3)
    assert watched.watchdog_states[-1].trips == 0
    assert len(watched.received) == ended


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_node_at_a_low_rate_has_time_to_stop_its_controllers(watched: WatchedArm) -> None:
    watched.fps = 5.0
    watched.start()
    watched.robot.terminate()
    assert watched.robot.wait(DEADLINE_S) == 0
    watched.wait_for_watchdog("DISARMED")
    assert watched.watchdog_states[-1].trips == 0
    wait_until(lambda: not watched.received[-1].moves, "the node has sent zeros")


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_node_that_ends_without_stopping_its_controllers_is_not_waited_for(watched: WatchedArm) -> None:
    """Its control thread hangs, so nobody sends the stops; the last heartbeat says so."""
    patience_s = 10.0
    watched.start(watchdog_timeout_s=patience_s)
    begin_ns = begin(watched, watched.stick_control)
    watched.robot.terminate()
    trip = watched.wait_for_watchdog("TRIPPED")
    assert trip.cause == "the robot node ended without stopping its controllers"
    stop = watched.first_stop_since(begin_ns)
    assert stop is not None
    assert (stop.time_ns - begin_ns) / 1e9 < patience_s


@pytest.mark.parametrize("thread", ["control", "requests"])
@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_an_internal_error_stops_the_controllers_and_ends_the_node_with_1(
    watched: WatchedArm, thread: str
) -> None:
    """The node stops them itself: its watchdog would wait for longer than the node lives."""
    watched.start(watchdog_timeout_s=10.0)
    watched.break_thread(thread)
    assert watched.robot.wait(DEADLINE_S) == 1
    watched.wait_for_watchdog("DISARMED")
    wait_until(lambda: not watched.received[-1].moves, "the node has sent zeros")
    assert watched.watchdog_states[-1].trips == 0
    log = (watched.folder / "logs" / "remote_inference.log").read_text()
    assert "stopped by an internal error: RuntimeError: broken by a test" in log


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_watchdog_that_is_told_to_end_watches_until_the_node_commands_no_more(watched: WatchedArm) -> None:
    """A launch file signals both at the same time, and the node may die before it has stopped the arm."""
    watched.start()
    watched.watchdog.terminate()
    begin_ns = begin(watched, watched.robot.kill)
    watched.wait_for(lambda: watched.first_stop_since(begin_ns), "the stop")
    assert watched.watchdog.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_a_robot_is_not_ended_by_a_state_that_no_watchdog_has(watched: WatchedArm) -> None:
    watched.start()
    spoiled = watched.run_on_executor(
        lambda: watched.node.create_publisher(WatchdogState, WATCHDOG_TOPIC, LATCHED_QOS)
    )
    log = watched.folder / "logs" / "remote_inference.log"
    watched.publish_until(
        spoiled, WatchdogState(state=9), lambda: "found state 9" in log.read_text(), "the refusal"
    )
    watched.wait_for_motion()
    spoiled.publish(WatchdogState(state=WatchdogState.TRIPPED, trips=7))
    watched.wait_for(lambda: watched.states[-1].paused, "paused by whoever publishes there")


@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_the_watchdog_says_which_scheduling_it_really_has(watched: WatchedArm) -> None:
    contract = watched.write_contract()
    watchdog = watched.group.start(bringup.command_watchdog(contract, namespace=watched.namespace))
    priority = watched.wait_for_watchdog("DISARMED").realtime_priority
    assert priority == os.sched_getparam(watchdog.pid).sched_priority
    assert (os.sched_getscheduler(watchdog.pid) == os.SCHED_FIFO) is (priority > 0)


@pytest.mark.skipif(
    find_spec("controller_manager_msgs") is not None,
    reason="the refusal shows only where controller_manager_msgs is absent",
)
def test_a_switch_without_the_messages_for_it_is_refused_at_the_start(tmp_path: Path) -> None:
    contract = write_contract(tmp_path, watchdog_switch={"activate": ["hold_controller"]})
    process = bringup.command_watchdog(contract, namespace="/rig")
    ended = subprocess.run(process.command(), capture_output=True, text=True, timeout=DEADLINE_S)
    assert ended.returncode == 2
    assert "cannot start: contract: watchdog_switch needs the package controller_manager_msgs" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.fault("the command watchdog is killed")
@pytest.mark.parametrize("watched", ["velocity"], indirect=True)
def test_without_its_watchdog_the_robot_is_stopped_and_everything_ends(
    watched: WatchedArm, note: Note, tmp_path: Path
) -> None:
    parameters = tmp_path / "parameters.yaml"
    node = {"ros__parameters": {"autostart": True, **watched.parameters()}}
    parameters.write_text(yaml.safe_dump({"/**/remote_inference": node}))
    watched.start_server(watched.write_manifest())
    command = ["robot", "--namespace", watched.namespace, "--contract", watched.write_contract()]
    deployment = subprocess.Popen(
        [sys.executable, "-m", "remote_inference.tools.cli", *command, "--params-file", parameters],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        watched.wait_for_watchdog("ARMED")
        watched.wait_for_motion()
        begin_ns = time.time_ns()
        os.kill(child_of(deployment.pid, "command_watchdog"), signal.SIGKILL)
        _, said = deployment.communicate(timeout=DEADLINE_S)
    finally:
        deployment.terminate()
        deployment.wait(DEADLINE_S)
    assert "command_watchdog was killed by SIGKILL" in said
    assert deployment.returncode == 128 + signal.SIGKILL
    wait_until(lambda: not watched.received[-1].moves, "the last command is a stop")
    stop = watched.first_stop_since(begin_ns)
    assert stop is not None
    stopped_s = (stop.time_ns - begin_ns) / 1e9
    ended = "`remote-inference robot` said so and ended"
    note(f"{ended}; the node sent zeros after {stopped_s:.1f} s", "-, exit 137")


def child_of(pid: int, word: str) -> int:
    """Return the child of a process whose command line has a word as an argument."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if parent == pid and word.encode() in arguments:
            return int(folder.name)
    raise AssertionError(f"process {pid} has no child {word}")


def test_a_process_group_reports_a_killed_watchdog(tmp_path: Path) -> None:
    arm = WatchedArm(tmp_path, "velocity")
    try:
        arm.start()
        arm.watchdog.kill()
        arm.watchdog.wait(DEADLINE_S)
        with pytest.raises(ProcessError, match="command_watchdog was killed by SIGKILL"):
            arm.group.check()
    finally:
        arm.close()
