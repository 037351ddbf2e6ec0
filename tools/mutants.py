# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Tests the tests: changes a module that decides in one place at a time; tells which changes no test notices.

make mutants ARGS="guard"
make mutants ARGS="guard playback --jobs 2"
make mutants ARGS="guard --tests test/robot/test_guard.py"    # while you write tests: fast

A change that nothing notices is a missing test, or it changes nothing: then `equivalent_mutants.yaml` says
why, by the function and the line's text. The exit code is 1 for one that is neither, and for an explanation
without its mutant. The checkout stays as it is: a changed module exists in the process alone that tries it.

By their sources (neither was run here), mutmut changes neither properties nor tables and constants of a
module and removes no calls, and cosmic-ray starts every test anew for each mutant. Here the tests run once to
learn which of them reach which statement. A mutant meets those that reach it and are quick, its module's own
first, in a fork that has imported pytest already.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from importlib.util import find_spec
from itertools import islice
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

# Here once, for all forks.
import hypothesis  # noqa: F401
import numpy as np  # noqa: F401
import pydantic  # noqa: F401
import pytest
import yaml
from markdown_table import make_table
from mutations import Mutant, find_mutants
from reached import FORK, Changed, Chosen, Reach, file_of, find_reach, run_tests

ROOT = Path(__file__).parents[1]
EXPLAINED = Path("tools", "equivalent_mutants.yaml")
QUICK_S = 0.1  # a test of another module's file that takes longer meets no mutant: it is no unit test
# Given to a mutant that does not end: processor time, which a busy machine does not shorten, or time to wait.
CPU_S, WALL_S = 20, 600.0
MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class Verdict:
    """What came of a module's mutants."""

    module: str
    mutants: int
    killed: int
    explained: int
    survived: int
    in_vain: int  # explanations


def meet(module: str, path: Path, mutant: Mutant, reach: Reach) -> None:
    """Let tests meet a mutant, in a process of its own, which ends with 0 when it survives."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    for descriptor in (1, 2):
        os.dup2(sys.stdout.fileno(), descriptor)
    sys.meta_path.insert(0, Changed(module, path, mutant.source))
    own, others = reach.of(module, mutant)
    quick = [test for test in others if reach.tests[test] < QUICK_S]
    for part in (own, quick):
        if part and run_tests(list(dict.fromkeys(map(file_of, part))), Chosen(part)) != pytest.ExitCode.OK:
            os._exit(1)
    os._exit(0)


def find_survivors(
    module: str, path: Path, mutants: Iterable[Mutant], reach: Reach, jobs: int
) -> Iterator[Mutant]:
    """Yield the mutants that no test notices."""
    running: dict[int, tuple[ForkProcess, Mutant, float]] = {}
    waiting = iter(mutants)
    while True:
        for mutant in islice(waiting, jobs - len(running)):
            process = FORK.Process(target=meet, args=(module, path, mutant, reach))
            process.start()
            running[process.sentinel] = (process, mutant, time.monotonic() + WALL_S)
        if not running:
            return
        ended = wait(list(running), timeout=1.0)
        for sentinel, (process, mutant, end_s) in list(running.items()):
            if time.monotonic() > end_s:
                process.kill()
            elif sentinel not in ended:
                continue
            process.join()
            del running[sentinel]
            if process.exitcode == 0:
                yield mutant


def main() -> int:
    keep_lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep_lines)
    parser.add_argument("modules", nargs="+", help="names of files of one room, for example guard")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the checkout (default: this one)")
    parser.add_argument("--tests", nargs="+", help="files (default: the room's that start no node)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time")
    arguments = parser.parse_args()
    os.chdir(root := arguments.root.absolute())
    use_source(root / "src")
    modules = dict(find_module(root / "src", name) for name in arguments.modules)
    explained = yaml.safe_load((root / EXPLAINED).read_text()) or {}
    reach = find_reach(modules, arguments.tests or [find_room(modules)])
    verdicts = []
    for module, path in modules.items():
        verdicts.append(judge(module, path, reach, explanations_of(path, explained), arguments.jobs))
    head = ("module", "mutants", "killed", "explained", "survived", "explained in vain")
    print(make_table(head, [tuple(map(str, astuple(verdict))) for verdict in verdicts]))
    return 1 if any(verdict.survived or verdict.in_vain for verdict in verdicts) else 0


def use_source(source: Path) -> None:
    """Import the package from here, and its messages from where they are installed."""
    installed = find_spec("remote_inference")
    sys.path.insert(0, str(source))
    import remote_inference  # noqa: PLC0415

    if installed is not None:
        remote_inference.__path__.extend(installed.submodule_search_locations or ())


def find_module(source: Path, name: str) -> tuple[str, Path]:
    paths = list((source / "remote_inference").rglob(f"{name}.py"))
    if len(paths) != 1:
        sys.exit(f"{name}: found {len(paths)} such files, expected one")
    return ".".join(paths[0].relative_to(source).with_suffix("").parts), paths[0]


def find_room(modules: Mapping[str, Path]) -> str:
    """Return the folder of the modules' tests."""
    rooms = {module.split(".")[1] for module in modules}
    if len(rooms) != 1:
        sys.exit(f"found modules of {', '.join(sorted(rooms))}, expected those of one room")
    return f"test/{rooms.pop()}"


def explanations_of(path: Path, explained: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return those of a module: the key is its file's name, with its folder where several have it."""
    return next((entries for key, entries in explained.items() if path.match(f"{key}.py")), ())


def judge(
    module: str, path: Path, reach: Reach, explanations: Iterable[Mapping[str, Any]], jobs: int
) -> Verdict:
    """Try the mutants of a module, print those that survive as they are found."""
    mutants = find_mutants(path.read_text())
    explained = {
        (entry["function"], entry["line"], becomes) for entry in explanations for becomes in entry["becomes"]
    }
    tried = [mutant for mutant in mutants if mutant.identity not in explained]
    survived = 0
    for mutant in find_survivors(module, path, tried, reach, jobs):
        survived += 1
        place = f"{path.relative_to(Path.cwd())}:{mutant.number}"
        print(f"{place}: survived\n{to_text(mutant.identity)}", flush=True)
    in_vain = explained - {mutant.identity for mutant in mutants}
    for identity in sorted(in_vain):
        print(f"{path.stem}: no mutant fits this explanation\n{to_text(identity)}")
    killed = len(tried) - survived
    print(f"{path.stem}: {survived} of {len(mutants)} mutants survived and are not explained", flush=True)
    return Verdict(path.stem, len(mutants), killed, len(mutants) - len(tried), survived, len(in_vain))


def to_text(identity: Iterable[str]) -> str:
    return "  function: {}\n  line: {}\n  becomes: {}".format(*identity)


if __name__ == "__main__":
    sys.exit(main())
