# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What only a GPU can show: that it answers as the processor, runs full, is lost, and is given back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from belt_arm.evaluate import SHIPPED_PLAIN_POLICY
from remote_inference.base.policy import PolicyObservation
from remote_inference.server.policies.networks.torch_chunk import TorchChunkPolicy

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="found no GPU that torch can use, expected one: make test ARGS=test/server/policies/test_cuda.py",
)
SHIPPED = ("belt_arm", "belt_arm_flow", "belt_arm_guidance", "belt_arm_plain")
TF32 = 5e-3  # of values around 1: its convolutions keep 10 bits of a float32's 23


def load(name: str, device: str = "cuda") -> TorchChunkPolicy:
    return TorchChunkPolicy(SHIPPED_PLAIN_POLICY.with_name(name), device)


def inputs(policy: TorchChunkPolicy, count: int) -> list[Any]:
    random = np.random.default_rng(0)
    found = []
    for seed in range(count):
        images = {key: random.integers(0, 256, (72, 96, 3), np.uint8) for key in policy.spec.image_shapes}
        state = random.normal(size=len(policy.spec.state_names)).astype(np.float32)
        prefix = random.normal(size=(10, policy.spec.action_dim)).astype(np.float32)
        seen = PolicyObservation(
            state,
            images,
            "",
            seed=seed,
            prefix_model=prefix,
            prefix_robot=prefix,
            inference_delay_steps=seed,
        )
        found.append(policy.make_processors().pre(seen))
    return found


@pytest.mark.parametrize("name", SHIPPED)
def test_a_gpu_answers_as_the_processor_does(name: str) -> None:
    """Noise is drawn by the processor, so that a recorded request can be answered again on either."""
    here, there = load(name, "cpu"), load(name)
    for alone, on_gpu in zip(here.predict(inputs(here, 4)), there.predict(inputs(there, 4)), strict=True):
        np.testing.assert_allclose(on_gpu, alone, atol=TF32 * max(1.0, float(np.abs(alone).max())))
    for policy in (here, there):
        policy.close()


@pytest.mark.parametrize("name", SHIPPED)
def test_equal_requests_get_equal_bits(name: str) -> None:
    policy = load(name)
    first, again = (policy.predict(inputs(policy, 4)) for _ in range(2))
    assert [chunk.tobytes() for chunk in first] == [chunk.tobytes() for chunk in again]
    policy.close()


def test_a_full_gpu_fails_the_request_and_not_the_policy() -> None:
    """Memory that is free again is used again: the device is not taken for lost."""
    policy = load("belt_arm_plain")
    batch = inputs(policy, 16)
    expected = policy.predict(batch)
    torch.cuda.empty_cache()
    least = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(least)
    try:
        with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
            policy.predict(batch)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    np.testing.assert_array_equal(policy.predict(batch), expected)
    policy.close()


def test_a_closed_policy_gives_its_memory_back() -> None:
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    policy = load("belt_arm_flow")
    policy.predict(inputs(policy, 16))
    assert torch.cuda.memory_reserved() > before
    policy.close()
    assert torch.cuda.memory_reserved() == before


LOST = """
import torch
from remote_inference.base.policy import DeviceLostError
from test_cuda import inputs, load

policy = load("belt_arm_plain")
(sample,) = inputs(policy, 1)

def answer(images, state, batch):
    return state[torch.full((4,), 1 << 20, device="cuda")]

policy.network.answer = answer
for _ in range(2):
    try:
        policy.predict([sample])
    except DeviceLostError as error:
        print("lost:", error)
"""


def test_a_gpu_that_is_lost_is_told_from_a_request_that_failed() -> None:
    """After such an error no call of CUDA works any more in a process, so it happens in another one."""
    command, folder = [sys.executable, "-c", LOST], Path(__file__).parent
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("lost: CUDA error: ")]
    assert len(lines) == 2, ended.stdout + ended.stderr
