# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of LeRobot policy that are served, and what LeRobot itself does not say about each.

Only kinds are listed that build their network from `config.json` alone. Others (groot, wall_x, pi0_fast) run
Python code that lies beside a model of another name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """One kind of policy.

    compiled: what takes the time of a chunk, and `compile` of the options compiles: modules or methods of
    the network by their path.
    noise_shape: of the noise `[rows, columns]` that the policy takes, by its configuration; None: none.
    has_time_axis: whether an observation is `[batch, steps, ...]`, also with a single step.
    language_files: of the model on a hub that a checkpoint names: its tokenizer's, for some kinds its whole
    configuration, as `hf download --include` takes them; empty: the policy reads no task.
    """

    compiled: tuple[str, ...]
    noise_shape: Callable[[Any], tuple[int, int]] | None = None
    has_time_axis: bool = False
    language_files: tuple[str, ...] = ()

    @property
    def reads_task(self) -> bool:
        """Whether a chunk depends on the task's words."""
        return bool(self.language_files)


def _padded_chunk(config: Any) -> tuple[int, int]:
    return config.chunk_size, config.max_action_dim


def _horizon(config: Any) -> tuple[int, int]:
    return config.horizon, config.action_feature.shape[0]


_TOKENIZER = ("tokenizer*", "special_tokens_map.json")
_CONFIGURATION = ("*.json", "*.txt")

_STEP = ("model.denoise_step",)

FAMILIES: Mapping[str, Family] = {
    "act": Family(("model",)),
    "diffusion": Family(("diffusion.unet",), noise_shape=_horizon, has_time_axis=True),
    "pi0": Family(_STEP, noise_shape=_padded_chunk, language_files=_TOKENIZER),
    "pi05": Family(_STEP, noise_shape=_padded_chunk, language_files=_TOKENIZER),
    "smolvla": Family(_STEP, noise_shape=_padded_chunk, language_files=_CONFIGURATION),
    "xvla": Family(("model.transformer",), language_files=_CONFIGURATION),
}

# They answer with single actions, from a queue or a plan of their own.
WITHOUT_CHUNKS = frozenset({"gaussian_actor", "tdmpc", "vqbet"})

# Steps of processors that compute, and read no file but the tokenizer's.
STEPS = frozenset(
    {
        "absolute_actions_processor",
        "device_processor",
        "normalizer_processor",
        "pi05_prepare_state_tokenizer_processor_step",
        "pi0_new_line_processor",
        "relative_actions_processor",
        "rename_observations_processor",
        "smolvla_new_line_processor",
        "to_batch_processor",
        "tokenizer_processor",
        "unnormalizer_processor",
        "xvla_add_domain_id",
        "xvla_image_scale",
        "xvla_image_to_float",
        "xvla_imagenet_normalize",
    }
)
