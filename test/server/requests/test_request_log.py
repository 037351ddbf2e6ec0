# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The request log: one JSON line per request of one schema, and a slow or broken disk blocks nobody."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from remote_inference.server.requests import request_log
from remote_inference.server.requests.request_log import DESCRIPTIONS, RequestLog, RequestRecord
from support.waiting import wait_until

RECORD = RequestRecord(
    session_id="s1",
    robot="/robot_1",
    client="/robot_1/remote_inference",
    seq_id=7,
    episode_id=2,
    policy_version="f1@3",
    batch_size=3,
    queue_wait_ms=1.5,
    inference_ms=20.25,
    staleness_ms=21.75,
    slack_ms=-40.5,
    capture_skew_ms=12.5,
    superseded=1,
    tags={"site": "lab_2"},
)


@pytest.fixture
def full_pipe(tmp_path: Path) -> Iterator[Path]:
    """Return a named pipe whose buffer is full and that nobody empties: writing to it blocks."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, bytes(4_096))
    yield pipe
    os.close(writer)
    os.close(reader)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_line_holds_what_the_schema_says_in_its_order(tmp_path: Path):
    log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", "abc")
    log.write(RECORD)
    log.close()
    (line,) = lines(tmp_path / "requests.jsonl")
    assert list(line) == list(DESCRIPTIONS)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {"server": "/policy_server", "instance": "abc", **vars(RECORD)}
    assert {key: type(value) for key, value in line.items()} == {
        **dict.fromkeys(("server", "instance", "session_id", "robot", "client", "policy_version"), str),
        **dict.fromkeys(("status", "outcome"), str),
        **dict.fromkeys(("seq_id", "episode_id", "batch_size", "superseded"), int),
        **dict.fromkeys(("queue_wait_ms", "inference_ms", "staleness_ms"), float),
        **dict.fromkeys(("slack_ms", "capture_skew_ms"), float),
        "tags": dict,
    }


def test_units_are_in_the_names_and_in_the_descriptions():
    for name, description in DESCRIPTIONS.items():
        assert name.endswith("_ms") == ("[ms]" in description), name


def test_an_outcome_with_line_breaks_stays_one_line(tmp_path: Path):
    log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", "abc")
    log.write(RequestRecord("s1", "/r", "/r/n", status="error", outcome="two\nlines"))
    log.close()
    assert [line["outcome"] for line in lines(tmp_path / "requests.jsonl")] == ["two\nlines"]


def test_a_later_server_appends(tmp_path: Path):
    for instance in ("a", "b"):
        log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", instance)
        log.write(RECORD)
        log.close()
    assert [line["instance"] for line in lines(tmp_path / "requests.jsonl")] == ["a", "b"]


def test_a_full_file_is_put_aside_and_the_oldest_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_log, "MAX_FILE_BYTES", 1_000)
    log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", "abc")
    for _ in range(100):
        log.write(RECORD)
    log.close()
    files = {path.name for path in tmp_path.iterdir()}
    assert files == {
        "requests.jsonl",
        *(f"requests.jsonl.{number}" for number in range(1, request_log.OLD_FILES + 1)),
    }
    assert all(path.stat().st_size <= 1_000 for path in tmp_path.iterdir())
    assert log.dropped == 0


def test_a_disk_that_hangs_drops_lines_and_blocks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A named pipe that nobody empties is such a disk: writing to it blocks once its buffer is full."""
    monkeypatch.setattr(request_log, "MAX_WAITING", 10)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    log = RequestLog(pipe, "/policy_server", "abc")
    sent = 5_000
    writer = threading.Thread(target=lambda: [log.write(RECORD) for _ in range(sent)], daemon=True)
    writer.start()
    writer.join(30.0)
    assert not writer.is_alive()
    dropped = log.dropped
    assert 0 < dropped < sent
    got = bytearray()
    closer = threading.Thread(target=log.close)
    closer.start()
    while closer.is_alive() or not got.endswith(b"\n"):
        if select.select([reader], [], [], 0.01)[0]:
            got += os.read(reader, 65_536)
    os.close(reader)
    assert len(got.splitlines()) == sent - dropped


@pytest.mark.parametrize("full_queue", [True, False])
def test_a_disk_that_hangs_does_not_keep_the_log_from_closing(
    full_pipe: Path, monkeypatch: pytest.MonkeyPatch, full_queue: bool
):
    monkeypatch.setattr(request_log, "MAX_WAITING", 10)
    monkeypatch.setattr(request_log, "CLOSE_TIMEOUT_S", 0.2)
    log = RequestLog(full_pipe, "/policy_server", "abc")
    written = 0
    refused_in_a_row = 0
    while written < 2 or (full_queue and refused_in_a_row < 10):
        before = log.dropped
        log.write(RECORD)
        written += 1
        refused_in_a_row = refused_in_a_row + 1 if log.dropped > before else 0
        time.sleep(0.005)  # in which a thread that is not stuck would take one
    closed: list[bool] = []
    closer = threading.Thread(target=lambda: closed.append(log.close()), daemon=True)
    closer.start()
    closer.join(30.0)
    assert closed == [False]
    assert log.dropped == written - 1  # all but the one that is being written


def test_lines_that_wait_for_a_disk_are_bounded_in_bytes(full_pipe: Path, monkeypatch: pytest.MonkeyPatch):
    """A robot whose requests fail with long reasons must not fill the memory of a server with a slow disk."""
    monkeypatch.setattr(request_log, "MAX_WAITING_BYTES", 100_000)
    monkeypatch.setattr(request_log, "CLOSE_TIMEOUT_S", 0.2)
    log = RequestLog(full_pipe, "/policy_server", "abc")
    for _ in range(500):
        log.write(replace(RECORD, status="error", outcome="x" * 1_000))
    waiting = 500 - log.dropped
    assert 40 < waiting < 100
    log.write(RECORD)  # a shorter one may still fit
    log.close()


def test_a_disk_that_hangs_does_not_keep_the_process_from_ending(full_pipe: Path):
    """A thread that is stuck in a write holds whatever lock it took, and exit handlers want their turn."""
    program = f"""
from remote_inference.server.requests import request_log
request_log.CLOSE_TIMEOUT_S = 0.2
log = request_log.RequestLog({str(full_pipe)!r}, "/policy_server", "abc")
log.write(request_log.RequestRecord("s1", "/r", "/r/n"))
print(log.close())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "False\n"), ended.stderr


def test_a_full_disk_leaves_no_half_line_and_the_log_goes_on(tmp_path: Path):
    """The limit of a process on the size of its files is such a disk: it writes what still fits."""
    log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", "abc")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_200, hard))
    try:
        for _ in range(10):
            log.write(RECORD)
        wait_until(lambda: log.dropped >= 7, "seven lines dropped")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write(replace(RECORD, seq_id=8))
    assert log.close()
    assert [line["seq_id"] for line in lines(tmp_path / "requests.jsonl")] == [7, 7, 7, 8]
    assert log.dropped == 7


def test_lines_that_cannot_be_written_are_counted(capfd: pytest.CaptureFixture[str]):
    log = RequestLog("/dev/full", "/policy_server", "abc")
    for _ in range(3):
        log.write(RECORD)
    log.close()
    assert log.dropped == 3
    assert "Traceback" not in capfd.readouterr().err


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path):
    with pytest.raises(OSError, match="No such file"):
        RequestLog(tmp_path / "missing" / "requests.jsonl", "/policy_server", "abc")


def test_a_full_queue_does_not_keep_the_log_from_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_log, "MAX_WAITING", 1)
    log = RequestLog(tmp_path / "requests.jsonl", "/policy_server", "abc")
    for _ in range(1_000):
        log.write(RECORD)
    log.close()
    assert len(lines(tmp_path / "requests.jsonl")) + log.dropped == 1_000
