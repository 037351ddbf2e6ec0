# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A learner goes on from a policy's weights, as the expert would, and the same way each time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from belt_arm.evaluate import SHIPPED_BEGINNER
from belt_arm.learner import Learner
from remote_inference.server.policies.networks.rtc_network import PrefixChunkNetwork
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy


def load_network() -> PrefixChunkNetwork:
    network = TorchChunkPolicy(SHIPPED_BEGINNER).network
    assert isinstance(network, PrefixChunkNetwork)
    return network


@pytest.fixture
def learner() -> Iterator[Learner]:
    made = Learner(load_network(), seed=3)
    yield made
    made.close()


def test_a_learner_comes_closer_to_the_expert_and_keeps_the_encoders(learner: Learner) -> None:
    before = load_network()
    learner.gather(4)
    assert (learner.episodes, learner.frames > 40) == (4, True)
    first = learner.improve(5)
    for _ in range(5):
        last = learner.improve(5)
    assert last < 0.7 * first
    assert learner.steps == 30
    changed = {
        name
        for (name, new), old in zip(
            learner.network.state_dict().items(), before.state_dict().values(), strict=True
        )
        if not torch.equal(new, old)
    }
    assert changed
    assert all(name.startswith("head.") for name in changed)


def test_equal_seeds_and_calls_give_equal_weights(learner: Learner) -> None:
    other = Learner(load_network(), seed=3)
    learner.gather(1)
    other.gather(1)
    losses = []
    for one in (learner, other):
        torch.manual_seed(5)
        losses.append([one.improve(2), one.improve(1)])
    other.close()
    assert np.array_equal(*losses)
    for new, old in zip(
        learner.network.state_dict().values(), other.network.state_dict().values(), strict=True
    ):
        assert torch.equal(new, old)
