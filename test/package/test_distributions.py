# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A distribution of ROS 2 is one file of requirements, where builds, tests and advice find it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from remote_inference.base.paths import WHEEL_DISTRIBUTIONS

ROOT = Path(__file__).parents[2]
FILES = sorted(file for file in (ROOT / "requirements").glob("*.txt") if "-rclpy==" in file.read_text())
NAMES = [file.stem for file in FILES]
BUILDS = "# ... and what building"


def packages_of(file: Path) -> list[str]:
    """Return the packages that the nodes need at run time, without the distribution's name."""
    at_run_time = file.read_text().partition(BUILDS)[0]
    return re.findall(rf"^ros-{file.stem}-(\S+)==\S+$", at_run_time, re.MULTILINE)


@pytest.mark.parametrize("file", FILES, ids=NAMES)
def test_each_has_the_same_packages_at_run_time_all_of_its_own_and_pinned(file: Path) -> None:
    assert packages_of(file) == packages_of(ROOT / "requirements" / "jazzy.txt")
    lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(rf"ros-{file.stem}-\S+==\S+", line)] == []


def test_what_asks_for_wheels_knows_each_distribution() -> None:
    assert set(NAMES) <= set(WHEEL_DISTRIBUTIONS)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("make", *arguments)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, timeout=60.0)


def test_make_finds_them_and_names_them_for_one_that_is_missing() -> None:
    assert make("--silent", "distros").stdout.split() == NAMES
    refused = make("DISTRO=foxy", "help")
    assert refused.returncode != 0
    assert f"found foxy, expected one of {' '.join(NAMES)}" in refused.stderr
    assert "requirements/foxy.txt" in refused.stderr


def test_flaky_tests_are_hunted_on_each() -> None:
    shown = run(sys.executable, "tools/hunt_flakes.py", "--help")
    assert "{" + ",".join(NAMES) + "}" in shown.stdout
