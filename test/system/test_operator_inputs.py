# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Stops and a takeover on a real robot's node, by the operator's verbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from remote_inference.base.wire.qos import LATCHED_QOS, SENSOR_QOS
from remote_inference.msg import ExecutedAction
from remote_inference.tools import cli
from support.nodes.rig import JOINTS, Rig, write_contract, write_manifest

TIMEOUT = ("--timeout", "30")
BUTTON = {"topic": "estop", "type": "std_msgs/msg/Bool", "stop_when": True}
TAKEOVER = {"topic": "teleop", "type": "sensor_msgs/msg/JointState"}


def run(capsys: pytest.CaptureFixture[str], verb: str, *, code: int = 0) -> str:
    """Run a verb, which must end with a code; return what it prints."""
    capsys.readouterr()
    assert cli.main([verb, "rig", *TIMEOUT]) == code, verb
    printed = capsys.readouterr()
    return printed.err if code else printed.out


def test_a_stop_and_the_way_back_from_the_shell(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The button tells its value once, when it changes: a value that was kept counts as heard."""
    button = rig.node.create_publisher(Bool, "estop", LATCHED_QOS)
    button.publish(Bool(data=False))
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path, stops={"button": BUTTON}), autostart=False)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "a session")
    rig.wait_for(lambda: "resumed" in _try(rig, "resume"), "resumed")
    rig.wait_for_commands(5)
    button.publish(Bool(data=True))
    rig.wait_for(lambda: rig.states[-1].stop == "button: estop says true", "stopped")
    assert "STREAMING, stopped" in run(capsys, "status")
    assert "refused: stopped by button: estop says true; clear_stop" in run(capsys, "resume", code=1)
    assert "refused: stop input button: estop says true" in run(capsys, "clear-stop", code=1)
    button.publish(Bool(data=False))
    rig.wait_for(lambda: "cleared" in _try(rig, "clear_stop"), "cleared")
    assert "no stop was latched" in run(capsys, "clear-stop")
    run(capsys, "resume")
    rig.wait_for_commands(5)


def test_a_takeover_from_the_shell(rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path, takeover=TAKEOVER))
    rig.wait_for_commands(5)
    assert "the fallback runs until one does" in run(capsys, "takeover")
    leader = rig.node.create_publisher(JointState, "teleop", SENSOR_QOS)
    message = JointState(name=["gripper", *JOINTS], position=[9.0, 0.5, 0.25])

    def follows(*action: float) -> bool:
        tick = rig.executed[-1]
        return tick.source == ExecutedAction.HUMAN and tuple(tick.action) == action

    rig.publish_until(leader, message, lambda: follows(0.5, 0.25), "the person's command, step by step")
    second = rig.node.create_publisher(JointState, "teleop", SENSOR_QOS)
    message.position = [9.0, 0.25, 0.0]
    rig.publish_until(
        second, message, lambda: follows(0.25, 0.0), "another publisher's command: it came last"
    )
    assert "STREAMING, taken over" in run(capsys, "status")
    assert "released" in run(capsys, "release")
    rig.wait_for(lambda: rig.executed[-1].source == ExecutedAction.CHUNK, "the policy again")
    assert "not taken over" in run(capsys, "release", code=1)


def test_a_takeover_without_a_topic_is_refused(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.start_robot(write_contract(tmp_path))
    rig.wait_for(lambda: rig.states, "a state")
    assert "the contract names no takeover topic" in run(capsys, "takeover", code=1)


def test_a_stop_of_a_type_that_is_not_installed_ends_the_start(rig: Rig, tmp_path: Path) -> None:
    beat = {"topic": "beat", "type": "nowhere_msgs/msg/Beat", "stop_when": "silent", "silent_s": 1.0}
    rig.start_robot(write_contract(tmp_path, stops={"watcher": beat}))
    assert rig.robot.wait(30) == 2
    log = (tmp_path / "logs" / "remote_inference.log").read_text()
    assert "stops.watcher.type: message type 'nowhere_msgs/msg/Beat' is not installed" in log


def _try(rig: Rig, service: str) -> str:
    return str(rig.trigger(service).message)
