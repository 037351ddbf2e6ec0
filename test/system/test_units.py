# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot whose policy speaks degrees and percent, and one of radians: the same motion, and what bags say."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from remote_inference.base.wire.qos import CHUNK_TOPIC, OBSERVATION_TOPIC
from remote_inference.msg import ActionChunk, ExecutedAction, Observation
from remote_inference.tools import cli
from remote_inference.tools.deployment import bringup
from support.importable import python_path
from support.nodes.bag_tape import BagTape
from support.nodes.decision_tape import DecisionTape
from support.nodes.rig import CONTRACT, DEEP_QOS, JOINTS, Rig, write_contract

SCALE = [
    {"unit": "degrees", "names": [JOINTS[0]]},
    {"unit": "percent", "names": [JOINTS[1]], "range": [-1.0, 1.0]},
]
GOAL = [-0.2, 0.5]  # rad, of an arm at 0.25 and -0.5


@pytest.fixture
def other_rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "other", "/other")
    yield made
    made.close()


def write_mirror(folder: Path, speaks: str) -> Path:
    model = {
        "backend": "support.nodes.mirror_policy:MirrorPolicy",
        "path": ".",
        "options": {"speaks": speaks},
    }
    path = folder / f"{speaks}.manifest.yaml"
    path.write_text(yaml.safe_dump({"model": model, "max_sessions": 2}))
    return path


def write_slow_contract(folder: Path, scale: list[dict[str, Any]]) -> Path:
    """Write the contract of an arm that takes long to its goal, and may: the rig's arm does not follow."""
    folder.mkdir(exist_ok=True)
    limit = {"min": -2.0, "max": 2.0, "max_velocity": 0.6, "max_following_error": 3.0}
    return write_contract(
        folder,
        state=[{**CONTRACT["state"][0], "scale": scale}],
        actions={**CONTRACT["actions"], "limits": dict.fromkeys(JOINTS, limit), "scale": scale},
    )


def way_of(rig: Rig) -> dict[tuple[float, ...], list[str]]:
    """Return the actions of chunks, each once, and what the guard said of it.

    A robot that a busy machine holds up begins where its arm is, which does not follow: the same way again.
    """
    way: dict[tuple[float, ...], list[str]] = {}
    for tick in tuple(rig.executed):
        if tick.source == ExecutedAction.CHUNK:
            way.setdefault(tuple(round(value, 5) for value in tick.action), list(tick.interventions))
    return way


def in_units(rows: np.ndarray) -> np.ndarray:
    return np.stack([np.degrees(rows[:, 0]), 50.0 * (rows[:, 1] + 1.0)], axis=1)


def test_a_robot_in_degrees_and_one_in_radians_move_alike(
    rig: Rig,
    other_rig: Rig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PYTHONPATH", python_path())
    requests: list[Observation] = []
    chunks: list[ActionChunk] = []
    rig.subscribe(Observation, OBSERVATION_TOPIC, requests.append, DEEP_QOS)
    rig.subscribe(ActionChunk, CHUNK_TOPIC, chunks.append, DEEP_QOS)
    tape, decisions = BagTape(rig, joints=True), DecisionTape(rig)
    manifest = write_mirror(tmp_path, "degrees_and_percent")
    contract = write_slow_contract(tmp_path, SCALE)
    rig.start_server(manifest)
    other_rig.group.start(bringup.server(write_mirror(tmp_path, "radians"), name="other_server"))
    rig.start_robot(contract, buffer_time_s=0.8, autostart=False)
    other_rig.start_robot(
        write_slow_contract(tmp_path / "other", []),
        buffer_time_s=0.8,
        servers=["/other_server"],
        autostart=False,
    )
    for one in (rig, other_rig):
        one.wait_for(lambda one=one: one.executed, "ticks that are heard from the first action on")
        assert one.trigger("resume").success
    for one in (rig, other_rig):
        one.wait_for(lambda one=one: tuple(GOAL) in way_of(one), "the goal")
    rig.wait_for(lambda: len(chunks) > 3 and requests[-1].prefix_length, "prefixes")
    with_prefix = [request for request in tuple(requests) if request.prefix_length]
    assert rig.trigger("pause").success
    bag = tape.write(tmp_path / "bag", contract)

    way = way_of(rig)
    assert way == way_of(other_rig)
    assert len(way) > 40
    assert next(iter(way.values())) == ["velocity_limit"]

    state = pytest.approx([math.degrees(0.25), 25.0])
    assert {tuple(request.state) for request in requests} == {tuple(requests[0].state)}
    assert list(requests[0].state) == list(requests[0].history_state) == state
    said = {row.tobytes() for chunk in tuple(chunks) for row in np.reshape(chunk.chunk_robot, (-1, 2))}
    for request in with_prefix:
        rows = np.reshape(request.prefix_robot, (-1, 2))
        assert {row.tobytes() for row in rows} <= said, "a prefix goes back as the policy said it"

    words = ["replay", "--policy", str(manifest), str(bag), "--json", "--max-error", "all=0.01"]
    capsys.readouterr()
    assert cli.main([*words, "--against", "recorded"]) == 0
    (policy,) = json.loads(capsys.readouterr().out)["policies"]
    assert policy["identical_chunks"] == policy["compared_chunks"] > 2
    first, second = policy["executed"]["joints"]
    assert (first["unit"], second["unit"]) == ("rad", "rad")
    assert second["max"] == pytest.approx(1.0, abs=0.1), "the guard led the arm slowly there, in radians"

    out = tmp_path / "data"
    assert cli.main(["export", str(bag), "--lerobot-v3", str(out), "--no-images", "--quiet"]) == 0
    rows = pq.read_table(out / "data/chunk-000/file-000.parquet").to_pydict()
    exported = np.array(rows["action"])
    assert np.array(rows["observation.state"])[-1] == state
    assert np.isclose(exported, in_units(np.array([GOAL]))[0], atol=1e-4).all(axis=1).any()
    assert np.ptp(exported[:, 0]) > math.degrees(0.3)
    units = json.loads((out / "meta/info.json").read_text())["features"]["action"]["units"]
    assert units == ["degrees", "percent"]

    rig.group.stop()
    assert decisions.check(tmp_path).compared["ticks"] > len(way)
