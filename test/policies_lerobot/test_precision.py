# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Each tensor has the precision that it has in LeRobot's own run of the folder, or the manifest's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remote_inference.base.policy import Policy, PolicyError
from support.lerobot.direct import NOISE, Direct, ask, noise, observe
from support.lerobot.tiny_policies import BUILDERS, Built, size_of

EVERY_KIND = pytest.mark.parametrize("kind", list(BUILDERS))
COARSE = torch.finfo(torch.bfloat16).eps


def dtypes_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.dtype]:
    return {name: tensor.dtype for name, tensor in tensors.items() if tensor.is_floating_point()}


def pad_as_served(pipeline: Any) -> None:
    """Pad the task to the same length as the back end does: longer sums are rounded otherwise."""
    for step in pipeline["steps"]:
        if step["registry_name"] == "tokenizer_processor":
            step["config"]["padding"] = "max_length"


def require_lerobots_own(checkpoint: Built) -> set[torch.dtype]:
    """Fail unless tensors and chunks are those of LeRobot's own run; return the precisions."""
    checkpoint.edit("policy_preprocessor.json", pad_as_served)
    policy, direct = checkpoint.load(), Direct(checkpoint)
    found = dtypes_of(policy.weights())
    assert found == dtypes_of(direct.network.state_dict())
    for seed in (1, 2):
        observation = observe(seed, size_of(checkpoint.kind))
        given = {"noise": noise(seed, NOISE[checkpoint.kind])} if checkpoint.kind in NOISE else {}
        expected = direct.chunk(observation, **given)
        assert np.ptp(expected) > 1e-3  # a constant would be equal to anything constant
        np.testing.assert_array_equal(ask(policy, policy.make_processors(), observation), expected)
    policy.close()
    return set(found.values())


@pytest.mark.parametrize(
    ("loads_weights", "text_dtype", "expected"),
    [
        (True, None, {torch.bfloat16, torch.float32}),
        (False, None, {torch.float32}),
        (False, "bfloat16", {torch.bfloat16, torch.float32}),  # as SmolVLM2's own configuration says
    ],
)
def test_smolvla_is_served_in_the_precision_in_which_lerobot_runs_it(
    loads_weights: bool,
    text_dtype: str | None,
    expected: set[torch.dtype],
    built: dict[str, Built],
    tmp_path: Path,
) -> None:
    """LeRobot takes precisions from a language model whose weights are overwritten, and not served here."""
    checkpoint = built["smolvla"].copy(tmp_path)
    checkpoint.edit("config.json", lambda config: config.update(load_vlm_weights=loads_weights))
    folder = tmp_path / "vlm"
    shutil.copytree(checkpoint.options["language_model"], folder)
    content = json.loads((folder / "config.json").read_text())
    content["text_config"]["dtype"] = text_dtype
    (folder / "config.json").write_text(json.dumps(content))
    checkpoint = replace(checkpoint, options={**checkpoint.options, "language_model": str(folder)})
    assert not list(folder.glob("*.safetensors"))
    assert require_lerobots_own(checkpoint) == expected


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["pi0", "pi05", "xvla"])
def test_a_checkpoint_says_in_which_precision_it_is_served(
    kind: str, dtype: str, built: dict[str, Built], tmp_path: Path
) -> None:
    checkpoint = built[kind].copy(tmp_path)
    checkpoint.edit("config.json", lambda config: config.update(dtype=dtype))
    assert getattr(torch, dtype) in require_lerobots_own(checkpoint)


@EVERY_KIND
def test_the_manifest_decides_over_the_checkpoint(kind: str, built: dict[str, Built], tmp_path: Path) -> None:
    checkpoint = built[kind].copy(tmp_path)
    for said, dtype in (("bfloat16", "float32"), ("float32", "bfloat16")):
        if kind in {"pi0", "pi05", "xvla"}:
            checkpoint.edit("config.json", lambda config, said=said: config.update(dtype=said))
        if kind == "smolvla":
            loads = said == "bfloat16"
            checkpoint.edit("config.json", lambda config, loads=loads: config.update(load_vlm_weights=loads))
        policy = checkpoint.load(dtype=dtype)
        found = set(dtypes_of(policy.weights()).values())
        assert (found == {torch.float32}) == (dtype == "float32")
        assert torch.bfloat16 in found or dtype == "float32"
        assert policy.spec.dtype == dtype
        policy.close()


@pytest.mark.parametrize("kind", ["act", *NOISE])  # xvla's own noise is another one in bfloat16
def test_a_chunk_in_bfloat16_is_near_that_in_float32(kind: str, built: dict[str, Built]) -> None:
    exact, coarse = built[kind].load(dtype="float32"), built[kind].load(dtype="bfloat16")
    for seed in (1, 2):
        observation = observe(seed, size_of(kind))
        expected = ask(exact, exact.make_processors(), observation)
        found = ask(coarse, coarse.make_processors(), observation)
        assert found.dtype == np.float32
        assert 0.0 < np.abs(found - expected).max() < 8 * COARSE * np.ptp(expected)


@pytest.mark.parametrize("kind", ["act", "diffusion"])
def test_all_of_a_network_without_a_precision_of_its_own_is_cast(kind: str, built: dict[str, Built]) -> None:
    assert set(dtypes_of(built[kind].load(dtype="bfloat16").weights()).values()) == {torch.bfloat16}


@EVERY_KIND
def test_the_fingerprint_tells_precisions_apart(
    kind: str, built: dict[str, Built], policies: dict[str, Policy]
) -> None:
    exact, coarse = (built[kind].load(dtype=dtype).spec.fingerprint for dtype in ("float32", "bfloat16"))
    assert exact != coarse
    served = coarse if kind == "smolvla" else exact
    assert policies[kind].spec.fingerprint == served, "what the checkpoint says is one of them"


@EVERY_KIND
def test_a_precision_that_no_policy_of_lerobots_has_is_refused(kind: str, built: dict[str, Built]) -> None:
    expected = rf"model\.dtype: found 'float16', expected float32 or bfloat16 for a policy of type {kind}"
    with pytest.raises(PolicyError, match=expected):
        built[kind].load(dtype="float16")
