# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Plays random worlds of the robot's engine, each from its seed, and judges every command and request.

Three kinds of worlds: in one servers and network fail, in another the robot does: its threads, controllers,
drives and sensors; in the third the sensors lie. Prints kind and seed of the worlds in which a rule was
broken, and exits with 1 when there is one. The memory of the processes is compared between the first tenth
of the worlds and the last.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from support.robot import (
    random_lying_world,
    random_watched_world,
    random_world,
)
from support.robot.random_world import Outcome

KINDS = {
    "network": random_world.play,
    "robot": random_watched_world.play,
    "lies": random_lying_world.play,
}
BATCH = 50  # worlds that a process plays at a time
GROWTH_MAX = 1.1  # of a process' memory, from the first tenth of the worlds to the last
PROGRESS_S = 30.0


@dataclass
class Batch:
    """What a process found in some worlds."""

    process: int
    memory_mb: float  # resident, at the end
    outcomes: list[Outcome] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


def play_batch(seeds: Sequence[int], kinds: Sequence[str]) -> Batch:
    results = [play_world(kind, seed) for seed in seeds for kind in kinds]
    outcomes = [result for result in results if isinstance(result, Outcome)]
    violations = [result for result in results if isinstance(result, str)]
    return Batch(os.getpid(), memory_mb(), outcomes, violations)


def play_world(kind: str, seed: int) -> Outcome | str:
    """Return the outcome of a world, or the rule that it broke."""
    try:
        return KINDS[kind](seed)
    except Exception as error:  # a rule of the judge, or a mistake of the engine
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"{kind} seed {seed}: {type(error).__name__} in {place.name}: {error or place.line}"


def memory_mb() -> float:
    """Return the resident memory of this process [MB]."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def batches(count: int, first_seed: int, jobs: int, kinds: Sequence[str]) -> Iterator[Batch]:
    """Play worlds of `count` seeds in several processes; yield what they find as it comes."""
    end = first_seed + count
    seeds = (range(start, min(start + BATCH, end)) for start in range(first_seed, end, BATCH))
    with ProcessPoolExecutor(jobs) as pool:
        waiting: set[Future[Batch]] = {
            pool.submit(play_batch, part, kinds) for part in islice(seeds, 2 * jobs)
        }
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            waiting |= {pool.submit(play_batch, part, kinds) for part in islice(seeds, len(done))}
            yield from (future.result() for future in done)


def memory_growth(found: Sequence[Batch]) -> float:
    """Return by how much the processes' memory has grown, 1.0 for not at all."""
    growths = []
    for process in {batch.process for batch in found}:
        sizes = [batch.memory_mb for batch in found if batch.process == process]
        tenth = max(1, len(sizes) // 10)
        growths.append(max(sizes[-tenth:]) / max(sizes[:tenth]))
    return max(growths)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kind", choices=KINDS, help="of the worlds; left out: every seed has one of each")
    parser.add_argument("--worlds", type=int, default=100_000)
    parser.add_argument("--first-seed", type=int, default=0, help="with --kind, --worlds 1: one world again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    kinds = [arguments.kind] if arguments.kind else list(KINDS)
    seeds = -(-arguments.worlds // len(kinds))
    found: list[Batch] = []
    worlds, violations, begun_s = 0, 0, time.monotonic()
    next_s = begun_s + PROGRESS_S
    for batch in batches(seeds, arguments.first_seed, arguments.jobs, kinds):
        found.append(batch)
        worlds += len(batch.outcomes) + len(batch.violations)
        violations += len(batch.violations)
        for violation in batch.violations:
            print(violation, flush=True)
        if time.monotonic() >= next_s:
            next_s += PROGRESS_S
            rate = worlds / (time.monotonic() - begun_s)
            print(
                f"{worlds} of {arguments.worlds} worlds, {rate:.1f} a second, {violations} violations",
                flush=True,
            )
    return report(found, violations, time.monotonic() - begun_s)


def report(found: Sequence[Batch], violations: int, took_s: float) -> int:
    """Print the figures; return the exit code."""
    outcomes = [outcome for batch in found for outcome in batch.outcomes]
    hours = sum(outcome.simulated_s for outcome in outcomes) / 3600
    growth = memory_growth(found)
    worlds = len(outcomes) + violations
    print(
        f"{worlds} worlds, {hours:.1f} h of simulated robot time in {took_s / 60:.1f} min, "
        f"{worlds / took_s:.1f} worlds a second"
    )
    for name in ("ticks", "commands", "requests", "merges", "reconnects", "dead"):
        print(f"  {name}: {sum(getattr(outcome, name) for outcome in outcomes)}")
    print(f"  memory of a process: {max(batch.memory_mb for batch in found):.0f} MB, grew {growth:.2f} times")
    print(f"  violations: {violations}")
    return 1 if violations or growth > GROWTH_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
