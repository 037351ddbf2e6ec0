# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Feeds spoiled inputs to everything that reads bytes from outside, in processes of their own.

make fuzz ARGS="--inputs 1000000 --seed 7 --target chunk --target observation"

An input depends only on the seed, the target and the inputs before it in the same process: a run can be
repeated. An input whose error took a way through the code that no other took is spoiled further, as are the
seeds. An input that breaks a promise is made as small as it gets and kept in test/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection, wait
from random import Random
from typing import Any

import fuzz_documents
import fuzz_explained
import fuzz_files
import fuzz_gr00t
import fuzz_lerobot
import fuzz_openpi
import fuzz_robots
import fuzz_weights
import fuzz_wire
from fuzz_target import CORPUS, Place, Signature, Target, try_input
from mutation import MAX_INPUT_BYTES

TARGETS = {
    target.name: target
    for module in (
        fuzz_wire,
        fuzz_openpi,
        fuzz_gr00t,
        fuzz_lerobot,
        fuzz_documents,
        fuzz_robots,
        fuzz_files,
        fuzz_explained,
        fuzz_weights,
    )
    for target in module.TARGETS
}
if find_spec("onnx"):  # an extra
    import fuzz_onnx

    TARGETS |= {target.name: target for target in fuzz_onnx.TARGETS}
MAX_ADDRESS_SPACE_BYTES = 4 << 30  # beyond what a process has when it begins: a runaway ends in MemoryError
HANG_S = 60.0  # without a next input
POOL_MAX = 300  # inputs that are spoiled further
FINDINGS_MAX = 5  # of one process, which ends then
TRIES_TO_SHRINK = 500
SHRINK_S = 20.0
REPORT_PERIOD_S = 0.5
PROGRESS_S = 30.0  # between two lines that say how far a run is


@dataclass(frozen=True)
class Task:
    """Some inputs of one target, for one process."""

    target: str
    seed: str
    inputs: int


@dataclass
class Result:
    """What the processes of one target found."""

    inputs: int = 0
    wall_s: float = 0.0
    refused: int = 0  # inputs that ended in a documented error, or in any other
    ways: set[Signature] = field(default_factory=set)
    findings: list[tuple[str, bytes]] = field(default_factory=list)  # broken promise and input

    def add(self, other: Result) -> None:
        self.inputs += other.inputs
        self.wall_s += other.wall_s
        self.refused += other.refused
        self.ways |= other.ways
        self.findings += other.findings


def inputs_of(target: Target, seed: str, pool: list[bytes]) -> Iterator[bytes]:
    """Yield spoiled inputs for ever; the caller may add to the pool."""
    random = Random(seed)
    while True:
        yield target.mutate(random, random.choice(pool), pool)


def fuzz(task: Task, show: Any = None) -> Result:
    """Run a task in this process. show: takes each input before it is tried."""
    target, result, begin_s = TARGETS[task.target], Result(), time.monotonic()
    seeds, places = target.all_seeds(), set[Place]()
    pool = list(seeds)
    spoiled = inputs_of(target, task.seed, pool)
    while result.inputs < task.inputs:
        data = seeds[result.inputs] if result.inputs < len(seeds) else next(spoiled)
        if show is not None:
            show(data)
        outcome = try_input(target, data)
        result.inputs += 1
        result.refused += bool(outcome.signature)
        if outcome.problem and outcome.place not in places:
            places.add(outcome.place)
            result.findings.append((outcome.problem, _shrink(target, data, outcome.place)))
            if len(result.findings) == FINDINGS_MAX:
                break
        if outcome.signature not in result.ways:
            result.ways.add(outcome.signature)
            if len(pool) < POOL_MAX:
                pool.append(data)
    result.wall_s = time.monotonic() - begin_s
    return result


def _shrink(target: Target, data: bytes, place: Place) -> bytes:
    """Return a shorter input that breaks a promise in the same place."""
    tries, size, end_s = 0, len(data) // 2, time.monotonic() + SHRINK_S
    while size:
        begin = 0
        while begin < len(data):
            if tries == TRIES_TO_SHRINK or time.monotonic() > end_s:
                return data
            shorter = data[:begin] + data[begin + size :]
            outcome = try_input(target, shorter)
            tries += 1
            if outcome.problem and outcome.place == place:
                data = shorter
            else:
                begin += size
        size //= 2
    return data


# -- processes -----------------------------------------------------------------------------------------------


class _Slot:
    """The input that a process tries, where its parent can read it when the process has died."""

    def __init__(self, context: Any) -> None:
        self._data = context.RawArray("B", MAX_INPUT_BYTES)
        self._size = context.RawValue("I", 0)
        self.count = context.RawValue("Q", 0)

    def show(self, data: bytes) -> None:
        memoryview(self._data).cast("B")[: len(data)] = data
        self._size.value = len(data)
        self.count.value += 1

    def read(self) -> bytes:
        return bytes(self._data[: self._size.value])


@dataclass
class _Worker:
    process: Any
    results: Connection
    slot: _Slot
    task: Task
    begun_s: float
    count: int = 0  # of the slot, when it last changed
    changed_s: float = 0.0


def _work(task: Task, slot: _Slot, results: Connection) -> None:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
    limit = used + MAX_ADDRESS_SPACE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries complain of every damaged picture there
    results.send(fuzz(task, slot.show))


def run(
    tasks: Sequence[Task], jobs: int, results: dict[str, Result], show: Callable[[str], object] = print
) -> None:
    """Run the tasks, `jobs` at a time, and add to the results; a process that dies or hangs is a finding.

    show: takes a line of progress now and then.
    """
    context = multiprocessing.get_context("forkserver")  # imports everything once, and forks without threads
    context.set_forkserver_preload([module.__name__ for module in (fuzz_wire, fuzz_documents, fuzz_files)])
    waiting, running = list(tasks), []
    results |= {task.target: Result() for task in tasks}
    next_s = time.monotonic() + PROGRESS_S
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(_start(context, waiting.pop(0)))
            wait([worker.results for worker in running], REPORT_PERIOD_S)
            running = [worker for worker in running if not _is_done(worker, results[worker.task.target])]
            if time.monotonic() >= next_s:
                next_s += PROGRESS_S
                show(_progress(tasks, results, running))
    finally:
        for worker in running:  # interrupted: what they have tried counts
            worker.process.kill()
            worker.process.join()
            wall_s = time.monotonic() - worker.begun_s
            results[worker.task.target].add(Result(worker.slot.count.value, wall_s))


def _progress(tasks: Sequence[Task], results: dict[str, Result], running: Sequence[_Worker]) -> str:
    done = sum(result.inputs for result in results.values()) + sum(w.slot.count.value for w in running)
    found = sum(len(result.findings) for result in results.values())
    return f"{done} of {sum(task.inputs for task in tasks)} inputs, {found} findings"


def _start(context: Any, task: Task) -> _Worker:
    here, there = context.Pipe(duplex=False)
    slot = _Slot(context)
    process = context.Process(target=_work, args=(task, slot, there))
    process.start()
    there.close()
    now_s = time.monotonic()
    return _Worker(process, here, slot, task, now_s, changed_s=now_s)


def _is_done(worker: _Worker, result: Result) -> bool:
    if worker.results.poll():
        try:
            result.add(worker.results.recv())
        except EOFError:
            worker.process.join()
            _blame(worker, result, f"killed its process (exit code {worker.process.exitcode})")
        worker.process.join()
        return True
    now_s = time.monotonic()
    if worker.slot.count.value != worker.count:
        worker.count, worker.changed_s = worker.slot.count.value, now_s
    if now_s - worker.changed_s < HANG_S:
        return False
    worker.process.kill()
    worker.process.join()
    _blame(worker, result, f"did not end within {HANG_S:g} s")
    return True


def _blame(worker: _Worker, result: Result, problem: str) -> None:
    count = worker.slot.count.value
    result.add(
        Result(count, time.monotonic() - worker.begun_s, findings=[(problem, worker.slot.read())])
        if count
        else Result(findings=[(f"{problem} before the first input", b"")])
    )


# -- report --------------------------------------------------------------------------------------------------


def plan(names: Sequence[str], inputs: int, seed: str, per_task: int = 40_000) -> list[Task]:
    """Return tasks with at least `inputs` inputs in all, shared out among the targets."""
    total = sum(TARGETS[name].share for name in names)
    tasks = []
    for name in names:
        left, number = -int(-inputs * TARGETS[name].share // total), 0
        while left > 0:
            tasks.append(Task(name, f"{seed}/{name}/{number}", min(left, per_task)))
            left, number = left - per_task, number + 1
    return tasks


def keep(target: str, data: bytes) -> str:
    """Store an input in the corpus, and return its path in the repository."""
    path = CORPUS / target / hashlib.sha256(data).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path.relative_to(CORPUS.parents[2]))


def table(results: dict[str, Result]) -> str:
    head = f"{'target':<22}{'inputs':>10}{'refused':>10}{'ways':>7}{'inputs/s':>10}{'s':>8}{'findings':>10}"
    lines = [head]
    for name, result in results.items():
        rate = result.inputs / result.wall_s if result.wall_s else 0.0
        lines.append(
            f"{name:<22}{result.inputs:>10}{result.refused:>10}{len(result.ways):>7}{rate:>10.0f}"
            f"{result.wall_s:>8.1f}{len(result.findings):>10}"
        )
    total = sum(result.inputs for result in results.values())
    found = sum(len(result.findings) for result in results.values())
    refused = sum(result.refused for result in results.values())
    lines.append(f"{'total':<22}{total:>10}{refused:>10}{'':>25}{found:>10}")
    return "\n".join(lines)


def main() -> int:
    """Fuzz, print a table and return 1 when a promise was broken."""
    parser = argparse.ArgumentParser(description="fuzz everything that reads bytes from outside")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="inputs in all (%(default)s)")
    parser.add_argument("--seed", default=str(time.time_ns()), help="what to repeat a run with")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (%(default)s)")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only these, all by default")
    arguments = parser.parse_args()
    names = arguments.target or list(TARGETS)
    print(f"{len(names)} targets, seed {arguments.seed}, {arguments.jobs} processes", flush=True)
    begin_s = time.monotonic()
    tasks = plan(names, arguments.inputs, arguments.seed)
    results: dict[str, Result] = {}
    with (
        suppress(KeyboardInterrupt),
        tempfile.TemporaryDirectory(prefix="fuzz_") as folder,
    ):  # forked processes leave theirs behind
        os.environ["TMPDIR"] = folder
        run(tasks, arguments.jobs, results, partial(print, flush=True))
    print(table(results))
    print(f"{time.monotonic() - begin_s:.0f} s")
    broken = 0
    for name, result in results.items():
        for problem, data in result.findings:
            broken += 1
            print(f"{name}: {problem}: kept as {keep(name, data)}")
    if broken:
        return 1
    if sum(result.inputs for result in results.values()) < sum(task.inputs for task in tasks):
        print("interrupted before every input was tried")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
