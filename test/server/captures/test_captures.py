# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Captures keep request and chunk to the byte; the ring keeps the newest, also across restarts."""

from __future__ import annotations

from pathlib import Path

import msgpack
import numpy as np
import pytest

from remote_inference.base.exchange import SessionKind
from remote_inference.server.captures.captures import Capture, CaptureError, CaptureRing, load_capture
from support.builders import make_offer, make_rows


def make_capture(seq_id: int = 1) -> Capture:
    rows = make_rows(3)
    offer = make_offer(tags={"site": "lab_2"}, kind=SessionKind.EVALUATION)
    return Capture(offer, b"\x00\x01 bytes", rows, rows * np.float32(1 / 3), "f1", seq_id, 3)


def test_a_capture_survives_the_file_to_the_byte(tmp_path: Path):
    capture = make_capture()
    read = load_capture(CaptureRing(tmp_path, 5).put(capture))
    assert (read.offer, read.data, read.policy_version) == (
        capture.offer,
        capture.data,
        capture.policy_version,
    )
    assert (read.seq_id, read.batch_size) == (1, 3)
    assert read.model.tobytes() == capture.model.tobytes()
    assert read.robot.tobytes() == capture.robot.tobytes()
    assert read.robot.shape == capture.robot.shape


def test_the_ring_keeps_the_newest(tmp_path: Path):
    ring = CaptureRing(tmp_path, 3)
    for seq_id in range(7):
        ring.put(make_capture(seq_id))
    assert [load_capture(path).seq_id for path in sorted(tmp_path.iterdir())] == [4, 5, 6]


def test_the_captures_of_an_earlier_run_count_and_are_not_written_over(tmp_path: Path):
    CaptureRing(tmp_path, 3).put(make_capture(1))
    ring = CaptureRing(tmp_path, 3)
    for seq_id in (2, 3, 4):
        ring.put(make_capture(seq_id))
    assert [load_capture(path).seq_id for path in sorted(tmp_path.iterdir())] == [2, 3, 4]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a capture"),
        (b"\xff not msgpack", "is not a capture"),
        (msgpack.packb({"version": 9}), "version: found 9, expected 5"),
        (msgpack.packb({"version": 2}), "version: found 2, expected 5"),
        (msgpack.packb({"version": 5}), "is not a capture"),
    ],
)
def test_a_file_that_is_no_capture_is_named(tmp_path: Path, data: bytes, words: str):
    path = tmp_path / "x.capture"
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=words) as refusal:
        load_capture(path)
    assert str(path) in str(refusal.value)


def test_half_a_capture_is_refused(tmp_path: Path):
    path = CaptureRing(tmp_path, 1).put(make_capture())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CaptureError, match="is not a capture"):
        load_capture(path)


def test_a_folder_that_exists_and_takes_no_file_is_refused():
    with pytest.raises(OSError, match="/proc"):
        CaptureRing(Path("/proc"), 1)


def test_trying_a_folder_leaves_nothing_in_it(tmp_path: Path):
    CaptureRing(tmp_path / "captures", 1)
    assert list((tmp_path / "captures").iterdir()) == []
