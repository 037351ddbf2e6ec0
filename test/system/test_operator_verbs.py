# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The operator's verbs on real nodes: what they do to a robot, what they print, how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

from remote_inference.base.wire.qos import LATCHED_QOS, PREVIEW_TOPIC
from remote_inference.tools import cli
from support.nodes.rig import DEADLINE_S, JOINTS, Rig, write_contract, write_manifest

TIMEOUT = ("--timeout", "30")
OTHER = "/other_robot"


@pytest.fixture
def robot(rig: Rig, tmp_path: Path) -> Rig:
    """A robot with a session, not started yet."""
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), autostart=False)
    rig.wait_for(lambda: rig.states and rig.states[-1].session_id, "a session")
    return rig


@pytest.fixture
def stubborn(rig: Rig) -> Iterator[Node]:
    """A node that looks like another robot and refuses to resume."""

    def refuse(_: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = False, "stopped: offline for 60 s"
        return response

    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("remote_inference", namespace=OTHER, context=context)
    node.create_service(Trigger, "~/resume", refuse)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)

    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    yield node
    executor.shutdown(timeout_sec=1.0)
    rclpy.shutdown(context=context)
    thread.join(10.0)
    node.destroy_node()


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a verb that must succeed with --json; return what it prints."""
    capsys.readouterr()
    assert cli.main([*arguments, "--json", *TIMEOUT]) == 0
    return json.loads(capsys.readouterr().out)


def test_an_operator_s_day(robot: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    name = robot.namespace
    assert cli.main(["resume", name, *TIMEOUT]) == 0
    assert capsys.readouterr().out == f"{name}: resumed\n"
    robot.wait_for_commands(5)
    assert not run_json(capsys, "status", name.strip("/"))["paused"]

    assert run_json(capsys, "pause", name) == {
        "robot": name,
        "success": True,
        "message": "paused, queue kept",
    }
    status = run_json(capsys, "status", name)
    assert status["paused"]
    assert status["server"] == "/policy_server"

    started = run_json(capsys, "reset", name, "--task", "wave")
    assert started["episode_id"] > status["episode_id"]
    assert run_json(capsys, "status", name)["task"] == "wave"
    assert cli.main(["reset", name, "--quiet", *TIMEOUT]) == 0
    assert capsys.readouterr().out == ""

    assert cli.main(["status", *TIMEOUT]) == 0
    text = capsys.readouterr().out
    assert "STREAMING, paused" in text
    assert "task 'wave'" in text

    listed = run_json(capsys, "list")
    assert listed["looked_s"] > 0.0
    assert [one["robot"] for one in listed["robots"]] == [name]
    assert [one["server"] for one in listed["servers"]] == ["/policy_server"]
    assert len(listed["servers"][0]["sessions"]) == 1

    assert cli.main(["top", *TIMEOUT]) == 0  # no terminal: one plain table
    robots, servers, looked = capsys.readouterr().out.split("\n\n")
    assert robots.splitlines()[1].split()[:3] == [name, "STREAMING,", "paused"]
    assert servers.splitlines()[1].split()[:4] == ["/policy_server", "active", "hold", "1/4"]
    assert re.fullmatch(r"looked for \d+\.\d s\n", looked)


def test_the_actions_ahead_and_the_last_seconds_of_a_robot_are_seen(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ahead: list[JointTrajectory] = []
    rig.subscribe(JointTrajectory, PREVIEW_TOPIC, ahead.append, LATCHED_QOS)
    rig.start_server(write_manifest(tmp_path))
    rig.start_robot(write_contract(tmp_path), preview=True)
    rig.wait_for_commands(60)
    rig.wait_for(lambda: len(ahead) > 1 and ahead[-1].points, "previews of several merges")
    assert ahead[-1].joint_names == list(JOINTS)
    assert any(tick.queue_length for tick in rig.executed)

    seen = run_json(capsys, "top", "--robot", rig.namespace, "--once")
    assert seen["robot"] == rig.namespace
    assert seen["last"]["source"][-1] == "CHUNK"
    for part in ("action_age_s", "queue_length", "queue_wait_ms", "inference_ms", "transport_ms"):
        assert seen["last"][part][-1] is not None, part
    assert cli.main(["top", "--robot", rig.namespace, *TIMEOUT]) == 0  # no terminal: the screen once
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{rig.namespace}: STREAMING"
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("age s") and "█" in line for line in lines)


def test_top_prints_a_json_line_per_refresh_until_interrupted(stubborn: Node) -> None:
    command = [sys.executable, "-m", "remote_inference.tools.cli", "top", "--json", "--period", "0.1"]
    process = subprocess.Popen(
        [*command, "--timeout", "3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    end_s = time.monotonic() + DEADLINE_S
    right_in_a_row = 0  # the first lines may come before the robot is discovered
    try:
        while right_in_a_row < 3:
            assert time.monotonic() < end_s, "the robot is not shown"
            line = json.loads(process.stdout.readline())
            right_in_a_row = right_in_a_row + 1 if line["robots"] == [{"robot": OTHER}] else 0
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30.0)
    assert (process.returncode, errors) == (130, "")


def test_a_refusal_is_exit_code_1_and_the_robot_s_reason(
    stubborn: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["resume", OTHER, *TIMEOUT]) == 1
    assert capsys.readouterr().err == (
        f"remote-inference resume: {OTHER} refused: stopped: offline for 60 s\n"
    )


def test_a_robot_that_is_not_there_is_exit_code_2_and_names_those_that_are(
    stubborn: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pause", "robot_9", "--timeout", "3"]) == 2
    assert re.search(r"no robot /robot_9 within \d+\.\d s, found ", capsys.readouterr().err)


def test_without_a_name_several_robots_are_listed_and_none_is_chosen(
    robot: Rig, stubborn: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["status", *TIMEOUT]) == 2
    expected = f"found robots {OTHER}, {robot.namespace}, expected the name of one of them as ROBOT"
    assert expected in capsys.readouterr().err


def test_a_service_that_is_not_offered_ends_with_its_name(
    stubborn: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["reset", OTHER, "--task", "wave", "--timeout", "3"]) == 2
    assert f"{OTHER}/remote_inference/start_episode: no such service within 3 s" in capsys.readouterr().err


def test_the_doctor_names_what_keeps_a_robot_still(
    robot: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.environ["AMENT_PREFIX_PATH"] == sys.prefix:  # set by conftest.py; a user of the wheels has not
        monkeypatch.delenv("AMENT_PREFIX_PATH")
    command = {"type": "std_msgs/msg/Float64MultiArray", "names": ["elbow"]}
    other = {**command, "topic": "unheard", "names": ["shoulder"]}
    folder = tmp_path / "other"
    folder.mkdir()
    contract = write_contract(folder, commands=[{**command, "topic": "commands"}, other])
    arguments = ["doctor", "--contract", str(contract), "--namespace", robot.namespace, *TIMEOUT]
    capsys.readouterr()
    assert cli.main([*arguments, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    levels = {finding["subject"]: finding["level"] for finding in report["findings"]}
    name = robot.namespace
    assert levels["server /policy_server"] == "ok"
    assert levels[f"robot {name}"] == "warning"  # paused
    assert levels[f"sensor {name}/joint_states"] != "error"
    assert levels[f"sensor {name}/camera/image_raw"] != "error"
    assert levels[f"command {name}/commands"] == "ok"
    assert levels[f"command {name}/unheard"] == "error"
    assert report["errors"] == 1

    assert cli.main([*arguments, "--quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    (unheard,) = [line for line in lines if f"command {name}/unheard" in line]
    assert unheard.startswith(f"error    command {name}/unheard: no subscriber, expected a controller for ")
    assert unheard.endswith("; start the controller, or mend the contract's topic"), (
        "a pipe: nothing is folded"
    )
    assert not any(line.startswith("ok ") for line in lines)
