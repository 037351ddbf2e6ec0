# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The precision of each tensor: LeRobot's own choice, or what the manifest says.

LeRobot has words for it in `config.json`: `dtype` of pi0, pi05 and xvla, and `load_vlm_weights` of smolvla,
which puts the language model and the expert into bfloat16. Networks of the other kinds are in float32.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from remote_inference.core.policy import PolicyError

DTYPES = ("float32", "bfloat16")
LEROBOTS_WORDS = ("dtype", "load_vlm_weights")

_turn = threading.Lock()  # of those that build a language model


def set_precision(config: Any, dtype: str | None) -> None:
    """Let LeRobot build a network in `dtype`; None: in what `config.json` says.

    Raises PolicyError for a precision that LeRobot's networks do not have.
    """
    if dtype is None:
        return
    if dtype not in DTYPES:
        raise PolicyError(
            f"model.dtype: found {dtype!r}, expected {' or '.join(DTYPES)} for a policy of type {config.type}"
        )
    if hasattr(config, "dtype"):
        config.dtype = dtype
    if hasattr(config, "load_vlm_weights"):
        config.load_vlm_weights = dtype == "bfloat16"


def cast(network: Any, dtype: str | None) -> None:
    """Cast what LeRobot does not build in `dtype` itself; None: nothing."""
    if dtype == "float32":
        network.float()
    elif dtype == "bfloat16" and not any(hasattr(network.config, word) for word in LEROBOTS_WORDS):
        network.bfloat16()
        for module in network.modules():
            if next(module.parameters(recurse=False), None) is not None:
                module.register_forward_pre_hook(_follow_weights, with_kwargs=True)


def _follow_weights(
    module: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Cast what a module is given to the precision of its weights: LeRobot makes some of it in float32."""
    dtype = next(module.parameters(recurse=False)).dtype

    def follow(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return tuple(map(follow, arguments)), {key: follow(value) for key, value in keywords.items()}


def count_dtypes(network: Any) -> dict[str, int]:
    """Return how many floating-point tensors of a network are in which precision, by torch's name."""
    tensors = [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]
    return dict(Counter(str(tensor.dtype).removeprefix("torch.") for tensor in tensors))


@contextmanager
def no_weights_of_the_language_model(config: Any) -> Iterator[None]:
    """Within, let LeRobot build a language model from its configuration where it would load its weights.

    The checkpoint has weights for all of it, and nothing but the precision stays of those loaded before.
    """
    if not getattr(config, "load_vlm_weights", False):
        yield
        return
    from lerobot.policies.smolvla import smolvlm_with_expert  # noqa: PLC0415  not every policy needs it

    with _turn:
        loader = smolvlm_with_expert.AutoModelForImageTextToText
        smolvlm_with_expert.AutoModelForImageTextToText = _Builder
        try:
            yield
        finally:
            smolvlm_with_expert.AutoModelForImageTextToText = loader


class _Builder:
    """Has the place of transformers' class, and makes a model as that one would load it."""

    @staticmethod
    def from_pretrained(name: str, *, torch_dtype: str, **_: Any) -> Any:
        from transformers import AutoConfig, AutoModelForImageTextToText  # noqa: PLC0415

        config = AutoConfig.from_pretrained(name, local_files_only=True)
        return AutoModelForImageTextToText.from_config(config, dtype=torch_dtype)
