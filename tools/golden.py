# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Records what the robot's core is told and commands in many random worlds and bags, and compares it later.

golden.py record FOLDER --worlds 10000 BAG...    plays the worlds of soak.py, and reads the runs of bags
golden.py compare FOLDER                         tells the core of today the same, tick by tick

For a change of the core that must change nothing: each bit of each tick is compared with what was recorded
before it. Inputs are as they were then, so that a first difference hides none in the ticks after it. Prints
each run that differs, with its first tick that does; the exit code is 1 then. `record` prints a digest.

What the core commanded before it decided in stages (commit 9d55d096), in 4000 worlds and 783 620 ticks, has
the digest 698e97fba1dd7c193da722e25cc5ae007e103794df7dd5c6700bc340ba2e2995.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))

from remote_inference.bags.storage.bag import BagReader
from remote_inference.base.wire.qos import DECISIONS_TOPIC
from remote_inference.robot.decisions import DecisionDecoder, DecisionEncoder
from remote_inference.robot.journal import Entry
from remote_inference.robot.motion.state import Tick
from support.robot import random_lying_world, random_watched_world, random_world, replayed

KINDS = {
    "network": random_world.play_world,
    "robot": random_watched_world.play_world,
    "lies": random_lying_world.play_world,
}
SHARES = {"network": 0.45, "robot": 0.45, "lies": 0.1}  # of all: a world with lies takes five times as long
PART = 50  # worlds in a file
SUFFIX = ".golden"


@dataclass(frozen=True)
class Run:
    """One engine's life: what it was told, encoded, and its ticks."""

    name: str
    entries: bytes
    ticks: list[Any]

    def pack(self) -> bytes:
        packed = msgpack.packb((self.name, self.entries, self.ticks))
        return bytes(packed)


def ticks_of(entries: Iterable[Entry]) -> list[Any]:
    """Return the ticks of the core of today that is told these entries, in order."""
    # No thread acts within a call of another: how many operations a call has, does not matter.
    outcomes = replayed.replay(entry._replace(number=0) for entry in entries)
    return [describe(tick) for tick in replayed.ticks_of(outcomes)]


def describe(tick: Tick) -> list[Any]:
    """Return all that a tick says, exactly."""
    queued = tick.queued
    of_chunk = None if queued is None else [queued.source.seq_id, queued.source.episode_id, queued.step_index]
    return [
        _exact(tick.command),
        int(tick.source),
        of_chunk,
        tick.age_s.hex(),
        list(tick.interventions),
        _exact(tick.horizon),
        tick.row_fraction.hex(),
        [tick.shadow, tick.in_force],
        list(tick.ends),
        tick.late_ns,
    ]


FIELDS = (
    "command",
    "source",
    "queued",
    "age_s",
    "interventions",
    "horizon",
    "row_fraction",
    "flags",
    "ends",
    "late_ns",
)


def _exact(array: np.ndarray | None) -> list[Any] | None:
    return None if array is None else [list(array.shape), (array + 0.0).tobytes()]  # no sign of zero


def record_worlds(folder: Path, kind: str, seeds: range) -> tuple[str, int]:
    """Record the worlds of some seeds in a file; return its digest, and how many ticks it has."""
    runs = []
    for seed in seeds:
        world = KINDS[kind](seed)
        _, entries = world.engine.journal.take()
        run = Run(f"{kind} {seed}", DecisionEncoder().encode(entries), ticks_of(entries))
        played = [describe(tick) for _, tick in world.ticks]
        assert run.ticks == played, f"{run.name}: its replay differs from the world"
        runs.append(run)
    return save(folder / f"{kind}-{seeds.start}{SUFFIX}", runs), sum(len(run.ticks) for run in runs)


def save(path: Path, runs: list[Run]) -> str:
    """Write a file of runs; return the digest of their ticks: what they were told holds random ids."""
    path.write_bytes(zlib.compress(b"".join(run.pack() for run in runs)))
    return hashlib.sha256(msgpack.packb([(run.name, run.ticks) for run in runs])).hexdigest()


def record_bags(folder: Path, paths: Iterable[Path]) -> tuple[str, int]:
    """Record each run of the robot's nodes in some bags in a file; return its digest, and its ticks."""
    runs = []
    for path in paths:
        for instance, data in _runs_of(path).items():
            decoder = DecisionDecoder()
            entries = [entry for part in data for entry in decoder.decode(part)]
            run = Run(f"{path.name} {instance:x}", DecisionEncoder().encode(entries), ticks_of(entries))
            runs.append(run)
    return save(folder / f"bags{SUFFIX}", runs), sum(len(run.ticks) for run in runs)


def _runs_of(path: Path) -> dict[int, list[bytes]]:
    runs: dict[int, list[bytes]] = {}
    with BagReader(path) as bag:
        topics = [topic for topic in bag.topics if topic.endswith(DECISIONS_TOPIC)]
        for _, _, message in bag.messages(topics):
            runs.setdefault(int(message.instance), []).append(bytes(message.data))
    return runs


def read(path: Path) -> Iterator[Run]:
    """Yield the runs of a file."""
    unpacker = msgpack.Unpacker(max_buffer_size=0)
    unpacker.feed(zlib.decompress(path.read_bytes()))
    for name, entries, ticks in unpacker:
        yield Run(name, entries, ticks)


def compare_file(path: Path) -> tuple[int, list[str], Counter[str]]:
    """Return how many ticks were compared, a line for each run that differs, and fields that differ first."""
    ticks, lines, fields = 0, [], Counter[str]()
    for run in read(path):
        decoder = DecisionDecoder()
        found = ticks_of(decoder.decode(DecisionEncoder.seal(run.entries)))
        ticks += len(run.ticks)
        pairs = zip_longest(run.ticks, found)
        differing = [place for place, (before, now) in enumerate(pairs) if before != now]
        if not differing:
            continue
        first = differing[0]
        if first >= min(len(run.ticks), len(found)):
            field = "count"
        else:
            field = next(
                name
                for name, before, now in zip(FIELDS, run.ticks[first], found[first], strict=True)
                if before != now
            )
        fields[field] += 1
        lines.append(f"{run.name}: tick {first} differs in {field}, {len(differing)} of {len(run.ticks)} do")
    return ticks, lines, fields


def record(folder: Path, worlds: int, bags: list[Path], jobs: int) -> int:
    """Record worlds of each kind, and bags; print the digest of all."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {kind: round(share * worlds) for kind, share in SHARES.items()}
    parts = [
        (kind, range(first, min(first + PART, count)))
        for kind, count in counts.items()
        for first in range(0, count, PART)
    ]
    digests, ticks = [], 0
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(record_worlds, folder, kind, seeds) for kind, seeds in parts]
        for (kind, seeds), future in zip(parts, waiting, strict=True):
            digest, count = future.result()
            digests.append(f"{digest}  {kind}-{seeds.start}\n")
            ticks += count
            print(f"{kind} {seeds.stop} of {counts[kind]}, {ticks} ticks", flush=True)
    digest, count = record_bags(folder, bags)
    digests.append(f"{digest}  bags\n")
    whole = hashlib.sha256("".join(digests).encode()).hexdigest()
    print(f"{sum(counts.values())} worlds, {len(bags)} bags, {ticks + count} ticks, digest {whole}")
    return 0


def compare(folder: Path, jobs: int) -> int:
    """Compare all that a folder holds with the core of today."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        print(f"{folder}: found no file *{SUFFIX}, expected those of `record`")
        return 2
    ticks, differing, fields = 0, 0, Counter[str]()
    with ProcessPoolExecutor(jobs) as pool:
        for path, (count, lines, found) in zip(paths, pool.map(compare_file, paths), strict=True):
            ticks, differing, fields = ticks + count, differing + len(lines), fields + found
            print(*lines, f"{path.name}: {count} ticks, {len(lines)} runs differ", sep="\n", flush=True)
    named = ", ".join(f"{name} {count}" for name, count in fields.most_common()) or "nothing"
    print(f"{ticks} ticks; {differing} runs differ, first in: {named}")
    return 1 if differing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    recorder = verbs.add_parser("record", help="play worlds and read bags")
    recorder.add_argument("folder", type=Path)
    recorder.add_argument("bags", type=Path, nargs="*")
    recorder.add_argument("--worlds", type=int, default=10_000)
    comparer = verbs.add_parser("compare", help="tell the core of today the same")
    comparer.add_argument("folder", type=Path)
    for verb in (recorder, comparer):
        verb.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    arguments = parser.parse_args()
    if arguments.verb == "record":
        return record(arguments.folder, arguments.worlds, arguments.bags, arguments.jobs)
    return compare(arguments.folder, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
