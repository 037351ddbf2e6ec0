# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A capture that cannot be written is counted and logged; later captures are written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from remote_inference.base.documents.document import DocumentError
from remote_inference.base.exchange import Chunk, SessionOffer
from remote_inference.server.captures.captures import CaptureWriter, load_capture
from support.waiting import wait_until

ROWS = np.zeros((3, 2), np.float32)
OFFER = SessionOffer(("a", "b"), ("a", "b"), (), 30.0, "", False, robot_namespace="/r", client="/r/n")


def put(writer: CaptureWriter, seq_id: int) -> None:
    chunk = Chunk("s0", 1, seq_id, 0, 0, model=ROWS, robot=ROWS, policy_version="f1")
    writer.put(OFFER, b"request", chunk, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "captures"


@pytest.fixture
def warnings() -> list[str]:
    return []


@pytest.fixture
def writer(folder: Path, warnings: list[str]) -> Iterator[CaptureWriter]:
    writer = CaptureWriter(str(folder), 100, warnings.append)
    yield writer
    writer.close()


def test_an_unwritable_capture_is_counted_and_later_ones_are_kept(
    writer: CaptureWriter, folder: Path
) -> None:
    shutil.rmtree(folder)
    for seq_id in (1, 2):
        put(writer, seq_id)
    wait_until(lambda: writer.dropped == 2, "two captures dropped")
    folder.mkdir()
    put(writer, 3)
    writer.close()
    assert [load_capture(path).seq_id for path in folder.iterdir()] == [3]
    assert writer.dropped == 2


def test_a_capture_that_cannot_be_packed_does_not_affect_the_next(
    writer: CaptureWriter, folder: Path
) -> None:
    put(writer, 1 << 80)  # msgpack has no such integers
    put(writer, 2)
    writer.close()
    assert [load_capture(path).seq_id for path in folder.iterdir()] == [2]
    assert writer.dropped == 1


def test_the_log_says_why_and_how_many_but_not_for_each(
    writer: CaptureWriter, folder: Path, warnings: list[str]
) -> None:
    shutil.rmtree(folder)
    for seq_id in range(5):
        put(writer, seq_id)
    wait_until(lambda: writer.dropped == 5, "five captures dropped")
    (warning,) = warnings
    assert warning.startswith(
        "a capture is lost, 1 so far: FileNotFoundError: [Errno 2] No such file or directory"
    )


def test_another_cause_is_logged_at_once(writer: CaptureWriter, folder: Path, warnings: list[str]) -> None:
    shutil.rmtree(folder)
    for seq_id in (1, 1 << 80):  # msgpack has no such integers
        put(writer, seq_id)
    writer.close()
    missing, too_large = warnings
    assert missing.startswith("a capture is lost, 1 so far: FileNotFoundError")
    assert too_large.startswith("a capture is lost, 2 so far: OverflowError")


def test_a_folder_that_exists_and_takes_no_file_is_refused_by_the_key(folder: Path) -> None:
    with pytest.raises(DocumentError, match="capture_dir: cannot use /proc: "):
        CaptureWriter("/proc", 100, lambda _: None)
