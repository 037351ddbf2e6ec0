# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The verbs for people without ros2cli."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from remote_inference.bags.storage.bag import BagReader
from remote_inference.base.wire.qos import EXECUTED_TOPIC
from support.nodes.rig import DEADLINE_S, Rig, write_contract, write_manifest

# A busy machine may keep the control thread waiting; its watchdog is not what is tested here.
PARAMETERS = "/**:\n  ros__parameters: {autostart: true, watchdog_timeout_s: 10.0}\n"


def start(*arguments: Any, output: IO[bytes] | int = subprocess.PIPE) -> subprocess.Popen[str]:
    """Start a verb as a background job of a shell, which lets it ignore SIGINT."""
    in_background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    return subprocess.Popen(
        [*in_background, sys.executable, "-m", "remote_inference.tools.cli", *map(str, arguments)],
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
    )


class RobotVerb:
    """The robot's verb at work, told to record where no bag can be created."""

    def __init__(self, folder: Path, rig: Rig) -> None:
        parameters = folder / "params.yaml"
        parameters.write_text(PARAMETERS)
        self._rig = rig
        self._log = folder / "robot.log"
        with self._log.open("wb") as log:
            self.process = start(
                *("robot", "--contract", write_contract(folder), "--namespace", rig.namespace),
                *("--params-file", parameters, "--record", "/proc/bag"),
                output=log,
            )

    def wait_for_words(self, words: str) -> None:
        self._rig.wait_for(lambda: words in self._log.read_text(), words)

    def find_node(self, executable: str) -> int:
        """Return the process that runs an executable of the package."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        commands = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes() for pid in path.read_text().split()}
        (found,) = (pid for pid, command in commands.items() if executable.encode() in command.split(b"\0"))
        return found


@pytest.fixture
def robot(rig: Rig, tmp_path: Path) -> Iterator[RobotVerb]:
    rig.start_server(write_manifest(tmp_path))
    verb = RobotVerb(tmp_path, rig)
    rig.wait_for_commands(10)
    yield verb
    verb.process.send_signal(signal.SIGINT)
    verb.process.wait(DEADLINE_S)


def test_a_recorder_that_cannot_start_is_named_and_the_robot_runs_on(robot: RobotVerb, rig: Rig) -> None:
    robot.wait_for_words("cannot start: /proc/bag: cannot create the bag")
    robot.wait_for_words("remote-inference: bag_recorder ended with exit code 2, the rest runs on without it")
    rig.wait_for_commands(10)


def test_a_killed_wrapper_does_not_leave_a_commanding_node(robot: RobotVerb, rig: Rig) -> None:
    robot.process.kill()
    topic = f"{rig.namespace}/commands"
    rig.wait_for(lambda: not rig.node.get_publishers_info_by_topic(topic), "the node is gone")


def test_a_killed_node_is_named(robot: RobotVerb) -> None:
    robot.wait_for_words("bag_recorder ended")
    os.kill(robot.find_node("remote_inference"), signal.SIGKILL)
    robot.wait_for_words("remote-inference: remote_inference was killed by SIGKILL")
    assert robot.process.wait(DEADLINE_S) == 128 + signal.SIGKILL


def test_a_bag_is_never_recorded_into_an_existing_folder(tmp_path: Path) -> None:
    contract = write_contract(tmp_path)
    process = start("robot", "--contract", contract, "--namespace", "/rig", "--record", tmp_path)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert (
        output
        == f"remote-inference robot: {tmp_path}: exists already, expected the folder of a bag to create\n"
    )


def test_server_and_robot_run_until_interrupted_and_the_bag_is_whole(rig: Rig, tmp_path: Path) -> None:
    parameters = tmp_path / "params.yaml"
    parameters.write_text(PARAMETERS)
    server = start("server", "--manifest", write_manifest(tmp_path))
    robot = start(
        *("robot", "--contract", write_contract(tmp_path), "--namespace", rig.namespace),
        *("--params-file", parameters, "--record", tmp_path / "bag"),
    )
    executed = rig.node.resolve_topic_name(EXECUTED_TOPIC)
    try:
        rig.wait_for(lambda: rig.node.count_subscribers(executed) == 2, "the recorder beside this rig")
        rig.wait_for_commands(10)
    finally:
        for process in (robot, server):
            process.send_signal(signal.SIGINT)
        codes = [process.wait(DEADLINE_S) for process in (robot, server)]
    assert codes == [0, 0]
    with BagReader(tmp_path / "bag") as bag:
        assert f"{rig.namespace}/remote_inference/executed" in bag.topics


def test_a_node_that_cannot_start_gives_its_exit_code(tmp_path: Path) -> None:
    process = start("server", "--manifest", tmp_path / "none.yaml")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "none.yaml: cannot be read: No such file or directory" in output


def test_a_bad_contract_is_refused_before_anything_starts(tmp_path: Path) -> None:
    contract = write_contract(tmp_path, fps=-1)
    process = start("robot", "--contract", contract, "--namespace", "/rig", "--record", tmp_path / "bag")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "contract.yaml: fps: found -1, expected at least 0.01" in output
    assert "Traceback" not in output


def test_explain_refuses_what_is_no_bag(tmp_path: Path) -> None:
    process = start("explain", tmp_path, "--namespace", "/rig")
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert str(tmp_path) in output
    assert "Traceback" not in output
