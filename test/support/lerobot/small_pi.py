# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""LeRobot's pi0 and pi05 made small, and the back end `lerobot` with them, for a server's manifest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lerobot.policies.pi0.modeling_pi0 as pi0
import lerobot.policies.pi05.modeling_pi05 as pi05

from remote_inference.base.policy import Policy
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import lerobot


def load(source: ModelSource) -> Policy:
    shrink_pi()
    return lerobot.load(source)


def shrink_pi() -> None:
    """Make LeRobot's pi0 and pi05 small in this process: their configuration knows two sizes only."""
    for module in (pi0, pi05):
        if getattr(module, "is_small", False):
            continue
        module.is_small = True
        module.get_gemma_config = _small_gemma
        module.CONFIG_MAPPING = _SmallMapping(module.CONFIG_MAPPING)
        module.PaliGemmaForConditionalGenerationWithPiGemma = _small_paligemma(
            module.PaliGemmaForConditionalGenerationWithPiGemma
        )


def _small_gemma(variant: str) -> Any:
    return pi0.GemmaConfig(width=64, depth=2, mlp_dim=128, num_heads=2, num_kv_heads=1, head_dim=32)


class _SmallMapping:
    """transformers' configurations by name, PaliGemma's with a small vision tower."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getitem__(self, name: str) -> Any:
        if name != "paligemma":
            return self._original[name]

        def make() -> Any:
            config = self._original[name]()
            config.vision_config.num_hidden_layers = 1
            config.vision_config.hidden_size = 32
            config.vision_config.num_attention_heads = 2
            return config

        return make


def _small_paligemma(original: Any) -> Callable[..., Any]:
    def make(config: Any) -> Any:
        width = config.text_config.hidden_size
        config.vision_config.projection_dim = config.projection_dim = width
        config.vision_config.intermediate_size = 64
        config.text_config.vocab_size = config._vocab_size = 64
        config.image_token_index = 63
        return original(config=config)

    return make
