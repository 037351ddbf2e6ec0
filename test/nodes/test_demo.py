# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it: real processes, real time, and everything it promises to leave behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from remote_inference.cli import main
from remote_inference.demo.sweep import Cell, write_sweep
from remote_inference.recording import open_bag

DEADLINE_S = 180.0


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "remote_inference.cli", "demo", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_demo_picks_cubes_at_300_ms_and_leaves_its_results(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ended = demo("--episodes", "4", "--latency-ms", "300", "--out", str(out))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "cubes picked" in ended.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["success_rate"] >= 0.75
    assert (summary["episodes"], summary["strategy"]) == (4, "trim")
    assert summary["latency_ms"]["p50"] >= 300.0
    assert summary["actions_by_source"]["chunk"] > 50
    assert "STREAMING" in {entry["state"] for entry in summary["states_visited"]}
    assert summary["versions"]["remote_inference"]
    for picture in ("report.png", "frames.png"):
        with Image.open(out / picture) as image:
            assert min(image.size) > 200
            assert len(set(image.convert("L").resize((64, 64)).tobytes())) > 10
    with open_bag(out / "bag") as bag:
        topics = set(bag.topics)
    assert {
        f"/belt_arm_1/remote_inference/{name}" for name in ("observation", "chunk", "state", "executed")
    } <= topics
    assert "/belt_arm_1/forward_position_controller/commands" in topics
    assert (
        main(["explain", str(out / "bag"), "--namespace", "/belt_arm_1", "--out", str(tmp_path / "r.png")])
        == 0
    )
    assert (tmp_path / "r.png").stat().st_size > 10_000


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    ended = demo("--out", str(tmp_path))
    assert ended.returncode == 2
    assert "expected a folder to create" in ended.stderr


@pytest.mark.parametrize("arguments", [("--episodes", "0"), ("--latency-ms", "-1"), ("--strategy", "hope")])
def test_impossible_options_are_refused(arguments: tuple[str, str]) -> None:
    ended = demo(*arguments)
    assert ended.returncode == 2
    assert arguments[0] in ended.stderr


def test_the_sweep_is_plotted_with_a_line_per_strategy(tmp_path: Path) -> None:
    cells = {
        (strategy, latency_ms): Cell(strategy, latency_ms, successes, 10)
        for strategy, row in {"trim": (10, 9), "no_trim": (10, 0), "blocking": (9, 1)}.items()
        for latency_ms, successes in zip((0.0, 300.0), row, strict=True)
    }
    write_sweep(cells, tmp_path)
    rows = json.loads((tmp_path / "sweep.json").read_text())
    assert len(rows) == 6
    assert {
        "strategy": "no_trim",
        "latency_ms": 300.0,
        "successes": 0,
        "episodes": 10,
        "success_rate": 0.0,
    } in rows
    with Image.open(tmp_path / "sweep.png") as image:
        assert image.width > 500
