# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares the short benchmarks of another commit and of this checkout, in turns, as ratios.

Run `make bench-against REV=main`. The commit is checked out and built in the user's cache, once. The same
scripts measure both sides, so that their changes are not taken for the package's: this checkout's where the
commit's package can run them, else the commit's; where neither fit both, each side has its own. A rehearsal
finds out, and warms what the first run would pay for.

What seems worse is measured once more. Exits with 1 when a figure is worse than the limit in every block,
else with 2 when something did not run.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bench_figures import (
    Block,
    Comparison,
    Figures,
    compare,
    parse_capacity,
    parse_control,
    parse_peers,
    parse_request_cycle,
)

from remote_inference.base.errors import UserError
from remote_inference.tools.tables import Table, print_table

ROOT = Path(__file__).parents[1]
OUTPUT = ROOT / "build" / "bench_against"  # what each run wrote
BLOCKS_MIN = 3
LIMIT = 1.10
SETUP_TIMEOUT_S = 3600.0  # it may download 2 GB
RUN_TIMEOUT_S = 600.0
STOP_TIMEOUT_S = 60.0  # a benchmark stops several nodes, each in up to 20 s
GIT_TIMEOUT_S = 300.0
# What make has set for this checkout, and where the messages of its environment are.
NOT_INHERITED = ("AMENT_PREFIX_PATH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
COLUMNS = ("case", "REV", "here", "ratio", "spread", "every\nblock")
METHOD = """\
Times: less is better. Ratio: here to REV, the median of the blocks' ratios.
Spread: the least and the most of them."""


@dataclass(frozen=True)
class Benchmark:
    """A script, its arguments in a block and in the rehearsal, and how to read the file that it leaves."""

    script: str
    arguments: str
    rehearsal: str
    parse: Callable[[str], Figures]
    result: str = "stdout.txt"

    def read(self, folder: Path) -> Figures:
        """Return the figures of a run. Raises UserError."""
        try:
            figures = self.parse((folder / self.result).read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise UserError(f"{self.result} cannot be read: {type(error).__name__}: {error}") from None
        if not figures:
            raise UserError(f"{self.result}: found no figure, expected a row for each case")
        for (title, row), value in figures.items():
            if not (math.isfinite(value) and value > 0.0):
                raise UserError(f"{title}, {row}: found {value:g}, expected a positive number")
        return figures


CONTROL = "--scenarios idle network --rates 100 --json result.json --seconds"
CAPACITY = "--policies hold --sessions 8 --out . --seconds"
BENCHMARKS = (
    # The robot's own measure is of its last 100 cycles.
    Benchmark("request_cycle.py", "--cycles 100", "--cycles 8 --case 1", parse_request_cycle),
    Benchmark("peers.py", "--cycles 140", "--cycles 14", parse_peers),
    Benchmark("control_jitter.py", f"{CONTROL} 20", f"{CONTROL} 1", parse_control, "result.json"),
    Benchmark("capacity.py", f"{CAPACITY} 5", f"{CAPACITY} 1", parse_capacity, "capacity.json"),
)


@dataclass(frozen=True)
class Side:
    """A checkout and the environment in which its package is installed."""

    name: str
    root: Path
    python: Path


# Runs a benchmark with arguments, by the scripts of a checkout in a side's environment; named for its output.
Measure: TypeAlias = "Callable[[Benchmark, str, Path, Side, str], Figures]"


def run(benchmark: Benchmark, arguments: str, scripts: Path, side: Side, name: str) -> Figures:
    """Run a benchmark; return its figures. Raises UserError."""
    script = scripts / "benchmarks" / benchmark.script
    folder = OUTPUT / f"{name} {side.name} {script.stem}".replace(" ", "_")
    folder.mkdir(parents=True)
    try:
        if not script.exists():
            raise UserError("found no such script")
        with (folder / "stdout.txt").open("wb") as output, (folder / "stderr.txt").open("wb") as errors:
            command: list[str | Path] = [side.python, script, *arguments.split()]
            code = execute(command, folder, RUN_TIMEOUT_S, (output.fileno(), errors.fileno()))
        if code:
            words = (folder / "stderr.txt").read_text(encoding="utf-8", errors="replace").strip()
            raise UserError(f"exit code {code}: {words.rpartition(chr(10))[2]} (more in {folder})")
        return benchmark.read(folder)
    except UserError as error:
        raise UserError(f"{benchmark.script}, {name}, {side.name}: {error}") from None


def execute(command: Sequence[str | Path], folder: Path, timeout_s: float, outputs: tuple[int, int]) -> int:
    """Run a command, whose output goes to two descriptors; return its exit code. Raises UserError."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={name: value for name, value in os.environ.items() if name not in NOT_INHERITED},
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"{command[0]} cannot be started: {error}") from None
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise UserError(f"did not end within {timeout_s:g} s") from None
    finally:
        if process.poll() is None:
            process.terminate()  # a benchmark stops its nodes then
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def git(*words: str) -> str:
    """Return what git prints about this checkout. Raises UserError."""
    command = ["git", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"git {words[0]}: {error}") from None
    if done.returncode != 0:
        raise UserError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def find_commit(rev: str) -> str:
    """Return the hash of a commit. Raises UserError.

    A clone has a branch of its own only of what was checked out there: another one is its origin's.
    """
    errors: list[UserError] = []
    for name in (rev, f"origin/{rev}"):
        try:
            return git("rev-parse", "--verify", f"{name}^{{commit}}")
        except UserError as error:  # noqa: PERF203  either may be it
            errors.append(error)
    raise UserError(f"REV: found {rev!r}, expected a branch, tag or hash of a commit ({errors[0]})")


def build(commit: str) -> Side:
    """Check a commit out in the cache and build it there, once. Raises UserError."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root, distro = cache / "remote_inference" / "bench" / commit, Path(sys.prefix).name
    if not (root / ".git").exists():
        # --force: git still knows a worktree whose folder was removed by hand.
        git("worktree", "add", "--force", "--detach", str(root), commit)
    say(f"building REV in {root}, once (2 GB; git worktree remove --force {root} frees them)")
    # By the Python that this checkout was built with.
    command = ["make", "--no-print-directory", "setup", f"DISTRO={distro}", f"PYTHON={sys.executable}"]
    if code := execute(command, root, SETUP_TIMEOUT_S, (sys.stderr.fileno(), sys.stderr.fileno())):
        raise UserError(f"REV: make setup in {root} ended with exit code {code}")
    peers = root / ".venv" / "peers"  # where REV's own peers.py looks: both sides meet the same openpi
    if not peers.exists():
        peers.unlink(missing_ok=True)
        peers.symlink_to(ROOT / ".venv" / "peers")
    return Side("REV", root, root / ".venv" / distro / "bin" / "python")


def choose_scripts(benchmark: Benchmark, rev: Side, here: Side, measure: Measure) -> tuple[Path, Path]:
    """Return the checkouts whose scripts measure REV and here: the first that can. Raises UserError."""
    plans = {
        "by this checkout's script": (here.root, here.root),
        "by REV's script": (rev.root, rev.root),
        "each side by its own script, whose differences are in the ratios": (rev.root, here.root),
    }
    reasons: list[str] = []
    for plan, roots in plans.items():
        name = f"rehearsal {len(reasons) + 1}"
        try:
            for side, root in zip((rev, here), roots, strict=True):
                measure(benchmark, benchmark.rehearsal, root, side, name)
        except UserError as error:
            reasons.append(str(error))
        else:
            say("\n  because of ".join([f"{benchmark.script}: {plan}", *reasons]))
            return roots
    raise UserError(reasons[-1])


def order(block: int, rev: Side, here: Side) -> tuple[Side, Side]:
    """Return who goes first in a block: they swap, so that a slow drift of the machine cancels."""
    return (rev, here) if block % 2 else (here, rev)


def measure_all(
    rev: Side, here: Side, blocks: int, measure: Measure, limit: float = LIMIT
) -> tuple[dict[str, list[Block]], dict[str, str]]:
    """Run all benchmarks in turns; return the blocks of each script, and why others have failed.

    What is worse then is measured as often again: of fifty figures, a machine's moods move one in each of
    three blocks now and then.
    """
    scripts: dict[str, tuple[Path, Path]] = {}
    results: dict[str, list[Block]] = {}
    failures: dict[str, str] = {}
    doubtful: set[str] = set()
    for block in range(2 * blocks + 1):  # the first is the rehearsal
        if block == blocks + 1:
            doubtful = {name for name, taken in results.items() if is_worse(taken, limit)}
        for benchmark in (each for each in BENCHMARKS if each.script not in failures):
            name = benchmark.script
            if block > blocks and name not in doubtful:
                continue
            try:
                if block == 0:
                    scripts[name], results[name] = choose_scripts(benchmark, rev, here, measure), []
                    continue
                taken = {}
                for side in order(block, rev, here):
                    again = ", again, as it was worse" if block > blocks else ""
                    say(f"block {block} of {2 * blocks if again else blocks}: {name}, {side.name}{again}")
                    root = scripts[name][side is here]
                    taken[side.name] = measure(benchmark, benchmark.arguments, root, side, f"block {block}")
                results[name].append((taken[rev.name], taken[here.name]))
            except UserError as error:
                failures[name] = str(error)
                results.pop(name, None)
    return results, failures


def is_worse(blocks: Sequence[Block], limit: float) -> bool:
    """Return whether any figure is worse than the limit in every block."""
    return any(each.mark(limit).startswith(">") for each in compare(blocks)[0])


def report(results: Mapping[str, Sequence[Block]], failures: Mapping[str, str], limit: float) -> int:
    """Print the tables and what could not be compared; return the exit code."""
    failed = list(failures.values())
    found: list[Comparison] = []
    for script, blocks in results.items():
        comparisons, missing = compare(blocks)
        found += comparisons
        failed += [f"{script}: not on both sides: {title}, {row}" for title, row in missing]
    for title in dict.fromkeys(each.figure[0] for each in found):
        print()
        rows = [each.row(limit) for each in found if each.figure[0] == title]
        print_table(Table(title, COLUMNS, rows, COLUMNS[1:4]))
    marks = [each.mark(limit) for each in found]
    slower, worse = sum(map(bool, marks)), sum(mark.startswith(">") for mark in marks)
    print(f"\n{len(found)} figures. Slower in every block: {slower}; by more than {limit:.2f}: {worse}.")
    for reason in failed:
        print(f"Not compared: {reason}")
    return 1 if worse else 2 if failed else 0


def say(text: str) -> None:
    """Print progress, which is no result."""
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rev", metavar="REV", help="branch, tag or commit to compare with")
    parser.add_argument("--blocks", type=int, default=BLOCKS_MIN, help="more make a mark surer")
    parser.add_argument("--limit", type=float, default=LIMIT, help="of the ratio (%(default)s)")
    arguments = parser.parse_args(words)
    if arguments.blocks < BLOCKS_MIN:
        parser.error(f"--blocks: found {arguments.blocks}, expected {BLOCKS_MIN} or more")
    try:
        commit, head = find_commit(arguments.rev), find_commit("HEAD")
        changed = " with changes" if git("status", "--porcelain") else ""
        rev, here = build(commit), Side("here", ROOT, Path(sys.executable))
        shutil.rmtree(OUTPUT, ignore_errors=True)
        load = f"{os.cpu_count()} processors, load average before the run: {os.getloadavg()[0]:.1f}"
        results, failures = measure_all(rev, here, arguments.blocks, run, arguments.limit)
    except UserError as error:
        say(f"bench-against: {error}")
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    print(f"REV is {arguments.rev} ({commit[:10]}), here is {head[:10]}{changed}. {arguments.blocks} blocks.")
    if again := [name for name, blocks in results.items() if len(blocks) > arguments.blocks]:
        print(f"Twice as many of what was worse at first: {', '.join(again)}.")
    print(load, METHOD, sep="\n")
    return report(results, failures, arguments.limit)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # no benchmark may outlive this process
    sys.exit(main())
