# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot itself loads what `export --lerobot-v3` writes, finds in it what the bag held, and trains on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from lerobot.configs.types import FeatureType
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.policies.act.configuration_act import ACTConfig
from lerobot.policies.act.modeling_act import ACTPolicy
from lerobot.policies.factory import make_pre_post_processors
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
CHUNK_SIZE = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data set of two bags, four episodes in all."""
    out = tmp_path_factory.mktemp("data")
    bags = [str(write_picked_run(out / name)) for name in ("first", "second")]
    assert main(["export", *bags, "--lerobot-v3", str(out / "picks"), "--quiet"]) == 0
    return out / "picks"


def load(folder: Path, **options: object) -> LeRobotDataset:
    return LeRobotDataset("local/picks", root=folder, video_backend="pyav", **options)


def test_lerobot_loads_the_frames_that_the_bags_held(folder: Path):
    picks = load(folder)
    assert (len(picks), picks.num_episodes, picks.fps) == (4 * FRAMES, 4, FPS)
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
        for camera in (CAMERA, "observation.images.wrist"):
            found = frame[camera].permute(1, 2, 0).numpy() * 255
            assert np.abs(found - picture_seen(tick)).mean() < 3, (
                "as far as a video and a JPEG image may be off"
            )


def test_lerobot_trains_act_on_it(folder: Path):
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
    policy = ACTPolicy(config)
    preprocess, _ = make_pre_post_processors(config, dataset_stats=picks.meta.stats)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    batch = preprocess(next(iter(DataLoader(picks, batch_size=8, shuffle=True))))
    losses = []
    for _ in range(8):
        loss, _ = policy(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
