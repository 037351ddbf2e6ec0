# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Requests with different prefixes and delays share a call, although LeRobot takes one delay for a batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from lerobot.configs import RTCAttentionSchedule
from lerobot.policies.rtc import RTCConfig, RTCProcessor

from remote_inference.base.policy import Policy, PolicyObservation
from remote_inference.server.policies.lerobot.policy import BatchRTC
from remote_inference.server.policies.lerobot.processors import LeRobotInput
from support.device import BATCH_ROUNDING
from support.lerobot.direct import Direct, observe
from support.lerobot.tiny_policies import CHUNK, JOINTS, Built

HORIZON = 6
DELAYS = (0, 3, 5)
PREFIXES = (0, 3, HORIZON, 9)  # none, shorter than the horizon, equal to it, longer
WAITS = [(rows, delay) for rows in PREFIXES for delay in DELAYS]
GUIDED = pytest.mark.parametrize("kind", ["pi0", "pi05", "smolvla"])


def waiting(seed: int, rows: int, delay: int) -> PolicyObservation:
    """Return the observation of a robot that has so many rows left, and waits so long for the answer."""
    prefix = np.random.default_rng(seed).normal(size=(rows, len(JOINTS))).astype(np.float32) if rows else None
    return observe(seed, prefix_model=prefix, prefix_robot=prefix, inference_delay_steps=delay)


def prepare(policy: Policy, observations: Sequence[PolicyObservation]) -> list[LeRobotInput]:
    return [policy.make_processors().pre(observation) for observation in observations]


@GUIDED
def test_each_request_of_a_mixed_batch_gets_lerobots_own_answer(kind: str, built: dict[str, Built]) -> None:
    policy = built[kind].load(options={"execution_horizon": HORIZON})
    direct = Direct(built[kind], HORIZON)
    observations = [waiting(seed, *wait) for seed, wait in enumerate(WAITS)]
    pairs = [policy.make_processors() for _ in observations]
    together = policy.predict([pair.pre(seen) for pair, seen in zip(pairs, observations, strict=True)])
    for pair, rows, observation in zip(pairs, together, observations, strict=True):
        np.testing.assert_allclose(pair.post(rows), direct.answer(observation), atol=BATCH_ROUNDING)


@GUIDED
def test_a_mixed_batch_is_one_call_of_the_network(
    kind: str, policies: dict[str, Policy], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy: Any = policies[kind]
    sizes = []
    predict = policy._network.predict_action_chunk

    def count(batch: dict[str, Any], **arguments: Any) -> torch.Tensor:
        sizes.append(len(batch["observation.state"]))
        chunks: torch.Tensor = predict(batch, **arguments)
        return chunks

    monkeypatch.setattr(policy._network, "predict_action_chunk", count)
    policy.predict(prepare(policy, [waiting(seed, *wait) for seed, wait in enumerate(WAITS)]))
    assert sizes == [len(WAITS)]


@pytest.mark.parametrize("schedule", list(RTCAttentionSchedule))
def test_every_schedule_is_lerobots_own(schedule: RTCAttentionSchedule) -> None:
    """The default is linear, and a checkpoint may name another one."""
    config = RTCConfig(prefix_attention_schedule=schedule, execution_horizon=HORIZON, max_guidance_weight=5.0)
    torch.manual_seed(0)
    noise, flow_time, factor = torch.randn(len(WAITS), CHUNK, 8), 0.6, torch.rand(CHUNK, 8)
    samples = [
        LeRobotInput({}, 0, torch.randn(rows, len(JOINTS)) if rows else None, delay) for rows, delay in WAITS
    ]
    rtc = BatchRTC(config)
    given = rtc.guide(samples, noise)
    together = rtc.denoise_step(x_t=noise, time=flow_time, original_denoise_step_partial=factor.mul, **given)
    for velocity, alone, sample in zip(together, noise, samples, strict=True):
        expected = RTCProcessor(config).denoise_step(
            x_t=alone[None],
            prev_chunk_left_over=sample.prefix,
            inference_delay=sample.delay_steps,
            time=flow_time,
            original_denoise_step_partial=factor.mul,
        )
        torch.testing.assert_close(velocity[None], expected, atol=1e-6, rtol=0)


@GUIDED
def test_eight_requests_that_differ_cost_about_as_much_as_eight_alike(
    kind: str, policies: dict[str, Policy]
) -> None:
    """A call for each would cost up to eight times as much. Counted is the processor's time."""
    policy = policies[kind]
    alike = prepare(policy, [waiting(seed, 8, 3) for seed in range(8)])
    mixed = prepare(policy, [waiting(seed, *wait) for seed, wait in enumerate(WAITS[2:10])])
    times: dict[str, list[float]] = {"alike": [], "mixed": []}
    for _ in range(10):
        for name, batch in (("alike", alike), ("mixed", mixed)):
            begin = time.process_time()
            policy.predict(batch)
            times[name].append(time.process_time() - begin)
    assert min(times["mixed"]) < 1.5 * min(times["alike"])
