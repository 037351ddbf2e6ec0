# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Two tutorials are followed: their files are written, and their commands run in order."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import rclpy
from PIL import Image
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from sensor_msgs.msg import JointState

from support.free_ports import free_port
from support.waiting import wait_until

DEADLINE_S = 60.0
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"


class Newcomer:
    """Somebody who types what the page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[str] = []
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def read(self, page: str) -> None:
        """Write the files of a page, and turn to its commands."""
        text = (TUTORIALS / page).read_text()
        found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        self._lines = [line for kind, block in found if not kind for line in block.splitlines()]
        for kind, block in found:
            if kind:
                self._write(block)

    def _write(self, block: str) -> None:
        """Write a file whose name stands in the block's first line; JSON has no comments."""
        first, rest = block.split("\n", 1)
        marker, name = first.split()
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        text = rest if marker == "//" else block
        file.write_text(text.replace("health_port: 9100", f"health_port: {free_port()}"))

    def line(self, beginning: str) -> str:
        """Return the page's line that begins so."""
        (line,) = [line for line in self._lines if line.startswith(beginning)]
        return line

    def run(self, beginning: str) -> str:
        """Run a line to its end and return what it printed."""
        done = subprocess.run(
            ["bash", "-c", self.line(beginning)],
            cwd=self._folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self, beginning: str) -> None:
        """Start a line in a terminal of its own."""
        with self._log(beginning).open("wb") as log:
            self._started[beginning] = subprocess.Popen(
                shlex.split(self.line(beginning)),
                cwd=self._folder,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for_words(self, beginning: str, words: str) -> None:
        """Wait until a started line has printed some words."""
        wait_until(lambda: self.count_words(beginning, words), f"{words!r} of {beginning!r}", DEADLINE_S)

    def count_words(self, beginning: str, words: str) -> int:
        """Return how often a started line has printed some words."""
        return self._log(beginning).read_text().count(words)

    def end(self, beginning: str) -> int:
        """Press Ctrl-C in a terminal; return the exit code."""
        process = self._started.pop(beginning)
        process.send_signal(signal.SIGINT)
        return process.wait(DEADLINE_S)

    def leave(self) -> None:
        for beginning in list(self._started):
            self.end(beginning)

    def _environment(self) -> dict[str, str]:
        paths = {"PATH": Path(sys.executable).parent, "PYTHONPATH": self._folder}
        return os.environ | {
            name: f"{path}:{os.environ.get(name, '')}".rstrip(":") for name, path in paths.items()
        }

    def _log(self, beginning: str) -> Path:
        return self._folder / f"{re.sub(r'[^a-z]+', '_', beginning)}.log"


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(tmp_path)
    yield newcomer
    newcomer.leave()


def test_the_first_arm_goes_from_its_contract_to_the_report(newcomer: Newcomer, tmp_path: Path) -> None:
    newcomer.read("first_arm.md")
    newcomer.start("python my_arm.py")
    assert "\n  fits\n" in newcomer.run("remote-inference check")
    newcomer.start("remote-inference server")
    newcomer.start("remote-inference robot")
    newcomer.wait_for_words("remote-inference server", "/my_arm/remote_inference admitted as ")
    newcomer.run("remote-inference doctor")
    newcomer.run("remote-inference resume")
    newcomer.wait_for_words("remote-inference robot", "STREAMING")
    newcomer.run("remote-inference pause")
    assert newcomer.end("remote-inference robot") == 0
    newcomer.run("remote-inference explain")
    with Image.open(tmp_path / "report.png") as picture:
        assert picture.size > (800, 600)


def wait_until_at(target: dict[str, float], newcomer: Newcomer, near: float = 0.01) -> None:
    """Wait until the arm's joints are where they are to be, or as near.

    The watchdog stops the arm of a robot whose machine is too busy; the newcomer then resumes it again.
    """
    stops = 0
    context = Context()
    rclpy.init(context=context)
    try:
        node = rclpy.create_node("onlooker", context=context)
        found: dict[str, float] = {}
        for part in ("arm", "gripper"):
            node.create_subscription(
                JointState,
                f"/my_arm/{part}/joint_states",
                lambda message: found.update(zip(message.name, message.position, strict=True)),
                10,
            )
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)

        def is_there() -> bool:
            nonlocal stops
            executor.spin_once(timeout_sec=0.1)
            if (stopped := newcomer.count_words("remote-inference robot", "RETURNED")) > stops:
                stops = stopped
                newcomer.run("remote-inference resume")
            return found.keys() == target.keys() and all(abs(found[n] - target[n]) < near for n in target)

        wait_until(is_there, f"arm at {target}", DEADLINE_S)
    finally:
        rclpy.shutdown(context=context)


def read_target(folder: Path) -> dict[str, float]:
    policy = json.loads((folder / "reach_files" / "policy.json").read_text())
    return dict(zip(policy["names"], policy["target"], strict=True))


def test_the_first_policy_brings_the_arm_to_its_pose(newcomer: Newcomer, tmp_path: Path) -> None:
    newcomer.read("first_arm.md")
    newcomer.start("python my_arm.py")
    newcomer.read("first_policy.md")
    assert "\n  fits\n" in newcomer.run("remote-inference check --run my_arm.contract.yaml reach")
    newcomer.start("remote-inference server --manifest reach")
    newcomer.start("remote-inference robot")
    newcomer.wait_for_words("remote-inference server --manifest reach", "/my_arm/remote_inference admitted")
    newcomer.run("remote-inference resume")
    wait_until_at(read_target(tmp_path), newcomer)
    assert newcomer.end("remote-inference robot") == 0


def test_a_policy_that_sees_turns_the_arm_to_the_light(newcomer: Newcomer, tmp_path: Path) -> None:
    newcomer.read("first_arm.md")
    newcomer.start("python my_arm.py")
    newcomer.read("first_policy.md")
    newcomer.start("python my_camera.py")
    newcomer.run("cat camera.yaml")
    assert "\n  fits\n" in newcomer.run("remote-inference check --run my_arm.contract.yaml look")
    newcomer.start("remote-inference server --manifest look")
    newcomer.start("remote-inference robot")
    newcomer.wait_for_words("remote-inference server --manifest look", "/my_arm/remote_inference admitted")
    newcomer.run("remote-inference resume")
    wait_until_at({**read_target(tmp_path), "base": -0.25}, newcomer, near=0.02)  # as the page says
    assert newcomer.end("remote-inference robot") == 0
