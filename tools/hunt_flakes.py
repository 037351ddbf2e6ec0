# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that start processes again and again on a busy machine; tells which fail once in a while.

python3 tools/hunt_flakes.py --out runs/flakes
python3 tools/hunt_flakes.py --out runs/flakes --distro kilted --runs 40 test/system/test_operator_verbs.py
python3 tools/hunt_flakes.py --out runs/flakes --log build.log    # those that a build called flaky

The folder holds the output and the report (JUnit's XML) of every run and `flakes.md`, which is written anew
after each. The exit code is 1 when a test has failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from markdown_table import make_table

ROOT = Path(__file__).parents[1]
SUITES = ("system", "faults", "robot/nodes", "server/nodes", "tools", "transport", "newcomer")
DISTROS = sorted(
    path.stem for path in ROOT.glob("requirements/*.txt") if f"ros-{path.stem}-rclpy" in path.read_text()
)
RUNS = 8
JOBS = 3
BUSY_PROCESSES = 2
RUN_TIMEOUT_S = 3600.0
END_TIMEOUT_S = 60.0
FLAKY = "flaky: "  # in a build's log, see tools/build_tests.sh
SHOWN_SLOW = 20


@dataclass
class Record:
    """What one test did on one distribution."""

    runs: int = 0
    failures: list[str] = field(default_factory=list)  # first line of each
    times_s: list[float] = field(default_factory=list)


Records = dict[tuple[str, str], Record]  # by distribution and name of the test


def main() -> int:
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # what it has started ends, too
    arguments = parse_arguments()
    chosen = arguments.tests or [f"test/{suite}" for suite in SUITES]
    if arguments.log is not None and not (chosen := list(find_flaky(arguments.log.read_text().splitlines()))):
        print(f"{arguments.log}: found no line that begins with '{FLAKY}'")
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    records: Records = {}
    failed = 0
    with busy_processes(arguments.busy):
        for number in range(arguments.runs):
            for distro in arguments.distro or DISTROS:
                report = arguments.out / f"{distro}_{number}.xml"
                if not run(chosen, distro, arguments.jobs, report):
                    return 2
                add(records, distro, report.read_text())
                page = arguments.out / "flakes.md"
                page.write_text(to_page(records))
                failed = sum(bool(record.failures) for record in records.values())
                print(f"run {number + 1} of {arguments.runs} on {distro}: {failed} flaky, {page}", flush=True)
    return 1 if failed else 0


def parse_arguments() -> argparse.Namespace:
    keep_lines = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=keep_lines)
    parser.add_argument("tests", nargs="*", help="files or names (default: all that start processes)")
    parser.add_argument("--out", type=Path, required=True, help="folder for logs, reports and flakes.md")
    parser.add_argument("--runs", type=int, default=RUNS, help=f"of each distribution (default {RUNS})")
    parser.add_argument("--distro", action="append", choices=DISTROS, help="may be given twice")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"test processes at a time (default {JOBS})")
    parser.add_argument(
        "--busy",
        type=int,
        default=BUSY_PROCESSES,
        help=f"processes that compute beside the tests (default {BUSY_PROCESSES})",
    )
    parser.add_argument("--log", type=Path, help=f"a build's log: only the tests behind its '{FLAKY}'")
    return parser.parse_args()


def find_flaky(lines: Iterable[str]) -> Iterator[str]:
    """Yield the names of the tests that a build called flaky."""
    for line in lines:
        if line.startswith(FLAKY):
            yield line.removeprefix(FLAKY).strip()


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processes that compute without end beside the block."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def run(chosen: Sequence[str], distro: str, jobs: int, report: Path) -> bool:
    """Run the tests once; return whether they ran, whatever came of them."""
    report.unlink(missing_ok=True)
    options = f"-q --junitxml={shlex.quote(str(report.absolute()))}"
    arguments = f"ARGS={shlex.join(chosen)} {options}"
    command = ["make", "test", f"DISTRO={distro}", f"JOBS={jobs}", arguments]
    log = report.with_suffix(".log")
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output, start_new_session=True) as made,
    ):
        try:
            made.wait(RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            print(f"{shlex.join(command)} has not ended after {RUN_TIMEOUT_S:g} s", file=sys.stderr)
        finally:
            end_all(made)
    if not report.exists():
        print(f"{shlex.join(command)} wrote no report: see {log}", file=sys.stderr)
        return False
    return True


def end_all(made: subprocess.Popen[bytes]) -> None:
    """End a program and what it has started, as a Ctrl-C does; nothing of it runs beside the next run."""
    if made.poll() is None:
        os.killpg(made.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            made.wait(END_TIMEOUT_S)
    with suppress(ProcessLookupError):  # what it started may outlive it
        os.killpg(made.pid, signal.SIGKILL)
    made.wait(END_TIMEOUT_S)


def add(records: Records, distro: str, report: str) -> None:
    """Add a run's report, JUnit's XML, to the records."""
    for case in ElementTree.fromstring(report).iter("testcase"):
        if case.find("skipped") is not None:
            continue
        name = f"{case.get('classname')}::{case.get('name')}"
        record = records.setdefault((distro, name), Record())
        record.runs += 1
        record.times_s.append(float(case.get("time", "0")))
        for kind in ("failure", "error"):
            if (failure := case.find(kind)) is not None:
                record.failures.append((failure.get("message") or kind).splitlines()[0])


def to_page(records: Records) -> str:
    """Return the table of the tests that failed, the reasons, and the slowest of all."""
    flaky = sorted(
        ((key, record) for key, record in records.items() if record.failures),
        key=lambda item: -len(item[1].failures),
    )
    slow = sorted(records.items(), key=lambda item: -statistics.median(item[1].times_s))[:SHOWN_SLOW]
    head = ("test", "distribution", "runs", "failures", "seconds (median)", "seconds (most)")
    parts = [
        f"{len(records)} tests, {sum(record.runs for record in records.values())} runs of a test, "
        f"{len(flaky)} that failed.",
        make_table(head, [_to_row(*item) for item in flaky]),
        *(
            f"`{name}`, {distro}:\n\n"
            + "\n".join(f"    {reason}" for reason in dict.fromkeys(record.failures))
            for (distro, name), record in flaky
        ),
        f"The {len(slow)} slowest:",
        make_table(head, [_to_row(*item) for item in slow]),
    ]
    return "\n\n".join(parts) + "\n"


def _to_row(key: tuple[str, str], record: Record) -> tuple[str, ...]:
    distro, name = key
    return (
        f"`{name}`",
        distro,
        str(record.runs),
        str(len(record.failures)),
        f"{statistics.median(record.times_s):.1f}",
        f"{max(record.times_s):.1f}",
    )


if __name__ == "__main__":
    sys.exit(main())
