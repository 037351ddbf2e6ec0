# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled policies answer as plain ones, and no robot waits for the compiler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remote_inference.base.policy import Policy, PolicyObservation
from support.device import BATCH_ROUNDING
from support.lerobot.direct import ask, observe
from support.lerobot.tiny_policies import JOINTS, Built, size_of

pytestmark = pytest.mark.skipif(
    not shutil.which("c++"), reason="found no C++ compiler, which torch.compile needs"
)
COMPILED = ("act", "diffusion", "pi05", "smolvla", "xvla")  # pi0's step is pi05's in all but its inputs


@dataclass(frozen=True)
class Pair:
    kind: str
    plain: Policy
    compiled: Policy


@pytest.fixture(scope="module", params=COMPILED)
def pair(
    request: pytest.FixtureRequest, built: dict[str, Built], policies: dict[str, Policy]
) -> Iterator[Pair]:
    """One policy, plain and compiled; compiling takes long."""
    kind = request.param
    with pytest.MonkeyPatch.context() as patch:
        # torch imports setuptools, which fails where another test has imported Python's own distutils.
        patch.setenv("SETUPTOOLS_USE_DISTUTILS", "stdlib")
        yield Pair(kind, policies[kind], built[kind].load(options={"compile": True}))


def compiled_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def observations(pair: Pair, count: int) -> list[PolicyObservation]:
    """Return different observations, where the policy continues prefixes every other one with a prefix."""
    seen = [observe(seed, size_of(pair.kind)) for seed in range(count)]
    if not pair.plain.spec.supports_rtc:
        return seen
    prefix = np.ones((4, len(JOINTS)), np.float32)
    guided: dict[str, Any] = {"prefix_model": prefix, "prefix_robot": prefix, "inference_delay_steps": 2}
    return [observe(seed, **guided) if seed % 2 else plain for seed, plain in enumerate(seen)]


def test_compiled_policies_answer_as_plain_ones(pair: Pair) -> None:
    atol = (
        10 * BATCH_ROUNDING if pair.plain.spec.dtype == "float32" else 5e-3
    )  # fused kernels round less often
    for observation in observations(pair, 2):
        expected = ask(pair.plain, pair.plain.make_processors(), observation)
        found = ask(pair.compiled, pair.compiled.make_processors(), observation)
        np.testing.assert_allclose(found, expected, atol=atol)


def test_what_computes_is_compiled_when_the_policy_is_loaded_and_never_later(pair: Pair) -> None:
    before = compiled_graphs()
    assert before > 0
    pre = pair.compiled.make_processors().pre
    inputs = [pre(observation) for observation in observations(pair, 4)]
    for count in range(1, min(4, pair.compiled.spec.max_batch) + 1):
        pair.compiled.predict(inputs[:count])
        pair.compiled.predict(inputs[-count:])
    assert compiled_graphs() == before


@pytest.mark.parametrize("kind", ["diffusion", "smolvla"])
def test_a_checkpoint_that_was_trained_compiled_is_served_plain(
    kind: str, built: dict[str, Built], policies: dict[str, Policy], tmp_path: Path
) -> None:
    checkpoint = built[kind].copy(tmp_path)
    checkpoint.edit("config.json", lambda config: config.update(compile_model=True))
    before = compiled_graphs()
    policy = checkpoint.load()
    observation = observe(1, size_of(kind))
    found = ask(policy, policy.make_processors(), observation)
    assert compiled_graphs() == before
    expected = ask(policies[kind], policies[kind].make_processors(), observation)
    np.testing.assert_array_equal(found, expected)


def test_a_compiled_policy_has_a_fingerprint_of_its_own(pair: Pair) -> None:
    """Its chunks differ in their last bits."""
    assert pair.compiled.spec.fingerprint != pair.plain.spec.fingerprint
