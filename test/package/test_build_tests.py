# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""How the build judges its tests: what fails once is told, what fails twice refuses the build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import process_state, wait_until

SCRIPT = Path(__file__).parents[2] / "tools" / "build_tests.sh"
MAKEFILE = f"""\
JOBS ?= 2
test:
\t@{sys.executable} -m pytest -q -n $(JOBS) $(ARGS)
broken:
\t@echo no compiler; exit 1
"""
BUILD = """\
set -euo pipefail
source {script}
run_tests "-q {arguments}" {target}
echo "the next step"
tell_flaky
"""
# Fails until its own note of an earlier run is there.
FLAKY_TEST = """\
import pytest
from pathlib import Path

@pytest.mark.parametrize("number", range({count}))
def test_flaky(number):
    note = Path(__file__).with_name(f"note_{{number}}")
    seen = note.exists()
    note.touch()
    assert seen, "the first time"

def test_good():
    (runs := Path(__file__).with_name("runs")).open("a").write("x")
"""


def build(
    folder: Path, tests: str, target: str = "test", arguments: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a build of one step in a folder."""
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "test_toy.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return run(folder, BUILD.format(script=SCRIPT, target=target, arguments=arguments))


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", program], cwd=folder, capture_output=True, text=True, timeout=120.0, check=False
    )


def test_a_test_that_passes_the_second_time_is_told_and_the_build_passes(tmp_path: Path) -> None:
    ended = build(tmp_path, FLAKY_TEST.format(count=1))
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.splitlines()[-2:] == ["the next step", "flaky: test_toy.py::test_flaky[0]"]
    assert "the first time" in ended.stdout
    assert (tmp_path / "runs").read_text() == "x", "what passed does not run again"
    report = (tmp_path / "build" / "reports" / "test.xml").read_text()
    assert 'name="test_good"' in report, "the report is of the run of all tests"


def test_a_test_that_fails_twice_refuses_the_build(tmp_path: Path) -> None:
    ended = build(tmp_path, "def test_wrong():\n    assert False, 'wrong'\n")
    assert ended.returncode != 0
    assert ended.stdout.count("wrong'") >= 2
    assert "the next step" not in ended.stdout


def test_many_flaky_tests_refuse_the_build(tmp_path: Path) -> None:
    ended = build(tmp_path, FLAKY_TEST.format(count=4))
    assert ended.returncode == 1
    assert ended.stdout.splitlines()[-1] == "found 4 flaky tests, expected at most 3"


@pytest.mark.parametrize(
    ("tests", "target", "arguments"),
    [
        ("def test_good(): pass\n", "broken", ""),
        ("import nowhere\n", "test", ""),
        ("def test_good(): pass\n", "test", "-k nothing_of_this_name"),
    ],
    ids=["a step before the tests fails", "a test cannot be imported", "no test is chosen"],
)
def test_a_run_that_ends_for_another_reason_refuses_the_build(
    tests: str, target: str, arguments: str, tmp_path: Path
) -> None:
    ended = build(tmp_path, tests, target, arguments)
    assert ended.returncode != 0
    assert "the next step" not in ended.stdout


def test_a_quiet_build_tells_nothing(tmp_path: Path) -> None:
    ended = build(tmp_path, "def test_good(): pass\n")
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1] == "the next step"


AHEAD = """\
set -euo pipefail
source {script}
make_ahead broken later
{step}
await_ahead
echo "the next step"
"""
MAKEFILE_AHEAD = """\
.PHONY: broken later
broken:
\t@echo no such package; exit 1
later:
\t@echo $$$$ >process; nice >niceness; {later}
"""


def build_ahead(folder: Path, later: str, step: str) -> subprocess.CompletedProcess[str]:
    (folder / "Makefile").write_text(MAKEFILE_AHEAD.format(later=later))
    return run(folder, AHEAD.format(script=SCRIPT, step=step))


def test_what_is_made_ahead_gives_way_and_its_failures_are_shown(tmp_path: Path) -> None:
    ended = build_ahead(tmp_path, "echo built", "echo a step meanwhile")
    assert ended.returncode == 0, ended.stderr
    first, code, *shown, last = ended.stdout.splitlines()
    assert (first, code, last) == ("a step meanwhile", "made ahead, exit code 2:", "the next step")
    assert "no such package" in shown
    assert "built" in shown, "a target that fails prevents no other"
    assert (tmp_path / "niceness").read_text() == "10\n"


def test_what_is_made_ahead_ends_with_a_build_that_fails(tmp_path: Path) -> None:
    step = "until [ -s niceness ]; do sleep 0.05; done; false"
    ended = build_ahead(tmp_path, "exec sleep 100", step)
    assert ended.returncode == 1
    process = int((tmp_path / "process").read_text())
    wait_until(lambda: not process_state(process), "the end of what was made ahead")
