# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest: defaults, paths, and errors that name the key, what was found and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote_inference.core.document import DocumentError
from remote_inference.core.server.manifest import load_manifest

MINIMAL = "model: {backend: hold, path: models/x}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "test.manifest.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_cautious(tmp_path: Path):
    manifest = load_manifest(write(tmp_path, MINIMAL))
    assert (manifest.max_sessions, manifest.scheduler, manifest.inject_latency_ms) == (1, "round_robin", 0.0)
    assert not manifest.pin_task
    assert not manifest.strict_fps
    assert manifest.warmup_inferences >= 1


def test_the_model_path_is_relative_to_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = write(tmp_path, MINIMAL)
    monkeypatch.chdir("/")
    assert load_manifest(path).model.path == str(tmp_path.resolve() / "models/x")
    absolute = write(tmp_path, "model: {backend: hold, path: /weights/x}\n")
    assert load_manifest(absolute).model.path == "/weights/x"


def test_the_shipped_manifest_is_valid():
    shipped = Path(__file__).parents[3] / "config" / "belt_arm.manifest.yaml"
    manifest = load_manifest(shipped)
    assert manifest.max_sessions == 4
    assert manifest.model.path == str(shipped.parent / "models" / "belt_arm")


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("max_sessions: 2\n", "model", ["missing"]),
        ("model: {backend: hold}\n", "model.path", ["missing"]),
        ("model: {backend: guess, path: x}\n", "model.backend", ["'guess'", "'hold'"]),
        ("model: {backend: hold, path: ''}\n", "model.path", ["''"]),
        ("model: {backend: hold, path: x, dtype: int8}\n", "model.dtype", ["'int8'", "'bfloat16'"]),
        (MINIMAL + "max_sessions: 0\n", "max_sessions", ["0", "1"]),
        (MINIMAL + "max_sessions: many\n", "max_sessions", ["'many'", "integer"]),
        (MINIMAL + "max_sessions: 2.5\n", "max_sessions", ["2.5", "integer"]),
        (MINIMAL + "pin_task: 'yes'\n", "pin_task", ["'yes'", "boolean"]),
        (MINIMAL + "warmup_inferences: 0\n", "warmup_inferences", ["0", "1"]),
        (MINIMAL + "scheduler: lottery\n", "scheduler", ["'lottery'", "'round_robin'"]),
        (MINIMAL + "serving_mode: open\n", "serving_mode", ["'open'", "'exclusive'"]),
        (MINIMAL + "inject_latency_ms: -1\n", "inject_latency_ms", ["-1", "0"]),
        (MINIMAL + "inject_latency_ms: .nan\n", "inject_latency_ms", ["nan"]),
        (MINIMAL + "max_session: 2\n", "max_session", ["unknown key"]),
    ],
)
def test_errors_name_file_key_found_and_expected(tmp_path: Path, text: str, key: str, words: list[str]):
    path = write(tmp_path, text)
    with pytest.raises(DocumentError) as refusal:
        load_manifest(path)
    (line,) = str(refusal.value).splitlines()
    assert line.startswith(f"{path}: {key}: ")
    assert all(word in line for word in words)
