# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A writer away from the threads that must not wait: what it loses is counted, and it ends in time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from remote_inference.base.background_writer import BackgroundWriter
from support.waiting import wait_until

DEADLINE_S = 30.0


class Disk:
    """Takes entries; one that is called bad fails, and while it is stuck every write waits."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self.asked = threading.Event()

    def write(self, entry: str) -> None:
        self.asked.set()
        self.answers.wait(DEADLINE_S)
        if "bad" in entry:
            raise OSError(28, "No space left on device")
        self.written.append(entry)


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.answers.set()


def make_writer(
    disk: Disk, *, waiting_max: int = 100, stops_at_failure: bool = False
) -> BackgroundWriter[str]:
    return BackgroundWriter(
        "test",
        disk.write,
        waiting_max,
        kind=lambda entry: entry.split("/")[0],
        stops_at_failure=stops_at_failure,
    )


def test_a_failed_write_costs_one_entry(disk: Disk):
    writer = make_writer(disk)
    for entry in ("a/1", "b/bad", "a/2"):
        writer.put(entry)
    assert writer.close(DEADLINE_S)
    assert disk.written == ["a/1", "a/2"]
    assert (writer.dropped, writer.dropped_of("b"), writer.dropped_of("a")) == (1, 1, 0)
    assert writer.failure is None


def test_a_writer_that_stops_at_a_failure_writes_nothing_after_it(disk: Disk):
    disk.answers.clear()
    writer = make_writer(disk, stops_at_failure=True)
    for entry in ("a/1", "b/bad", "a/2"):
        writer.put(entry)
    disk.answers.set()
    wait_until(lambda: writer.dropped == 2, "two entries dropped")
    writer.put("a/3")
    assert writer.close(DEADLINE_S)
    assert disk.written == ["a/1"]
    assert isinstance(writer.failure, OSError)
    assert (writer.dropped_of("a"), writer.dropped_of("b")) == (2, 1)


def test_entries_that_find_too_many_waiting_are_dropped(disk: Disk):
    disk.answers.clear()
    writer = make_writer(disk, waiting_max=1)
    writer.put("a/1")
    assert disk.asked.wait(DEADLINE_S)
    writer.put("a/2")
    writer.put("b/3")
    assert (writer.dropped, writer.dropped_of("b")) == (1, 1)
    disk.answers.set()
    assert writer.close(DEADLINE_S)
    assert disk.written == ["a/1", "a/2"]


@pytest.mark.parametrize("stops_at_failure", [False, True])
def test_closing_does_not_wait_for_a_stuck_disk(disk: Disk, stops_at_failure: bool):
    disk.answers.clear()
    writer = make_writer(disk, stops_at_failure=stops_at_failure)
    writer.put("a/1")
    assert disk.asked.wait(DEADLINE_S)
    writer.put("a/2")
    writer.put("b/3")
    assert not writer.close(0.05)
    assert (writer.dropped_of("a"), writer.dropped_of("b")) == (1, 1)
    writer.put("a/4")
    assert writer.dropped == 3
