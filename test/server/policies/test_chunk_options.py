# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a manifest asks of a chunk network besides its files: a device of a list, and compilation."""

from __future__ import annotations

import gc
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remote_inference.base.policy import DeviceError, PolicyObservation
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.networks.chunk_network import ObservationNetwork
from remote_inference.server.policies.networks.torch_chunk import (
    ChunkPolicyConfig,
    FlowConfig,
    RegressionConfig,
    TorchChunkPolicy,
    save_policy,
)
from support.device import DEVICE

CAMERA = "observation.images.front"
SHAPE: dict[str, Any] = {
    "name": "tiny",
    "revision": "1",
    "state_names": ("elbow",),
    "action_names": ("elbow",),
    "image_features": {CAMERA: (8, 8, 3)},
    "chunk_size": 4,
    "trained_fps": 30.0,
    "channels": (1, 1, 1),
    "hidden_units": 4,
}
REGRESSION = RegressionConfig(**SHAPE)
FLOW = FlowConfig(**SHAPE, denoising_steps=2, execution_horizon=3)
needs_a_compiler = pytest.mark.skipif(
    not shutil.which("c++"), reason="found no C++ compiler, which torch.compile needs"
)


def write_policy(folder: Path, config: ChunkPolicyConfig) -> Path:
    torch.manual_seed(0)
    save_policy(folder, config, config.make_network())
    return folder


def observe(seed: int = 0, **changes: Any) -> PolicyObservation:
    image = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    return PolicyObservation(np.ones(1, np.float32), {CAMERA: image}, "", seed=seed, **changes)


def ask(policy: Any, *observations: PolicyObservation) -> np.ndarray:
    pre = policy.make_processors().pre
    return np.stack(policy.predict([pre(observation) for observation in observations]))


def live_networks() -> int:
    gc.collect()
    return sum(isinstance(thing, ObservationNetwork) for thing in gc.get_objects())


def compiled_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def test_a_policy_that_finds_no_device_leaves_nothing_loaded(tmp_path: Path) -> None:
    before = live_networks()
    model: Any = {"path": str(write_policy(tmp_path, REGRESSION)), "device": ("cuda:98", "cuda:99")}
    with pytest.raises(DeviceError) as refusal:
        load_policy(ModelSource(backend="chunk_network", **model))
    assert live_networks() == before
    assert "'cuda:98'" in str(refusal.value)
    assert "'cuda:99'" in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1


@pytest.fixture(scope="module")
def flow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_policy(tmp_path_factory.mktemp("flow"), FLOW)


@pytest.fixture(scope="module")
def compiled(flow: Path) -> Any:
    """A compiled policy after its warm-up; compiling takes long."""
    source = ModelSource(backend="chunk_network", path=str(flow), device=DEVICE, options={"compile": True})
    policy: Any = load_policy(source)
    with pytest.MonkeyPatch.context() as patch:
        # torch imports setuptools, which fails where another test has imported Python's own distutils.
        patch.setenv("SETUPTOOLS_USE_DISTUTILS", "stdlib")
        ask(policy, observe())
    return policy


@needs_a_compiler
def test_a_compiled_policy_answers_as_the_plain_one_and_has_another_fingerprint(
    flow: Path, compiled: Any
) -> None:
    plain = TorchChunkPolicy(flow, DEVICE)
    assert compiled.spec.fingerprint != plain.spec.fingerprint
    assert compiled_graphs() >= 2, "the encoder is a graph of its own: the head is called in a loop"
    np.testing.assert_allclose(ask(compiled, observe()), ask(plain, observe()), atol=1e-3)


@needs_a_compiler
def test_the_first_prefix_of_a_robot_does_not_wait_for_the_compiler(compiled: Any) -> None:
    """The server's warm-up continues no prefix."""
    before = compiled_graphs()
    prefix = np.ones((3, 1), np.float32)
    guided = ask(compiled, observe(prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=1))
    assert compiled_graphs() == before
    assert np.abs(guided - ask(compiled, observe())).max() > 1e-3, "the prefix counts"
