# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot of 100 Hz on a policy of 10 Hz: ten even commands for each row, and what bags say of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from remote_inference.bags.provenance.explanation import explain_motion
from remote_inference.bags.provenance.text import motion_lines
from remote_inference.base.wire.qos import CHUNK_TOPIC
from remote_inference.msg import ActionChunk, ExecutedAction
from remote_inference.robot.command import CommandSource
from remote_inference.tools import cli
from support.importable import python_path
from support.nodes.bag_tape import BagTape
from support.nodes.decision_tape import DecisionTape
from support.nodes.rig import CONTRACT, DEEP_QOS, JOINTS, Rig, write_contract
from support.nodes.sine_policy import CHUNK_SIZE

TICKS = 10  # of control that a row lasts
ROWS = 2 * CHUNK_SIZE


def start(rig: Rig, monkeypatch: pytest.MonkeyPatch, interpolation: str) -> Path:
    """Start server and robot, whose arm does not follow; return the contract."""
    monkeypatch.setenv("PYTHONPATH", python_path())
    manifest = rig.folder / "manifest.yaml"
    manifest.write_text(
        yaml.safe_dump({"model": {"backend": "support.nodes.sine_policy:WavePolicy", "path": "."}})
    )
    limit = {"min": -2.0, "max": 2.0, "max_velocity": 3.0, "max_following_error": 3.0}
    contract = write_contract(
        rig.folder,
        fps=100.0,
        policy_fps=10.0,
        interpolation=interpolation,
        actions={**CONTRACT["actions"], "limits": dict.fromkeys(JOINTS, limit)},
    )
    rig.start_server(manifest)
    rig.start_robot(contract, merge_mode="append")  # each row is executed, as the policy said it
    return contract


def rows_of(executed: list[ExecutedAction]) -> list[list[ExecutedAction]]:
    """Return the ticks of each row, of those rows and their successors that were heard whole."""
    chunked = [tick for tick in executed if tick.source == CommandSource.CHUNK]
    begins = [index for index, tick in enumerate(chunked) if tick.row_fraction == 0.0]
    rows = [chunked[begin:end] for begin, end in pairwise(begins)]
    return [row for row in rows if [tick.tick - row[0].tick for tick in row] == list(range(TICKS))]


def test_a_robot_commands_ten_even_steps_from_row_to_row(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks: list[ActionChunk] = []
    rig.subscribe(ActionChunk, CHUNK_TOPIC, chunks.append, DEEP_QOS)
    tape, decisions = BagTape(rig, joints=True), DecisionTape(rig)
    contract = start(rig, monkeypatch, "linear")

    def heard_rows() -> list[list[ExecutedAction]]:
        """Return the rows of chunks that were heard: the robot may have had its first one before the tape."""
        heard = {chunk.seq_id for chunk in tuple(chunks)}
        return [row for row in rows_of(list(rig.executed)) if row[0].seq_id in heard]

    rig.wait_for(lambda: len(heard_rows()) >= ROWS, f"{ROWS} rows")
    assert rig.trigger("pause").success
    bag = tape.write(tmp_path / "bag", contract)
    said = {chunk.seq_id: np.reshape(chunk.chunk_robot, (CHUNK_SIZE, -1)) for chunk in tuple(chunks)}
    rows = heard_rows()
    for row in rows:
        assert [tick.row_fraction for tick in row] == pytest.approx(np.arange(TICKS) / TICKS)
        begin = said[row[0].seq_id][row[0].step_index]
        assert list(row[0].action) == pytest.approx(begin, abs=1e-6), "a row is commanded as it was said"
        assert {tuple(tick.interventions) for tick in row} == {()}
    together = [(a, b) for a, b in pairwise(rows) if b[0].tick == a[0].tick + TICKS]
    assert len(together) > CHUNK_SIZE
    for row, after in together:
        steps = np.diff([tick.action for tick in (*row, after[0])], axis=0)
        whole = np.subtract(after[0].action, row[0].action)
        np.testing.assert_allclose(steps, np.tile(whole / TICKS, (TICKS, 1)), atol=1e-9)
    heard = {values for _, values in tuple(rig.commands)}
    assert {tuple(reversed(tick.action)) for row in rows[1:-1] for tick in row} <= heard

    tick = next(tick for row in rows for tick in row if tick.row_fraction == 0.4)
    explained = " ".join(motion_lines(explain_motion(bag, tick=tick.tick)))
    assert "40% of the action's period had passed" in explained

    out = tmp_path / "data"
    assert cli.main(["export", str(bag), "--lerobot-v3", str(out), "--no-images", "--quiet"]) == 0
    assert json.loads((out / "meta/info.json").read_text())["fps"] == 10
    frames = pq.read_table(out / "data/chunk-000/file-000.parquet").to_pydict()
    begun = sum(t.source == CommandSource.CHUNK and t.row_fraction == 0.0 for t in rig.executed)
    assert frames["command.source"].count(int(CommandSource.CHUNK)) == pytest.approx(begun, abs=TICKS)
    whole_rows = {(row[0].seq_id, row[0].step_index): list(row[0].action) for row in rows}
    keys = zip(frames["command.seq_id"], frames["command.step_index"], strict=True)
    found = {key: action for key, action in zip(keys, frames["action"], strict=True) if key in whole_rows}
    assert len(found) > CHUNK_SIZE
    for key, action in found.items():
        assert action == pytest.approx(whole_rows[key], abs=1e-6)

    rig.group.stop()
    assert decisions.check(tmp_path).compared["ticks"] > ROWS * TICKS / 2


def test_without_interpolation_a_robot_repeats_each_row(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    start(rig, monkeypatch, "none")
    rig.wait_for(lambda: len(rows_of(list(rig.executed))) >= CHUNK_SIZE, f"{CHUNK_SIZE} rows")
    for row in rows_of(list(rig.executed)):
        ends = {tuple(tick.action) for tick in row[TICKS // 2 :]}
        assert len(ends) == 1, "the guard leads to the row in steps, then it is held"
