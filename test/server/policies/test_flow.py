# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The flow policy: equal requests give equal chunks, and a prefix is continued."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from belt_arm.evaluate import SHIPPED_GUIDANCE_POLICY, evaluate
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import PolicyError, PolicyObservation, ServingMode
from remote_inference.learn.environments.belt_arm.strategies import GUIDANCE, TRIM
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.networks.chunk_network import NetworkSettings
from remote_inference.server.policies.networks.rtc_network import FlowNetwork, prefix_weights
from remote_inference.server.policies.networks.torch_chunk import (
    CONFIG_FILE,
    ChunkPolicyConfig,
    FlowConfig,
    TorchChunkPolicy,
    save_policy,
)
from remote_inference.server.warmup import find_serving_mode
from support.device import DEVICE

CAMERA = "observation.images.front"
SIZE, JOINTS, HORIZON = 12, ("shoulder", "elbow"), 9
UNSEEN_SEEDS = range(300, 310)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small policy with random weights, large enough for chunks to depend on every part of the input."""
    config = FlowConfig(
        name="tiny",
        revision="1",
        state_names=JOINTS,
        action_names=JOINTS,
        image_features={CAMERA: (8, 12, 3)},
        chunk_size=SIZE,
        trained_fps=30.0,
        channels=(2, 2, 2),
        hidden_units=32,
        execution_horizon=HORIZON,
    )
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("tiny")
    network = config.make_network()
    with torch.no_grad():
        for layer in network.head[::2]:
            layer.weight.mul_(2.0)
    save_policy(path, config, network)
    return path


@pytest.fixture(scope="module")
def policy(folder):
    loaded = TorchChunkPolicy(folder, DEVICE)
    yield loaded
    loaded.close()


def observe(
    seed: int = 0, prefix: np.ndarray | None = None, delay: int = 0, noise: int = 0
) -> PolicyObservation:
    rng = np.random.default_rng(seed)
    return PolicyObservation(
        state=rng.normal(size=2).astype(np.float32),
        images={CAMERA: rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)},
        task="",
        inference_delay_steps=delay,
        prefix_model=prefix,
        seed=noise,
    )


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, 2)).astype(np.float32)


def ask(policy: TorchChunkPolicy, *observations: PolicyObservation) -> list[np.ndarray]:
    pre = policy.make_processors().pre
    return policy.predict([pre(observation) for observation in observations])


def test_the_flow_policy_supports_rtc_and_shared_serving(policy):
    assert policy.spec.supports_rtc
    assert find_serving_mode(policy, "").mode is ServingMode.SHARED


def test_a_manifest_names_the_flow_policy_like_the_regression(folder):
    loaded = load_policy(ModelSource(backend="chunk_network", path=str(folder), device=DEVICE))
    assert loaded.spec.supports_rtc


def test_equal_requests_give_equal_chunks_and_different_requests_do_not(policy):
    first, other, again = (ask(policy, observe(seed))[0] for seed in (1, 2, 1))
    assert (first.shape, first.dtype) == ((SIZE, 2), np.float32)
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other).max() > 0.01
    noisier = ask(policy, observe(1, noise=7))[0]
    assert np.abs(first - noisier).max() > 0.01, "the noise comes from the seed"
    guided = [ask(policy, observe(1, rows(10), 3))[0] for _ in range(2)]
    assert guided[0].tobytes() == guided[1].tobytes()


def test_the_temperature_scales_the_noise(policy):
    cold, colder = (ask(policy, replace(observe(1, noise=noise), temperature=0.0))[0] for noise in (7, 8))
    assert cold.tobytes() == colder.tobytes(), "without noise its seed does not matter"
    warm, hot = (ask(policy, replace(observe(1, noise=7), temperature=scale))[0] for scale in (1.0, 2.0))
    assert np.abs(hot - cold).mean() > np.abs(warm - cold).mean() > 0.01


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=2, max_size=6))
def test_batched_chunks_equal_single_ones_for_any_mix_of_prefixes_and_delays(policy, requests):
    observations = [
        observe(seed, rows(count, seed) if count else None, delay, noise=seed)
        for seed, (count, delay) in enumerate(requests)
    ]
    together = ask(policy, *observations)
    for observation, chunk in zip(observations, together, strict=True):
        np.testing.assert_allclose(chunk, ask(policy, observation)[0], atol=1e-4)


class Gaussian(FlowNetwork):
    """Knows the flow of chunks whose values are independent and normal, with mean 0 and deviation 1."""

    def forward(self, features: torch.Tensor, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        t = time[:, None, None]
        return t / (t**2 + (1 - t) ** 2) * noisy


def test_guidance_holds_the_rows_to_be_executed_and_leaves_those_beyond_the_horizon(policy):
    network = Gaussian(
        NetworkSettings(
            [(8, 12)],
            state_dim=2,
            action_dim=2,
            chunk_size=SIZE,
            channels=(2, 2, 2),
            hidden_units=256,
            denoising_steps=10,
            execution_horizon=HORIZON,
            max_guidance_weight=10.0,
        )
    )
    noise, prefix = torch.randn(2, 50, SIZE, 2)
    weights = torch.from_numpy(prefix_weights(SIZE, 4, HORIZON, SIZE)).expand(50, -1)
    features = torch.zeros(50, network.feature_dim)
    free = network.sample(features, noise)
    guided = network.sample(features, noise, (prefix, weights))
    left = (guided - prefix).abs().mean((0, 2)) / (free - prefix).abs().mean((0, 2))
    assert (left[:4] < 0.1).all()
    assert (left[4:HORIZON].diff() > 0).all()
    torch.testing.assert_close(guided[:, HORIZON:], free[:, HORIZON:])


def test_rows_beyond_the_horizon_and_beyond_the_chunk_do_not_matter(policy):
    prefix = rows(SIZE)
    changed = prefix.copy()
    changed[HORIZON:] += 10
    expected = ask(policy, observe(0, prefix, 4))[0]
    assert ask(policy, observe(0, changed, 4))[0].tobytes() == expected.tobytes()
    longer = np.concatenate([prefix, rows(5)])
    assert ask(policy, observe(0, longer, 4))[0].tobytes() == expected.tobytes()


def test_the_inference_delay_changes_the_chunk(policy):
    early, late = (ask(policy, observe(0, rows(SIZE), delay))[0] for delay in (1, 6))
    assert np.abs(early - late).max() > 1e-3


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        (np.zeros((3, 5), np.float32), r"prefix_model: found shape \[3, 5\], expected \[actions, 2\]"),
        (np.full((3, 2), np.nan, np.float32), "prefix_model: found non-finite values"),
    ],
)
def test_a_malformed_prefix_is_refused(policy, prefix, message):
    with pytest.raises(PolicyError, match=message):
        ask(policy, observe(0, prefix))


def test_the_configuration_reads_back(policy, folder):
    assert ChunkPolicyConfig.parse(policy.config.to_json(), folder / CONFIG_FILE) == policy.config


def test_a_setting_of_the_other_architecture_is_refused(policy, folder):
    text = policy.config.to_json().replace(b"flow_network", b"chunk_network")
    with pytest.raises(DocumentError, match="denoising_steps: unknown key"):
        ChunkPolicyConfig.parse(text, folder / CONFIG_FILE)


@pytest.fixture(scope="module")
def shipped():
    loaded = TorchChunkPolicy(SHIPPED_GUIDANCE_POLICY, DEVICE)
    yield loaded
    loaded.close()


def test_the_shipped_policy_is_small_and_has_a_card(shipped):
    assert sum(path.stat().st_size for path in SHIPPED_GUIDANCE_POLICY.iterdir()) < 1_500_000
    assert shipped.spec.fingerprint in (SHIPPED_GUIDANCE_POLICY / "README.md").read_text()


def test_guidance_makes_the_shipped_policy_s_seams_smaller_and_loses_no_cube(shipped):
    """The excess of the steps at seams over the steps within chunks at least halves."""
    free = evaluate(shipped, UNSEEN_SEEDS, latency_s=0.3, strategy=TRIM)
    guided = evaluate(shipped, UNSEEN_SEEDS, latency_s=0.3, strategy=GUIDANCE)
    jumps = [result.at_seams.mean - result.within_chunks.mean for result in (free, guided)]
    assert jumps[1] < 0.5 * jumps[0]
    assert guided.at_seams.max < 0.8 * free.at_seams.max
    assert guided.successes >= max(free.successes, 8)


def test_the_shipped_policy_is_blind_without_cameras(shipped):
    assert evaluate(shipped, UNSEEN_SEEDS, cameras_black=True).successes <= 1
