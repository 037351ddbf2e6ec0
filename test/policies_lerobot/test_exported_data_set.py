# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot itself loads what `export --lerobot-v3` writes, finds in it what the bag held, and trains on it.

It is, key by key, what LeRobot's recorder writes of the same frames, and LeRobot's tools edit it as such.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from lerobot.configs import RGBEncoderConfig
from lerobot.configs.types import FeatureType
from lerobot.datasets.dataset_tools import delete_episodes, merge_datasets, modify_tasks, split_dataset
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
from lerobot.utils.constants import DEFAULT_FEATURES
from lerobot.utils.feature_utils import dataset_to_policy_features
from torch.utils.data import DataLoader

from remote_inference.bags.export.format import Phase
from remote_inference.tools.cli import main
from support.builders import CAMERA
from support.recording.picked_run import (
    COMMANDED_FROM,
    FPS,
    HUMAN,
    SILENT,
    TICKS,
    action_of,
    joints_seen,
    picture_seen,
    write_picked_run,
)

FRAMES = TICKS - COMMANDED_FROM  # of an episode
EPISODES = 4
CHUNK_SIZE = 4
CAMERAS = (CAMERA, "observation.images.wrist")
# As the export's.
ENCODER = RGBEncoderConfig(vcodec="h264", crf=18, preset="superfast", extra_options={"bf": 0})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data set of two bags, four episodes in all."""
    out = tmp_path_factory.mktemp("data")
    bags = [str(write_picked_run(out / name)) for name in ("first", "second")]
    assert main(["export", *bags, "--lerobot-v3", str(out / "picks"), "--quiet"]) == 0
    return out / "picks"


def load(folder: Path, **options: object) -> LeRobotDataset:
    return LeRobotDataset("local/picks", root=folder, video_backend="pyav", **options)


def frames_of(picks: LeRobotDataset, episode: int) -> Iterator[dict[str, Any]]:
    """Yield an episode's frames as LeRobot's recorder takes them."""
    for index in range(episode * FRAMES, (episode + 1) * FRAMES):
        shown = picks[index]
        frame = {"task": shown["task"]}
        for key, feature in picks.meta.features.items():
            if key in CAMERAS:
                frame[key] = shown[key].permute(1, 2, 0).numpy()
            elif key not in DEFAULT_FEATURES:
                frame[key] = shown[key].numpy().reshape(feature["shape"]).astype(feature["dtype"])
        yield frame


def record(target: LeRobotDataset, picks: LeRobotDataset, episodes: range) -> None:
    for episode in episodes:
        for frame in frames_of(picks, episode):
            target.add_frame(frame)
        target.save_episode(parallel_encoding=False)
    target.finalize()


@pytest.fixture(scope="module")
def recorded(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same frames, written by LeRobot's recorder."""
    picks, out = load(folder, return_uint8=True), tmp_path_factory.mktemp("recorded") / "picks"
    features = {
        key: {name: feature[name] for name in ("dtype", "shape", "names")}
        for key, feature in picks.meta.features.items()
        if key not in DEFAULT_FEATURES
    }
    target = LeRobotDataset.create(
        "local/recorded", picks.fps, features, out, picks.meta.robot_type, rgb_encoder=ENCODER
    )
    record(target, picks, range(EPISODES))
    return out


def test_lerobot_loads_the_frames_that_the_bags_held(folder: Path):
    picks = load(folder)
    assert (len(picks), picks.num_episodes, picks.fps) == (EPISODES * FRAMES, EPISODES, FPS)
    assert picks.meta.robot_type == "two_joints"
    for index in range(0, len(picks), 7):
        frame = picks[index]
        episode, row = divmod(index, FRAMES)
        tick = COMMANDED_FROM + row + (TICKS if episode % 2 else 0)
        assert frame["episode_index"] == episode
        assert frame["timestamp"].item() == pytest.approx(row / FPS, abs=1e-6)
        assert frame["task"] == ("wave", "point")[episode % 2]
        assert frame["command.is_human"] == (tick % TICKS in HUMAN)
        assert frame["command.phase"] == (
            Phase.PERSON if tick % TICKS in HUMAN else Phase.HOLD if tick % TICKS in SILENT else Phase.POLICY
        )
        np.testing.assert_allclose(frame["observation.state"], joints_seen(tick), atol=1e-6)
        if frame["command.source"] != 0:
            np.testing.assert_allclose(frame["action"], action_of(tick), atol=1e-6)
        for camera in CAMERAS:
            found = frame[camera].permute(1, 2, 0).numpy() * 255
            assert np.abs(found - picture_seen(tick)).mean() < 3, (
                "as far as a video and a JPEG image may be off"
            )


# -- training ------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> tuple[LeRobotDataset, ACTPolicy, Callable[[Any], dict[str, Any]]]:
    """Return the data set with chunks of actions, an untrained policy for it and what normalises for it."""
    torch.manual_seed(0)
    steps = {"action": [row / FPS for row in range(CHUNK_SIZE)]}
    picks = load(folder, delta_timestamps=steps)
    features = dataset_to_policy_features(picks.meta.features)
    outputs = {key: feature for key, feature in features.items() if feature.type is FeatureType.ACTION}
    inputs = {key: feature for key, feature in features.items() if key not in outputs}
    config = ACTConfig(
        input_features=inputs,
        output_features=outputs,
        chunk_size=CHUNK_SIZE,
        n_action_steps=CHUNK_SIZE,
        dim_model=32,
        n_heads=2,
        dim_feedforward=32,
        n_encoder_layers=1,
        use_vae=False,
        pretrained_backbone_weights=None,
        device="cpu",
    )
    preprocess, _ = make_pre_post_processors(config, dataset_stats=picks.meta.stats)
    return picks, ACTPolicy(config), preprocess


def train(policy: ACTPolicy, batch: dict[str, Any], steps: int) -> list[float]:
    """Return the loss before each step."""
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        loss, _ = policy(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_lerobot_trains_act_on_it(folder: Path):
    picks, policy, preprocess = prepare(folder)
    batch = preprocess(next(iter(DataLoader(picks, batch_size=8, shuffle=True))))
    losses = train(policy, batch, steps=8)
    assert losses[-1] < 0.8 * losses[0]


def test_act_is_trained_on_normalised_numbers_of_what_lerobot_has_cut(folder: Path, tmp_path: Path):
    """Without statistics of each episode the tools would leave none, and the training would not say so."""
    cut, _ = delete(folder, folder, tmp_path)
    picks, policy, preprocess = prepare(cut)
    batch = preprocess(next(iter(DataLoader(picks, batch_size=len(picks)))))
    state = batch["observation.state"].numpy()
    np.testing.assert_allclose(state.mean(axis=0), 0.0, atol=1e-3)
    np.testing.assert_allclose(state.std(axis=0), 1.0, atol=1e-3)
    assert np.isfinite(train(policy, batch, steps=1)).all()


# -- LeRobot's recorder and tools ----------------------------------------------------------------------------


def read_json(folder: Path, name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "meta" / name).read_text())
    return read


def read_episodes(folder: Path) -> pa.Table:
    return pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")


def test_what_describes_it_is_what_lerobots_recorder_writes(folder: Path, recorded: Path):
    assert read_json(folder, "info.json") == read_json(recorded, "info.json")
    tasks, expected = (pd.read_parquet(one / "meta/tasks.parquet") for one in (folder, recorded))
    assert (tasks.index.name, tasks["task_index"].to_dict()) == ("task", expected["task_index"].to_dict())
    found, wanted = read_episodes(folder), read_episodes(recorded)
    kinds, wanted_kinds = ({field.name: field.type for field in table.schema} for table in (found, wanted))
    assert kinds == wanted_kinds
    assert found["tasks"].to_pylist() == wanted["tasks"].to_pylist()
    for name in kinds:
        if name != "tasks" and not name.startswith("stats/"):
            assert found[name].to_pylist() == pytest.approx(wanted[name].to_pylist(), abs=1e-6), name


def test_its_statistics_are_those_of_lerobots_recorder(folder: Path, recorded: Path):
    """As far as LeRobot's quantiles are exact, and the images in the videos that it recorded from."""
    found, wanted = read_json(folder, "stats.json"), read_json(recorded, "stats.json")
    assert {key: set(one) for key, one in found.items()} == {key: set(one) for key, one in wanted.items()}
    episodes, wanted_episodes = read_episodes(folder), read_episodes(recorded)
    for key, one in wanted.items():
        width = np.max(np.subtract(one["max"], one["min"])) / 5000  # of the bins that it counts in
        tolerance = 0.1 if key in CAMERAS else 2e-3 + 1.1 * width
        for name, values in one.items():
            assert np.shape(found[key][name]) == np.shape(values), (key, name)
            np.testing.assert_allclose(found[key][name], values, atol=tolerance, err_msg=f"{key} {name}")
            each, wanted_each = (
                table[f"stats/{key}/{name}"].to_pylist() for table in (episodes, wanted_episodes)
            )
            np.testing.assert_allclose(each, wanted_each, atol=tolerance, err_msg=f"{key} {name}")


def delete(folder: Path, _recorded: Path, out: Path) -> tuple[Path, int]:
    """Return the folder and the number of its episodes, as the others do."""
    delete_episodes(load(folder), [0, 3], output_dir=out / "cut", repo_id="local/cut")
    return out / "cut", 2


def split(folder: Path, _recorded: Path, out: Path) -> tuple[Path, int]:
    split_dataset(load(folder), {"train": 0.75, "test": 0.25}, output_dir=out)
    return out / "train", 3


def merge(folder: Path, recorded: Path, out: Path) -> tuple[Path, int]:
    merge_datasets([load(folder), load(recorded)], "local/all", output_dir=out / "all")
    return out / "all", 2 * EPISODES


def resume(folder: Path, _recorded: Path, out: Path) -> tuple[Path, int]:
    target = LeRobotDataset.resume("local/more", shutil.copytree(folder, out / "more"), rgb_encoder=ENCODER)
    record(target, load(folder, return_uint8=True), range(1, 2))
    return out / "more", EPISODES + 1


def rename_task(folder: Path, _recorded: Path, out: Path) -> tuple[Path, int]:
    modify_tasks(load(shutil.copytree(folder, out / "renamed")), task_replacements={"wave": "greet"})
    assert load(out / "renamed")[0]["task"] == "greet"
    return out / "renamed", EPISODES


@pytest.mark.parametrize("edit", [delete, split, merge, resume, rename_task])
def test_what_lerobots_tools_make_of_it_loads_and_has_the_statistics_of_its_frames(
    edit: Callable[[Path, Path, Path], tuple[Path, int]], folder: Path, recorded: Path, tmp_path: Path
):
    made, episodes = edit(folder, recorded, tmp_path)
    picks = load(made)
    assert (picks.num_episodes, len(picks)) == (episodes, episodes * FRAMES)
    last = picks[len(picks) - 1]
    assert last["episode_index"] == episodes - 1
    assert all(last[camera].shape == (3, 48, 64) for camera in CAMERAS)
    told, rows = picks.meta.stats, picks.hf_dataset.with_format("numpy")[:]
    assert set(told) == set(picks.meta.features)
    for key in ("observation.state", "action"):
        assert told[key]["count"] == [len(picks)]
        for name in ("min", "max", "mean", "std"):
            expected = getattr(rows[key].astype(np.float64), name)(axis=0)
            np.testing.assert_allclose(told[key][name], expected, atol=1e-4, err_msg=f"{key} {name}")
    for camera in CAMERAS:
        assert told[camera]["mean"].shape == (3, 1, 1)
