# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A data set has statistics of each episode, and of all of them what LeRobot makes of those."""

from __future__ import annotations

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from remote_inference.bags.export.format import ControlTick
from remote_inference.bags.export.lerobot_v3 import LeRobotDataSet
from remote_inference.bags.export.statistics import ImageStatistics
from remote_inference.bags.lerobot_dataset import LeRobotDatasetReader
from remote_inference.base.contract.contract import Contract
from remote_inference.base.documents.document import parse_document
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.robot.command import CommandSource
from support.builders import CAMERA, JOINTS, contract_document
from support.recording.picked_run import picture

LENGTHS = (1, 7, 130)  # of the episodes: the last one has more images than are sampled
SAMPLES = (1, 7, 100)
QUANTILES = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
NAMES = ("min", "max", "mean", "std", "count", *QUANTILES)


def level(episode: int, row: int) -> int:
    return 60 * episode + row


def tick(episode: int, row: int, joints: int, *, images: bool = True) -> ControlTick:
    image = np.full((48, 64, 3), level(episode, row), np.uint8)
    return ControlTick(
        t_ns=row,
        tick=row,
        episode_id=episode,
        task=("wave", "point")[row % 2],
        client_state="",
        paused=False,
        source=CommandSource.CHUNK if row % 3 else CommandSource.HUMAN,
        action=np.linspace(0.1 * row, -0.3 * row, joints),
        state=np.linspace(math.sin(row), episode, joints),
        images={"front": image_to_message(image)} if images else {},
        interventions=(),
        session_id="s1",
        seq_id=row,
        step_index=0,
        row_fraction=0.0,
        age_s=0.0,
        queue_wait_ms=math.nan,
        inference_ms=math.nan,
        policy_version="v1",
        shadow=False,
    )


@pytest.fixture(scope="module")
def data_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "picks"
    contract = parse_document(contract_document(fps=20.0), Contract, "test")
    with LeRobotDataSet(out, contract, images=True) as target:
        for episode, length in enumerate(LENGTHS):
            for row in range(length):
                target.add(tick(episode, row, len(JOINTS)))
            target.end_episode()
    return out


@pytest.fixture(scope="module")
def episodes(data_set: Path) -> pa.Table:
    return pq.read_table(data_set / "meta/episodes/chunk-000/file-000.parquet")


def vectors_of(data_set: Path, episode: int | None = None) -> dict[str, NDArray[np.float64]]:
    """Return the values `[n, dim]` of every feature without images, of all episodes or of one."""
    rows = pq.read_table(data_set / "data/chunk-000/file-000.parquet").to_pydict()
    chosen = [episode in (None, number) for number in rows["episode_index"]]
    return {
        name: np.array(values, np.float64)[chosen].reshape(sum(chosen), -1) for name, values in rows.items()
    }


def smallest_reached(values: NDArray[Any], share: float) -> NDArray[Any]:
    """Return by column the smallest value that a share of the values does not exceed."""
    return np.sort(values, axis=0)[max(0, math.ceil(share * len(values)) - 1)]


def expected_of(values: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
    return {
        "min": np.amin(values, 0),
        "max": np.amax(values, 0),
        "mean": np.sum(values, 0) / len(values),
        "std": np.sqrt(np.mean((values - np.mean(values, 0)) ** 2, 0)),
        "count": np.array([len(values)]),
        **{name: smallest_reached(values, share) for name, share in QUANTILES.items()},
    }


def test_each_episode_has_all_statistics_of_each_feature(data_set: Path, episodes: pa.Table):
    features = json.loads((data_set / "meta/info.json").read_text())["features"]
    expected = {f"stats/{key}/{name}" for key in features for name in NAMES}
    assert {name for name in episodes.column_names if name.startswith("stats/")} == expected
    number = pa.list_(pa.float64())
    for name in expected:
        of_image = name.startswith(f"stats/{CAMERA}/")
        kind = pa.list_(pa.list_(number)) if of_image else number
        assert episodes[name].type == (pa.list_(pa.int64()) if name.endswith("/count") else kind)


@pytest.mark.parametrize("episode", range(len(LENGTHS)))
def test_the_statistics_of_an_episode_are_those_of_its_frames(
    data_set: Path, episodes: pa.Table, episode: int
):
    for key, values in vectors_of(data_set, episode).items():
        for name, expected in expected_of(values).items():
            found = episodes[f"stats/{key}/{name}"][episode].as_py()
            assert found == pytest.approx(expected.tolist(), abs=1e-6), (key, name)


@pytest.mark.parametrize("episode", range(len(LENGTHS)))
def test_the_statistics_of_a_camera_are_those_of_the_images_that_lerobot_samples(
    episodes: pa.Table, episode: int
):
    rows = np.round(np.linspace(0, LENGTHS[episode] - 1, SAMPLES[episode])).astype(int)
    values = np.array([[level(episode, row) / 255] for row in rows])
    for name, expected in expected_of(values).items():
        shown = expected.tolist() if name == "count" else [[expected.tolist()]] * 3
        found = episodes[f"stats/{CAMERA}/{name}"][episode].as_py()
        np.testing.assert_allclose(found, shown, atol=1e-9, err_msg=name)


def test_those_of_the_data_set_are_made_of_the_episodes(data_set: Path, episodes: pa.Table):
    """Quantiles, too, are means by length: what LeRobot writes when it has recorded or cut a data set."""
    told = json.loads((data_set / "meta/stats.json").read_text())
    every = vectors_of(data_set)
    assert set(told) == {*every, CAMERA}
    for key, found in told.items():
        rows = {name: np.array(episodes[f"stats/{key}/{name}"].to_pylist()) for name in NAMES}
        shares = (rows["count"][:, 0] / rows["count"].sum()).reshape(-1, *[1] * (rows["mean"].ndim - 1))
        means = {name: (shares * rows[name]).sum(axis=0) for name in ("mean", *QUANTILES)}
        expected = {
            **means,
            "min": rows["min"].min(axis=0),
            "max": rows["max"].max(axis=0),
            "std": np.sqrt((shares * (rows["std"] ** 2 + (rows["mean"] - means["mean"]) ** 2)).sum(axis=0)),
            "count": rows["count"].sum(axis=0),
        }
        assert set(found) == set(expected)
        for name, values in expected.items():
            assert np.shape(found[name]) == values.shape
            np.testing.assert_allclose(found[name], values, atol=1e-9, err_msg=f"{key} {name}")
    for key, values in every.items():
        for name in ("min", "max", "mean", "std", "count"):
            assert told[key][name] == pytest.approx(expected_of(values)[name].tolist(), abs=1e-6)


def test_statistics_of_an_image_are_those_of_its_levels():
    statistics, rgb = ImageStatistics(), picture(4000.0)
    statistics.add(rgb)
    found, expected = statistics.result(), expected_of(rgb.reshape(-1, 3) / 255.0)
    for name in ("min", "max", "mean", "std", *QUANTILES):
        assert found[name].ravel() == pytest.approx(expected[name], abs=1e-6), name


def test_a_long_episode_takes_bounded_memory_and_is_sampled_as_evenly():
    length, statistics = 9_000, ImageStatistics()
    tracemalloc.start()
    for row in range(length):
        statistics.add(np.full((4, 4, 3), 250 * row // length, np.uint8))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 15e6, "9000 images would take 28 MB"
    found = statistics.result()
    assert found["count"].tolist() == [int(length**0.75)]
    assert found["mean"].ravel() * 255 == pytest.approx([124.5] * 3, abs=0.1)
    assert found["max"].ravel() * 255 == pytest.approx([249.0] * 3)


def test_a_single_joint_is_a_number_in_each_frame(tmp_path: Path):
    """LeRobot reads a feature of shape [1] so, and no list."""
    document: dict[str, Any] = contract_document(fps=20.0) | {"images": {}, "rename": {}}
    for section in (document["state"][0], document["actions"], document["commands"][0]):
        section["names"] = [JOINTS[0]]
    document["actions"]["limits"] = {JOINTS[0]: document["actions"]["limits"][JOINTS[0]]}
    with LeRobotDataSet(tmp_path / "one", parse_document(document, Contract, "test"), images=False) as target:
        for row in range(3):
            target.add(tick(0, row, 1, images=False))
        target.end_episode()
    schema = pq.read_schema(tmp_path / "one/data/chunk-000/file-000.parquet")
    assert schema.field("action").type == schema.field("observation.state").type == pa.float32()
    told = json.loads((tmp_path / "one/meta/stats.json").read_text())
    assert told["action"]["max"] == pytest.approx([0.2])
    reader = LeRobotDatasetReader(tmp_path / "one")
    actions = reader.read(reader.episodes[0]).actions
    np.testing.assert_allclose(actions, [[0.0], [0.1], [0.2]], atol=1e-6)
