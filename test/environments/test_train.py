# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Training: equal seeds give equal weights, and the flow policy looks through the regression's encoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from remote_inference.environments.belt_arm.collect import Dataset
from remote_inference.environments.belt_arm.scene import IMAGE_FEATURES, JOINT_NAMES
from remote_inference.environments.belt_arm.train import TrainingConfig, train, train_flow
from remote_inference.policies.chunk_config import FlowConfig, RegressionConfig

POLICY = {
    "name": "tiny",
    "revision": "1",
    "state_names": JOINT_NAMES,
    "action_names": JOINT_NAMES,
    "image_features": dict.fromkeys(IMAGE_FEATURES.values(), (8, 12, 3)),
    "chunk_size": 5,
    "trained_fps": 30.0,
    "channels": (2, 2, 2),
    "hidden_units": 16,
}
TRAINING = TrainingConfig(steps=20, batch_size=8)


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, 2, 3, 8, 12), dtype=np.uint8)
    states, chunks = rng.normal(size=(300, 6)), rng.normal(size=(300, 5, 6))
    return Dataset(images, states.astype(np.float32), chunks.astype(np.float32), 1, 1)


@pytest.fixture(scope="module")
def teacher(dataset):
    return train(dataset, RegressionConfig(**POLICY), TRAINING)


def same(first: torch.nn.Module, second: torch.nn.Module) -> bool:
    pairs = zip(first.state_dict().items(), second.state_dict().items(), strict=True)
    return all(a == b and torch.equal(x, y) for (a, x), (b, y) in pairs)


def test_equal_seeds_give_equal_weights(dataset, teacher):
    assert same(train(dataset, RegressionConfig(**POLICY), TRAINING), teacher)
    first, second = (train_flow(dataset, FlowConfig(**POLICY), teacher, TRAINING) for _ in range(2))
    assert same(first, second)


def test_the_flow_policy_keeps_encoders_and_normalisation_of_its_teacher(dataset, teacher):
    flow = train_flow(dataset, FlowConfig(**POLICY), teacher, TRAINING)
    assert same(flow.encoders, teacher.encoders)
    for name in ("state_mean", "state_std", "action_mean", "action_std"):
        assert torch.equal(getattr(flow, name), getattr(teacher, name))


def test_the_flow_policy_learns_the_chunks(dataset, teacher):
    """Of a single chunk there is one thing to learn, whatever the noise."""
    chunk = np.broadcast_to(dataset.chunks[:1], dataset.chunks.shape)
    constant = Dataset(dataset.images, dataset.states, chunk.copy(), 1, 1)
    flow = train_flow(constant, FlowConfig(**POLICY), teacher, TrainingConfig(steps=500, batch_size=32))
    state = torch.from_numpy(dataset.states[:4])
    features = flow.observe(torch.from_numpy(dataset.images[:4]).unbind(1), state)
    expected = (torch.from_numpy(chunk[:4].copy()) - flow.action_mean) / flow.action_std
    drawn = flow.sample(features, torch.randn(expected.shape))
    assert (drawn - expected).abs().mean() < 0.2
