# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the back end answers, beside LeRobot itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from remote_inference.base.policy import (
    Continuation,
    PastStep,
    Policy,
    PolicyError,
    PolicyObservation,
    ServingMode,
)
from remote_inference.server.manifest.manifest import Manifest
from remote_inference.server.warmup import find_serving_mode, require_batches_to_agree
from support.device import BATCH_ROUNDING, DEVICE
from support.lerobot.direct import NOISE, Direct, ask, noise, observe
from support.lerobot.tiny_policies import BUILDERS, CAMERA, CHUNK, JOINTS, Built, build_diffusion, size_of

EVERY_KIND = pytest.mark.parametrize("kind", list(BUILDERS))
GUIDED = pytest.mark.parametrize("kind", ["pi05", "smolvla"])


@EVERY_KIND
def test_a_chunk_is_lerobots_own(kind: str, built: dict[str, Built], policies: dict[str, Policy]) -> None:
    policy, direct = policies[kind], Direct(built[kind])
    processors = policy.make_processors()
    for seed in (1, 2):
        observation = observe(seed, size_of(kind))
        given = {"noise": noise(seed, NOISE[kind])} if kind in NOISE else {}
        expected = direct.chunk(observation, **given)
        assert np.ptp(expected) > 1e-3  # a constant would be equal to anything constant
        np.testing.assert_allclose(ask(policy, processors, observation), expected, atol=1e-5)


@EVERY_KIND
def test_an_equal_request_gets_an_equal_chunk_whatever_was_asked_between(
    kind: str, policies: dict[str, Policy]
) -> None:
    policy = policies[kind]
    processors = policy.make_processors()
    first = ask(policy, processors, observe(1, size_of(kind)))
    other = ask(policy, processors, observe(2, size_of(kind)))
    assert np.array_equal(ask(policy, processors, observe(1, size_of(kind))), first)
    assert np.abs(other - first).max() > 1e-4


@pytest.mark.parametrize("kind", [*NOISE, "xvla"])
def test_another_seed_gives_another_chunk(kind: str, policies: dict[str, Policy]) -> None:
    policy = policies[kind]
    processors = policy.make_processors()
    observation = observe(1, size_of(kind))
    one, two = (ask(policy, processors, replace(observation, seed=seed)) for seed in (1, 2))
    assert np.abs(one - two).max() > 1e-4


@EVERY_KIND
def test_all_but_act_say_that_they_sample(kind: str, policies: dict[str, Policy]) -> None:
    assert policies[kind].spec.samples == (kind != "act")


@EVERY_KIND
def test_torchs_own_random_numbers_are_left_alone(kind: str, policies: dict[str, Policy]) -> None:
    policy = policies[kind]  # building its network, which the first test to want it does, draws
    torch.manual_seed(5)
    expected = [torch.rand(1, device=device) for device in ("cpu", DEVICE)]
    torch.manual_seed(5)
    ask(policy, policy.make_processors(), observe(1, size_of(kind)))
    assert [torch.rand(1, device=device) for device in ("cpu", DEVICE)] == expected


@EVERY_KIND
def test_policies_that_draw_noise_are_shared(kind: str, policies: dict[str, Policy]) -> None:
    assert find_serving_mode(policies[kind], "pick").mode is ServingMode.SHARED


@pytest.mark.parametrize("kind", ["act", *NOISE])
def test_a_batch_answers_as_its_inputs_alone(kind: str, policies: dict[str, Policy]) -> None:
    policy = policies[kind]
    assert policy.spec.max_batch > 4
    model = {"backend": "lerobot", "path": "."}
    require_batches_to_agree(policy, 4, Manifest(model=model, scheduler="micro_batch"))


@pytest.mark.parametrize("kind", ["pi0", "pi05", "smolvla"])
def test_tasks_of_different_lengths_make_one_batch(kind: str, policies: dict[str, Policy]) -> None:
    """smolvla pads to the longest task of a batch, and ours come one by one."""
    policy = policies[kind]
    pairs = [policy.make_processors() for _ in range(2)]
    observations = [observe(1, task="pick"), observe(2, task="pick up the red cube")]
    alone = [ask(policy, pair, seen) for pair, seen in zip(pairs, observations, strict=True)]
    together = policy.predict([pair.pre(seen) for pair, seen in zip(pairs, observations, strict=True)])
    for pair, rows, expected in zip(pairs, together, alone, strict=True):
        np.testing.assert_allclose(pair.post(rows), expected, atol=BATCH_ROUNDING)
    assert np.abs(ask(policy, pairs[0], observe(1, task="red cube")) - alone[0]).max() > 1e-5


def test_a_policy_that_ignores_noise_is_asked_input_by_input(policies: dict[str, Policy]) -> None:
    """xvla has an argument for noise, which it does not use."""
    assert policies["xvla"].spec.max_batch == 1


def test_a_sampler_that_draws_at_every_step_is_not_batched_and_repeats(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    policy = build_diffusion(tmp_path_factory.mktemp("ddpm"), "DDPM").load()
    assert policy.spec.max_batch == 1
    processors = policy.make_processors()
    assert np.array_equal(ask(policy, processors, observe(3)), ask(policy, processors, observe(3)))
    assert find_serving_mode(policy, "pick").mode is ServingMode.SHARED


def look_back(observation: PolicyObservation, before: PolicyObservation) -> PolicyObservation:
    return replace(observation, past=(PastStep(before.state, before.images),))


@pytest.mark.parametrize("kind", ["diffusion", "diffusion_history"])
def test_a_rollout_is_lerobots_own(kind: str, built: dict[str, Built], policies: dict[str, Policy]) -> None:
    """LeRobot keeps the frames itself, and repeats the first; robots send them."""
    policy = policies[kind]
    processors = policy.make_processors()
    frames = [observe(seed) for seed in range(20)]
    found = []
    for now in range(0, len(frames), policy.spec.chunk_size):
        asked = frames[now]
        if policy.spec.observation_steps == 2:
            asked = look_back(asked, before=frames[max(now - 1, 0)])
        found.extend(ask(policy, processors, asked))
    expected = Direct(built[kind]).roll_out(frames)
    np.testing.assert_allclose(found[: len(frames)], expected, atol=1e-5)


def test_a_policy_with_history_answers_as_lerobots_own(
    built: dict[str, Built], policies: dict[str, Policy]
) -> None:
    """diffusion takes `[batch, steps, ...]`, oldest first."""
    policy = policies["diffusion_history"]
    assert policy.spec.observation_steps == 2
    assert policy.spec.max_batch > 1
    processors = policy.make_processors()
    observation = look_back(observe(2), before=observe(1))
    expected = Direct(built["diffusion_history"]).chunk(observation, noise=noise(2, NOISE["diffusion"]))
    np.testing.assert_allclose(ask(policy, processors, observation), expected, atol=1e-5)
    other = ask(policy, processors, look_back(observe(2), before=observe(3)))
    assert np.abs(other - expected).max() > 1e-4
    with pytest.raises(PolicyError, match="past: found 0 control ticks, expected 1"):
        processors.pre(observe(2))


def test_a_policy_with_history_is_shared_and_batched(policies: dict[str, Policy]) -> None:
    """LeRobot keeps its history in a queue of the policy, which two robots would fill in turn."""
    policy = policies["diffusion_history"]
    assert find_serving_mode(policy, "pick").mode is ServingMode.SHARED
    model = {"backend": "lerobot", "path": "."}
    require_batches_to_agree(policy, 4, Manifest(model=model, scheduler="micro_batch"))


def test_the_rows_of_a_chunk_are_what_the_policy_answers(policies: dict[str, Policy]) -> None:
    """diffusion plans 16 rows and answers with 8."""
    rows = {kind: policies[kind].spec.chunk_size for kind in BUILDERS}
    assert rows == {**dict.fromkeys(BUILDERS, CHUNK), "diffusion": 8}


def test_another_image_size_is_resampled_to_that_of_the_training(policies: dict[str, Policy]) -> None:
    """act takes any size and answers differently."""
    policy = policies["act"]
    processors = policy.make_processors()
    small = observe(1)
    large = replace(small, images={CAMERA: small.images[CAMERA].repeat(2, axis=0).repeat(2, axis=1)})
    np.testing.assert_allclose(ask(policy, processors, large), ask(policy, processors, small), atol=1e-5)


@EVERY_KIND
def test_the_specification_has_the_names_of_the_options(kind: str, policies: dict[str, Policy]) -> None:
    spec = policies[kind].spec
    assert spec.name == kind
    assert spec.state_names == spec.action_names == JOINTS
    assert spec.trained_fps == 30.0
    assert dict(spec.image_shapes) == {CAMERA: (*size_of(kind), 3)}


@EVERY_KIND
def test_only_policies_with_real_time_chunking_continue_a_prefix(
    kind: str, policies: dict[str, Policy]
) -> None:
    guided = kind in {"pi0", "pi05", "smolvla"}
    assert policies[kind].spec.continuation is (Continuation.GUIDANCE if guided else Continuation.NONE)
    policy = policies[kind]
    prefix = np.full((6, 3), 0.7, np.float32)
    observation = observe(1, size_of(kind))
    continued = replace(observation, prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=2)
    processors = policy.make_processors()
    difference = np.abs(ask(policy, processors, continued) - ask(policy, processors, observation)).max()
    assert (difference > 1e-3) == guided


@GUIDED
def test_a_continued_chunk_is_lerobots_own(
    kind: str, built: dict[str, Built], policies: dict[str, Policy]
) -> None:
    prefix = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    expected = Direct(built[kind]).chunk(
        observe(1),
        noise=noise(1, NOISE[kind]),
        inference_delay=2,
        prev_chunk_left_over=torch.from_numpy(prefix).to(DEVICE),
    )
    continued = observe(1, prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=2)
    found = ask(policies[kind], policies[kind].make_processors(), continued)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["pi0", "pi05", "smolvla"])
def test_different_delays_and_prefixes_in_a_batch_answer_as_alone(
    kind: str, policies: dict[str, Policy]
) -> None:
    """LeRobot takes one delay for a whole batch."""
    policy = policies[kind]
    random = np.random.default_rng(0)
    observations = []
    for seed, (rows, delay) in enumerate([(6, 1), (6, 4), (0, 0), (8, 4), (6, 1), (CHUNK + 3, 2)]):
        prefix = random.normal(size=(rows, 3)).astype(np.float32) if rows else None
        observations.append(
            observe(seed, prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=delay)
        )
    pairs = [policy.make_processors() for _ in observations]
    alone = [ask(policy, pair, seen) for pair, seen in zip(pairs, observations, strict=True)]
    together = policy.predict([pair.pre(seen) for pair, seen in zip(pairs, observations, strict=True)])
    for pair, rows, expected in zip(pairs, together, alone, strict=True):
        np.testing.assert_allclose(pair.post(rows), expected, atol=BATCH_ROUNDING)
    swapped = ask(policy, pairs[0], replace(observations[0], inference_delay_steps=4))
    assert np.abs(swapped - alone[0]).max() > 1e-5, "the delay makes no difference here"


def test_the_manifest_bounds_the_guidance(built: dict[str, Built], policies: dict[str, Policy]) -> None:
    prefix = np.full((8, 3), 0.7, np.float32)
    continued = observe(1, prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=2)
    short = built["smolvla"].load(options={"execution_horizon": 3})
    found = [ask(policy, policy.make_processors(), continued) for policy in (policies["smolvla"], short)]
    assert np.abs(found[0] - found[1]).max() > 1e-4
    assert short.spec.fingerprint != policies["smolvla"].spec.fingerprint
