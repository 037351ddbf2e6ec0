# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies with the executed actions among their inputs: their chunk begins with them and goes on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from belt_arm.evaluate import (
    SHIPPED_FLOW_POLICY,
    SHIPPED_POLICY,
    evaluate,
)
from remote_inference.base.documents.document import DocumentError
from remote_inference.base.policy import Continuation, PolicyObservation, ServingMode
from remote_inference.learn.environments.belt_arm.strategies import TRAINED
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.policies.networks.torch_chunk import (
    CONFIG_FILE,
    ChunkPolicyConfig,
    PrefixFlowConfig,
    PrefixRegressionConfig,
    TorchChunkPolicy,
    save_policy,
)
from remote_inference.server.warmup import find_serving_mode
from support.device import DEVICE

CAMERA = "observation.images.front"
SIZE, MAX_DELAY = 12, 7
STATE, ACTIONS = ("gripper", "shoulder", "elbow"), ("shoulder", "elbow")


@pytest.fixture(scope="module", params=[PrefixRegressionConfig, PrefixFlowConfig])
def folder(request, tmp_path_factory):
    """A small policy with random weights, whose state and actions differ in order and scale."""
    config = request.param(
        name="tiny",
        revision="1",
        state_names=STATE,
        action_names=ACTIONS,
        image_features={CAMERA: (8, 12, 3)},
        chunk_size=SIZE,
        trained_fps=30.0,
        channels=(2, 2, 2),
        hidden_units=32,
        max_delay_steps=MAX_DELAY,
    )
    torch.manual_seed(0)
    network = config.make_network()
    with torch.no_grad():
        network.action_mean.copy_(torch.tensor([1.0, -2.0]))
        network.action_std.copy_(torch.tensor([0.5, 2.0]))
        for layer in network.head[::2]:
            layer.weight.mul_(2.0)
    path = tmp_path_factory.mktemp("tiny")
    save_policy(path, config, network)
    return path


@pytest.fixture(scope="module")
def policy(folder):
    loaded = TorchChunkPolicy(folder, DEVICE)
    yield loaded
    loaded.close()


@pytest.fixture
def still_policy(folder):
    """A policy that has learnt not to move."""
    loaded = TorchChunkPolicy(folder, DEVICE)
    last = loaded.network.head[-1]
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    yield loaded
    loaded.close()


def observe(seed: int = 0, prefix: np.ndarray | None = None, delay: int = 0) -> PolicyObservation:
    rng = np.random.default_rng(seed)
    return PolicyObservation(
        state=rng.normal(size=len(STATE)).astype(np.float32),
        images={CAMERA: rng.integers(0, 256, (8, 12, 3), dtype=np.uint8)},
        task="",
        inference_delay_steps=delay,
        prefix_model=prefix,
        prefix_robot=prefix,
    )


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, len(ACTIONS))).astype(np.float32)


def ask(policy: TorchChunkPolicy, *observations: PolicyObservation) -> list[np.ndarray]:
    pre = policy.make_processors().pre
    return policy.predict([pre(observation) for observation in observations])


def differ(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.abs(first - second).max() > 1e-3)


def test_a_manifest_names_the_policy_which_says_that_it_was_trained_to_continue(folder):
    loaded = load_policy(ModelSource(backend="chunk_network", path=str(folder), device=DEVICE))
    assert loaded.spec.continuation is Continuation.TRAINED
    assert loaded.spec.supports_rtc
    assert find_serving_mode(loaded, "").mode is ServingMode.SHARED


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), min_size=1, max_size=6))
def test_a_chunk_begins_with_the_executed_rows_and_batches_agree_with_single_calls(policy, requests):
    observations = [
        observe(seed, rows(count, seed) if count else None, delay)
        for seed, (count, delay) in enumerate(requests)
    ]
    chunks = ask(policy, *observations)
    for (count, delay), observation, chunk in zip(requests, observations, chunks, strict=True):
        assert (chunk.shape, chunk.dtype) == ((SIZE, len(ACTIONS)), np.float32)
        executed = min(count, delay, MAX_DELAY)
        if executed:
            assert chunk[:executed].tobytes() == observation.prefix_model[:executed].tobytes()
        np.testing.assert_allclose(chunk, ask(policy, observation)[0], atol=1e-4)


def test_the_new_rows_go_on_from_the_newest_executed_row(policy, still_policy):
    prefix = rows(9)
    (chunk,) = ask(still_policy, observe(0, prefix, 4))
    np.testing.assert_array_equal(chunk[:4], prefix[:4])
    np.testing.assert_allclose(chunk[4:], np.tile(prefix[3], (SIZE - 4, 1)), atol=1e-6)


@pytest.mark.parametrize("delay", [0, 5])
def test_the_new_rows_go_on_from_the_measured_position_where_nothing_is_executed(still_policy, delay):
    observation = observe(0, None, delay)
    measured = observation.state[[STATE.index(name) for name in ACTIONS]]
    (chunk,) = ask(still_policy, observation)
    robot = still_policy.make_processors().post(chunk)
    np.testing.assert_allclose(robot, np.tile(measured, (SIZE, 1)), atol=1e-5)


def test_rows_that_are_not_executed_before_the_arrival_do_not_matter(policy):
    prefix = rows(9)
    changed = prefix.copy()
    changed[4:] += 10
    expected, found = (ask(policy, observe(0, some, 4))[0] for some in (prefix, changed))
    assert found.tobytes() == expected.tobytes()


def test_each_executed_row_matters_to_the_new_ones(policy):
    prefix = rows(4)
    (expected,) = ask(policy, observe(0, prefix, 4))
    for row in range(4):
        changed = prefix.copy()
        changed[row] += 1
        assert differ(ask(policy, observe(0, changed, 4))[0][4:], expected[4:])


def test_the_time_without_rows_matters(policy):
    short, long = (ask(policy, observe(0, rows(2), delay))[0] for delay in (2, 6))
    assert differ(short, long)
    assert differ(*(ask(policy, observe(0, None, delay))[0] for delay in (0, 6)))


def test_a_delay_beyond_the_training_counts_as_the_longest(policy):
    longest, beyond = (ask(policy, observe(0, rows(10), delay))[0] for delay in (MAX_DELAY, 30))
    assert beyond.tobytes() == longest.tobytes()


def test_the_configuration_reads_back(policy, folder):
    assert ChunkPolicyConfig.parse(policy.config.to_json(), folder / CONFIG_FILE) == policy.config


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"max_delay_steps": 7', b'"max_delay_steps": 12', "max_delay_steps: found 12, expected less than"),
        (
            b'"gripper",\n    "shoulder"',
            b'"gripper",\n    "wrist"',
            "action_names: found 'shoulder', expected",
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(policy, folder, old, new, message):
    text = policy.config.to_json()
    assert old in text
    with pytest.raises(DocumentError, match=message):
        ChunkPolicyConfig.parse(text.replace(old, new), folder / CONFIG_FILE)


SHIPPED = pytest.mark.parametrize("path", [SHIPPED_POLICY, SHIPPED_FLOW_POLICY], ids=lambda path: path.name)


@SHIPPED
def test_the_shipped_policy_is_small_and_has_a_card(path):
    assert sum(file.stat().st_size for file in path.iterdir()) < 2_500_000
    shipped = TorchChunkPolicy(path, DEVICE)
    assert shipped.spec.name == path.name
    assert shipped.spec.fingerprint in (path / "README.md").read_text()
    shipped.close()


@SHIPPED
@pytest.mark.parametrize(
    "link", [{"latency_s": 0.0}, {"latency_s": 0.6}, {"latency_s": 0.6, "jitter_s": 0.1}], ids=str
)
def test_latency_costs_the_shipped_policy_nothing(path, link):
    shipped = TorchChunkPolicy(path, DEVICE)
    result = evaluate(shipped, range(300, 310), strategy=TRAINED, **link)
    assert result.successes >= 9
    shipped.close()


@SHIPPED
def test_the_shipped_policy_is_blind_without_cameras(path):
    shipped = TorchChunkPolicy(path, DEVICE)
    assert evaluate(shipped, range(300, 305), strategy=TRAINED, cameras_black=True).successes <= 1
    shipped.close()
