# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the hunt for flaky tests makes of the reports of its runs."""

from __future__ import annotations

import subprocess

import hunt_flakes
import pytest
from hunt_flakes import Records, add, end_all, find_flaky, to_page

from support.waiting import read_line

REPORT = """<testsuites><testsuite>
<testcase classname="test.nodes.test_arm" name="test_streams" time="{time}">{outcome}</testcase>
<testcase classname="test.nodes.test_arm" name="test_launches" time="0.0"><skipped message=""/></testcase>
<testcase classname="test.nodes.test_arm" name="test_holds" time="1.0"></testcase>
</testsuite></testsuites>"""
FAILURE = '<failure message="assert 1 == 2&#10;more lines">the trace</failure>'


def hunted() -> Records:
    records: Records = {}
    add(records, "kilted", REPORT.format(time=2.0, outcome=""))
    add(records, "kilted", REPORT.format(time=4.0, outcome=FAILURE))
    add(records, "jazzy", REPORT.format(time=3.0, outcome=""))
    return records


def test_runs_and_failures_are_counted_by_distribution_and_skipped_tests_are_not() -> None:
    records = hunted()
    assert set(records) == {
        (distro, f"test.nodes.test_arm::{test}")
        for distro in ("jazzy", "kilted")
        for test in ("test_streams", "test_holds")
    }
    streams = records["kilted", "test.nodes.test_arm::test_streams"]
    assert (streams.runs, streams.failures, streams.times_s) == (2, ["assert 1 == 2"], [2.0, 4.0])


def test_the_page_shows_what_failed_and_why() -> None:
    page = to_page(hunted())
    assert page.startswith("4 tests, 6 runs of a test, 1 that failed.")
    assert "| `test.nodes.test_arm::test_streams` | kilted | 2 | 1 | 3.0 | 4.0 |" in page
    assert "    assert 1 == 2\n" in page


def test_the_flaky_tests_of_a_build_are_found_in_its_log() -> None:
    log = ["4 passed", "flaky: test/nodes/test_arm.py::test_streams[a b]", "make: a flaky: line"]
    assert list(find_flaky(log)) == ["test/nodes/test_arm.py::test_streams[a b]"]


@pytest.mark.parametrize(
    "script",
    [
        "sleep 600 & echo started; wait",
        "trap '' INT; sleep 600 & echo started; wait",
        "(trap '' INT; echo started; sleep 600) & wait",  # what it started outlives it
    ],
)
def test_a_run_that_hangs_is_ended_with_all_that_it_started(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hunt_flakes, "END_TIMEOUT_S", 0.5)
    command = ["bash", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as run:
        assert read_line(run) == b"started\n"
        end_all(run)
        assert read_line(run) == b"", "nothing holds its output open"
