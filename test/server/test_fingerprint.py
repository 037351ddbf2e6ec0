# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Fingerprints follow everything that decides about a chunk, and nothing else."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import PolicyError
from remote_inference.server.manifest.manifest import ModelSource


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name in ("model.bin", "policy.json"):
        (tmp_path / name).write_text(name)
    return [tmp_path / "model.bin", tmp_path / "policy.json"]


def test_a_fingerprint_has_16_digits_and_where_files_lie_does_not_count(files: list[Path], tmp_path: Path):
    found = make_fingerprint(files, {})
    assert len(found) == 16
    moved = tmp_path / "moved"
    moved.mkdir()
    assert make_fingerprint([file.rename(moved / f"my_{file.name}") for file in files], {}) == found


def test_content_order_number_and_settings_count(files: list[Path]):
    def fingerprint(options: dict[str, object] | None = None, **changes: str) -> str:
        source = ModelSource(backend="hold", path=".", options=options or {}, **changes)
        return make_fingerprint(files, source.settings)

    assert fingerprint() == fingerprint(dtype="float32"), "a precision that is left out is float32"
    found = {
        fingerprint(),
        fingerprint(dtype="bfloat16"),
        fingerprint({"compile": True}),
        make_fingerprint(files[:1], ModelSource(backend="hold", path=".").settings),
    }
    assert fingerprint(device="cuda:1") in found, "a policy is the same on every device"
    files[0].write_text("model.bid")
    found.add(fingerprint())
    files.reverse()
    found.add(fingerprint())
    assert len(found) == 6


def test_large_weights_are_read_in_blocks(tmp_path: Path):
    weights = tmp_path / "model.bin"
    with weights.open("wb") as file:
        file.truncate(64 << 20)
    tracemalloc.start()
    make_fingerprint([weights], {})
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 << 20


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(PolicyError, match=r"none\.bin: cannot be read: No such file or directory$"):
        make_fingerprint([tmp_path / "none.bin"], {})
