# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the hunt for flaky tests makes of the reports of its runs."""

from __future__ import annotations

from hunt_flakes import Records, add, find_flaky, to_page

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
