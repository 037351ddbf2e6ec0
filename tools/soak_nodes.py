# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Lets robots of each kind of controller run for a time while sensors, servers and nodes misbehave.

Each robot has processes, a domain and a judge of its own. Exits with 1 when one was commanded unsafely, was
stopped by anything but an event, did not go on after one, or when a process has grown. On a busy machine
threads stand still by themselves, and a watchdog or a silent stop input stops the robot: it is resumed, as an
operator would, and told. A stop is no failure where this process itself sent the stop input's beat too late.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

import conftest  # noqa: F401  claims a ROS domain for this process and its children

from support.faults.panel import SILENT_S
from support.faults.soaked_robots import SOAKED, SoakedRobot

PAUSE_S = (2.0, 8.0)  # between two events
SAMPLE_S = 1.0
LATE_BEAT_S = 0.9 * SILENT_S  # between two of them when they were sent: on their way a robot may wait longer
GROWTH_MAX = 1.1  # of a process' memory, from the second tenth of the time to the last


def memory_mb(process: subprocess.Popen[bytes]) -> float:
    """Return the resident memory of a process [MB]."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def growth(sizes: list[float]) -> float:
    """Return by how much memory has grown since the second tenth of the samples, 1.0 for not at all."""
    tenth = max(1, len(sizes) // 10)
    return statistics.median(sizes[-tenth:]) / statistics.median(sizes[tenth : 2 * tenth] or sizes)


class Soak:
    """What one robot went through."""

    def __init__(self) -> None:
        self.sizes: dict[str, list[float]] = {}  # of its processes, once a second [MB]
        self.happened: Counter[str] = Counter()
        self.unplanned: list[str] = []  # stops that no event has caused
        self.late_beats: list[str] = []  # those that the beat's sender has caused
        self.problem = ""  # why it did not go on

    def run(self, robot: SoakedRobot, seconds: float, rng: random.Random) -> None:
        """Let events happen for a time, or until the robot does not go on after one."""
        end_s = time.monotonic() + seconds
        next_event_s = time.monotonic() + rng.uniform(*PAUSE_S)
        while time.monotonic() < end_s:
            time.sleep(SAMPLE_S)
            for name in ("robot", "server", "watchdog"):
                if (process := getattr(robot.rig, name, None)) is not None:
                    self.sizes.setdefault(name, []).append(memory_mb(process))
            if time.monotonic() >= next_event_s:
                try:
                    self._let_happen(robot, rng.choice(robot.events), end_s)
                except AssertionError:
                    self.problem = traceback.format_exc()
                    return
                next_event_s = time.monotonic() + rng.uniform(*PAUSE_S)

    def _let_happen(self, robot: SoakedRobot, event: Callable[[], None], end_s: float) -> None:
        """Let an event happen; a robot that was stopped before it, or in its midst, goes on first.

        Raises AssertionError when it does not go on.
        """
        try:
            self._go_on_if_stopped(robot, f"before {event.__name__}", end_s)
            event()
            self.happened[event.__name__] += 1
        except AssertionError as error:
            if not self._go_on_if_stopped(robot, f"in {event.__name__} ({error})", end_s):
                raise

    def _go_on_if_stopped(self, robot: SoakedRobot, when: str, end_s: float) -> bool:
        """Return whether a robot was stopped, and goes on now."""
        if cause := robot.find_stop():
            told = f"{when}, {end_s - time.monotonic():.0f} s before the end: {cause}"
            silence_s = robot.panel.longest_silence_s()
            if "beat is silent" in cause and silence_s > LATE_BEAT_S:
                self.late_beats.append(f"{told}; sent {silence_s:.2f} s apart")
            else:
                self.unplanned.append(told)
            robot.go_on()
        return bool(cause)


def soak(kind: str, minutes: float, seed: int) -> bool:
    """Let one robot run, and tell what happened; return whether all was well."""
    soaked = Soak()
    with tempfile.TemporaryDirectory() as folder:
        robot = SOAKED[kind](Path(folder))
        try:
            robot.start()
            soaked.run(robot, minutes * 60, random.Random(seed))
            alive = robot.rig.robot.poll() is None and robot.rig.server.poll() is None
            state = robot.rig.states[-1]
        finally:
            robot.rig.close()
        violations = robot.find_violations()
    print(f"{kind}, {minutes:g} min: {robot.commands} commands, {state.requests} requests")
    print(f"  {state.chunks_merged} chunks merged, {state.reconnects} reconnects")
    print("  " + ", ".join(f"{name} {count}" for name, count in sorted(soaked.happened.items())))
    for name, values in soaked.sizes.items():
        print(f"  memory of the {name}: {values[-1]:.0f} MB, grew {growth(values):.3f} times")
    print(f"  violations: {len(violations)}", *violations[:20], sep="\n  ")
    print(f"  stopped by late beats: {len(soaked.late_beats)}", *soaked.late_beats[:20], sep="\n  ")
    print(f"  stopped by no event: {len(soaked.unplanned)}", *soaked.unplanned[:20], sep="\n  ")
    if not alive:
        print("  a process has ended")
    if soaked.problem:
        print(f"  did not go on after {soaked.problem}")
    flat = all(growth(values) <= GROWTH_MAX for values in soaked.sizes.values())
    return alive and flat and not (violations or soaked.unplanned or soaked.problem)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--robot", choices=sorted(SOAKED), help="one of them alone (default: all of them, side by side)"
    )
    arguments = parser.parse_args()
    if arguments.robot:
        return 0 if soak(arguments.robot, arguments.minutes, arguments.seed) else 1
    options = ("--minutes", str(arguments.minutes), "--seed", str(arguments.seed))
    started = [
        subprocess.Popen([sys.executable, __file__, "--robot", kind, *options], stdout=subprocess.PIPE)
        for kind in sorted(SOAKED)
    ]
    codes = []
    for process in started:
        told, _ = process.communicate()
        print(told.decode(), flush=True)
        codes.append(process.returncode)
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
