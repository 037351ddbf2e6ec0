# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A served LeRobot policy takes a trainer's weights and answers as if it had been loaded with them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from remote_inference.base.policy import Policy, UpdatablePolicy
from remote_inference.learn.weights import WeightSender
from support.lerobot.direct import ask, observe
from support.lerobot.tiny_policies import BUILDERS, Built, size_of
from support.weights.weight_models import Served

DEADLINE_S = 120.0


def train(tensors: Mapping[str, torch.Tensor], share: float) -> None:
    """Change a share of the floating-point weights a little."""
    generator = torch.Generator().manual_seed(1)
    for tensor in tensors.values():
        if tensor.is_floating_point():
            chosen = torch.rand(tensor.shape, generator=generator) < share
            step = 0.05 * torch.randn(tensor.shape, generator=generator) * chosen
            tensor.add_(step.to(tensor))


@pytest.mark.parametrize("kind", list(BUILDERS))
def test_a_policy_answers_with_the_weights_that_a_trainer_has_sent(
    kind: str, built: dict[str, Built], policies: dict[str, Policy]
) -> None:
    served, trained = built[kind].load(), policies[kind]
    assert isinstance(served, UpdatablePolicy)
    begin = {name: tensor.clone() for name, tensor in trained.weights().items()}
    observation = observe(1, size_of(kind))
    before = ask(served, served.make_processors(), observation)
    server, sender = Served(served.weights()), WeightSender(trained.weights)
    try:
        sender.init_sender({"server": server.connect})
        train(trained.weights(), 0.1)
        sender.sync(2)
        status = sender.wait(DEADLINE_S)["server"]
        assert (status.version, status.is_current) == (2, True), status
        expected = ask(trained, trained.make_processors(), observation)
        assert np.abs(expected - before).max() > 1e-4
        np.testing.assert_array_equal(ask(served, served.make_processors(), observation), expected)
    finally:
        sender.close()
        server.close()
        for name, tensor in trained.weights().items():  # others use the policy, too
            tensor.copy_(begin[name])
        served.close()
