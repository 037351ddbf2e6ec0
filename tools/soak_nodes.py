# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Lets a real robot's node and a real server run for a time while sensors, server and operator misbehave.

Exits with 1 when the arm was commanded unsafely, as the fault tests judge it, or when a process has grown.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import conftest  # noqa: F401  claims a ROS domain for this process and its children

from support.faults.arm import Arm
from support.faults.judge import find_violations

PAUSE_S = (2.0, 8.0)  # between two events
SAMPLE_S = 1.0
GROWTH_MAX = 1.1  # of a process' memory, from the second tenth of the time to the last


def pause_and_resume(arm: Arm) -> None:
    arm.pause()
    arm.resume()


def begin_an_episode(arm: Arm) -> None:
    arm.reset()


def lose_the_camera(arm: Arm) -> None:
    arm.camera_on = False
    time.sleep(1.0)
    arm.camera_on = True


def freeze_the_server(arm: Arm) -> None:
    arm.server.send_signal(signal.SIGSTOP)
    time.sleep(1.0)
    arm.server.send_signal(signal.SIGCONT)


EVENTS: tuple[Callable[[Arm], None], ...] = (
    pause_and_resume,
    begin_an_episode,
    lose_the_camera,
    freeze_the_server,
)


def memory_mb(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process [MB]."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(sizes: list[float]) -> float:
    """Return by how much memory has grown since the second tenth of the samples, 1.0 for not at all."""
    tenth = max(1, len(sizes) // 10)
    return statistics.median(sizes[-tenth:]) / statistics.median(sizes[tenth : 2 * tenth] or sizes)


def soak(arm: Arm, seconds: float, rng: random.Random) -> dict[str, list[float]]:
    """Let events happen for a time; return the memory of the two processes over this time [MB]."""
    sizes: dict[str, list[float]] = {"robot": [], "server": []}
    end_s = time.monotonic() + seconds
    next_event_s = time.monotonic() + rng.uniform(*PAUSE_S)
    while time.monotonic() < end_s:
        time.sleep(SAMPLE_S)
        sizes["robot"].append(memory_mb(arm.robot))
        sizes["server"].append(memory_mb(arm.server))
        if time.monotonic() >= next_event_s:
            rng.choice(EVENTS)(arm)
            next_event_s = time.monotonic() + rng.uniform(*PAUSE_S)
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arm = Arm(Path(folder))
        try:
            arm.start_arm_server()
            arm.start_arm()
            sizes = soak(arm, arguments.minutes * 60, random.Random(arguments.seed))
            alive = arm.robot.poll() is None and arm.server.poll() is None
            state = arm.states[-1]
        finally:
            arm.close()
        violations = find_violations(arm.record)
    commands, calls = len(arm.record.commands), len(arm.record.calls)
    print(f"{arguments.minutes:g} min: {commands} commands, {calls} operator calls")
    print(f"  {state.requests} requests, {state.chunks_merged} merged, {state.reconnects} reconnects")
    for name, values in sizes.items():
        print(f"  memory of the {name}: {values[-1]:.0f} MB, grew {growth(values):.3f} times")
    print(f"  violations: {len(violations)}", *violations[:20], sep="\n  ")
    flat = all(growth(values) <= GROWTH_MAX for values in sizes.values())
    return 0 if alive and flat and not violations else 1


if __name__ == "__main__":
    sys.exit(main())
