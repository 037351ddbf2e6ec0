# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A newcomer's first hour: an arm with seven joints and a policy of one's own, from contract to report.

Everything is done with the files beside this one and the program's verbs, as the tutorials tell.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from support.waiting import wait_until

HERE = Path(__file__).parent
CONTRACT, MANIFEST = HERE / "arm.contract.yaml", HERE / "wave.manifest.yaml"
NAMESPACE = "/arm_7"
DEADLINE_S = 90.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE)}


class FirstHour:
    """A terminal for programs that go on running, and one for verbs that end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            started = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log, cwd=self.folder)
        self._running.append(started)
        return started

    def verb(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["remote-inference", *arguments]
        return subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S, cwd=self.folder
        )

    def succeed(self, *arguments: str) -> str:
        ended = self.verb(*arguments)
        assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self.succeed(*arguments, "--json"))

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        return process.wait(DEADLINE_S)

    def close(self) -> None:
        for process in reversed(self._running):
            self.stop(process)


@pytest.fixture
def hour(tmp_path: Path) -> Iterator[FirstHour]:
    made = FirstHour(tmp_path)
    yield made
    made.close()


def test_a_newcomer_gets_from_a_contract_to_a_report(hour: FirstHour) -> None:
    assert "fits" in hour.succeed("check", str(CONTRACT), str(MANIFEST))
    assert "wrist_3" in hour.succeed("check", "--run", str(MANIFEST), str(CONTRACT))

    hour.start(
        "arm", sys.executable, str(HERE / "seven_joint_arm.py"), "--ros-args", "-r", f"__ns:={NAMESPACE}"
    )
    hour.start("server", "remote-inference", "server", "--manifest", str(MANIFEST))
    robot = hour.start(
        "robot",
        *("remote-inference", "robot", "--contract", str(CONTRACT)),
        *("--namespace", NAMESPACE, "--record", "run_1"),
    )
    wait_until(lambda: hour.verb("status", NAMESPACE).returncode == 0, "the robot's node", DEADLINE_S)
    wait_until(lambda: hour.read("status", NAMESPACE)["session_id"] != "", "a session", DEADLINE_S)
    assert hour.read("status", NAMESPACE)["paused"]
    hour.succeed("doctor", "--contract", str(CONTRACT), "--namespace", NAMESPACE)
    assert NAMESPACE in hour.succeed("list")

    hour.succeed("resume", NAMESPACE)
    wait_until(
        lambda: hour.read("status", NAMESPACE)["state_name"] == "STREAMING", "the arm moving", DEADLINE_S
    )
    hour.succeed("reset", NAMESPACE, "--task", "fold the other towel")
    wait_until(lambda: hour.read("status", NAMESPACE)["episode_id"] == 1, "the next episode", DEADLINE_S)
    hour.succeed("pause", NAMESPACE)
    assert hour.read("status", NAMESPACE)["paused"]
    assert hour.stop(robot) == 0
    assert "decisions: the last" not in (hour.folder / "robot.log").read_text(), "it ends without a warning"

    hour.succeed("explain", "run_1", "--out", "report.png")
    with Image.open(hour.folder / "report.png") as report:
        assert report.width > 1000


def test_a_newcomers_mistakes_are_answered_in_words(hour: FirstHour) -> None:
    text = CONTRACT.read_text().replace("min: 0.0, max: 0.08", "min: 0.08, max: 0.0")
    (hour.folder / "wrong.contract.yaml").write_text(text)
    refused = hour.verb("check", "wrong.contract.yaml")
    assert refused.returncode == 2
    assert "gripper: found min 0.08 and max 0.0, expected min < max" in refused.stderr + refused.stdout
    manifest = MANIFEST.read_text().replace("wave_policy:load", "wavy_policy:load")
    (hour.folder / "wrong.manifest.yaml").write_text(manifest)
    refused = hour.verb("check", "wrong.manifest.yaml")
    assert refused.returncode == 2
    assert "model.backend: 'wavy_policy:load' cannot be imported" in refused.stderr + refused.stdout
