# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Training: equal seeds give equal weights, and other policies look through the regression's encoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from belt_arm.collect import Dataset, collect_delayed
from belt_arm.labelled_episode import DelayedDataset
from belt_arm.learner import see
from belt_arm.train import (
    TrainingConfig,
    train,
    train_flow,
    train_prefix,
    train_prefix_flow,
)
from remote_inference.learn.environments.belt_arm.scene import IMAGE_FEATURES, JOINT_NAMES, MAX_STEP
from remote_inference.server.policies.networks.rtc_network import ActionPrefix, PrefixNetwork
from remote_inference.server.policies.networks.torch_chunk import (
    FlowConfig,
    PrefixFlowConfig,
    PrefixRegressionConfig,
    RegressionConfig,
)

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


PREFIX = {**POLICY, "max_delay_steps": 4}
PREFIX_TRAININGS = [(train_prefix, PrefixRegressionConfig), (train_prefix_flow, PrefixFlowConfig)]


@pytest.fixture(scope="module")
def delayed(dataset, teacher) -> DelayedDataset:
    """Delays at random; after each the arm rises from the newest executed row, or from where it is."""
    rng = np.random.default_rng(1)
    frame = np.repeat(np.arange(300), 2)
    executed = rng.integers(0, 5, 600)
    actions = rng.normal(size=(600, 4, 6)).astype(np.float32)
    newest = np.where(executed[:, None] > 0, actions[np.arange(600), executed - 1], dataset.states[frame])
    rise = np.arange(5)[:, None] * np.ones(6)
    return DelayedDataset(
        views=see(teacher, dataset.images, dataset.states),
        states=dataset.states,
        frame=frame,
        actions=actions,
        executed=executed,
        ticks=np.minimum(executed + rng.integers(0, 5, 600), 4),
        plans=(newest[:, None] + rise).astype(np.float32),
        episodes=1,
        successes=1,
    )


@pytest.mark.parametrize(("train_it", "document"), PREFIX_TRAININGS)
def test_equal_seeds_give_equal_weights_of_policies_with_latency(delayed, teacher, train_it, document):
    first, second = (train_it(delayed, document(**PREFIX), teacher, TRAINING) for _ in range(2))
    assert same(first, second)
    assert same(first.encoders, teacher.encoders)


@pytest.mark.parametrize(("train_it", "document"), PREFIX_TRAININGS)
def test_policies_with_latency_learn_to_go_on_from_the_newest_row(delayed, teacher, train_it, document):
    training = TrainingConfig(steps=500, batch_size=32)
    network: PrefixNetwork = train_it(delayed, document(**PREFIX), teacher, training)
    state = torch.from_numpy(delayed.states[:8])
    actions = (torch.from_numpy(delayed.actions[:16:2]) - network.action_mean) / network.action_std
    executed = torch.from_numpy(delayed.executed[:16:2])
    features = torch.cat(
        [torch.from_numpy(delayed.views[:8]), (state - network.state_mean) / network.state_std], dim=1
    )
    with torch.no_grad():
        inputs, newest = network.encode(features, state, ActionPrefix(actions, executed, executed))
        noise = torch.randn((8, *network.chunk_shape), generator=torch.Generator().manual_seed(0))
        found = newest[:, None] + network.predict_motion(inputs, noise)
    expected = (torch.from_numpy(delayed.plans[:16:2]) - network.action_mean) / network.action_std
    assert (found - expected).abs().mean() < 0.4


def test_frames_are_labelled_for_any_delay_and_plans_go_on_from_what_is_executed():
    def collect() -> DelayedDataset:
        return collect_delayed(2, lambda images, _: images.mean((2, 3, 4), np.float32), lambda _: None)

    data, again = collect(), collect()
    assert len(data.frame) == 4 * len(data.states) > 100
    for name in ("views", "states", "frame", "actions", "executed", "ticks", "plans"):
        assert getattr(data, name).tobytes() == getattr(again, name).tobytes()
    assert data.ticks.min() < 4
    assert data.ticks.max() > 32
    assert (data.executed <= data.ticks).all()
    assert (data.executed < data.ticks).any()
    some = np.flatnonzero(data.executed)
    newest = data.actions[some, data.executed[some] - 1]
    assert np.median(np.abs(data.plans[some, 0] - newest) / MAX_STEP) < 1
