# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A chunk network served from a folder.

The folder holds `model.safetensors` (weights and normalisation) and `policy.json` (names, shapes and
architecture). Model space is normalised actions; robot space is absolute joint targets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from remote_inference.core.policy import (
    Float32Array,
    PolicyError,
    PolicyObservation,
    PolicySpec,
    ServingMode,
)
from remote_inference.policies.box_resize import box_resize
from remote_inference.policies.chunk_config import ARCHITECTURE, ChunkPolicyConfig
from remote_inference.policies.chunk_network import ChunkNetwork

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "policy.json"

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_MAX_BATCH = 16


@dataclass(frozen=True)
class ModelInput:
    """One preprocessed observation: uint8 `[3, height, width]` per camera, float32 `[state_dim]`."""

    images: tuple[NDArray[np.uint8], ...]
    state: Float32Array


class ChunkProcessors:
    """Resizes images on the way in, unnormalises actions on the way out; keeps nothing between requests."""

    def __init__(
        self, config: ChunkPolicyConfig, action_mean: Float32Array, action_std: Float32Array
    ) -> None:
        self._config = config
        self._action_mean = action_mean
        self._action_std = action_std

    def pre(self, observation: PolicyObservation) -> ModelInput:
        state = np.asarray(observation.state, np.float32)
        if state.shape != (len(self._config.state_names),):
            raise PolicyError(
                f"state: expected shape ({len(self._config.state_names)},), found {state.shape}"
            )
        if not np.isfinite(state).all():
            raise PolicyError(f"state: expected finite values, found {state.tolist()}")
        images = tuple(
            self._image(observation.images, feature, height, width)
            for feature, (height, width, _) in self._config.image_features.items()
        )
        return ModelInput(images, state)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model * self._action_std + self._action_mean

    def reset(self) -> None:
        """Do nothing: there is no state."""

    @staticmethod
    def _image(
        images: Mapping[str, NDArray[Any]], feature: str, height: int, width: int
    ) -> NDArray[np.uint8]:
        image = images.get(feature)
        if image is None:
            raise PolicyError(f"{feature}: missing; found {sorted(images)}")
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
            raise PolicyError(
                f"{feature}: expected uint8 [height, width, 3], found {image.dtype} {image.shape}"
            )
        return box_resize(image, height, width)


class TorchChunkPolicy:
    """Serves the policy in folder `path` on `device` (as torch names it) at precision `dtype`.

    Raises PolicyError or DocumentError naming the file and the key when the folder holds no usable policy.
    """

    def __init__(self, path: str | Path, device: str = "cpu", dtype: str = "float32") -> None:
        if dtype not in _DTYPES:
            raise PolicyError(f"dtype: expected one of {', '.join(_DTYPES)}, found {dtype!r}")
        folder = Path(path)
        config_text = _read(folder / CONFIG_FILE)
        weights = _read(folder / WEIGHTS_FILE)
        self.config = ChunkPolicyConfig.parse(config_text, folder / CONFIG_FILE)
        network = self.config.make_network()
        _load_weights(network, weights, folder / WEIGHTS_FILE)
        self._action_mean: Float32Array = network.action_mean.numpy().copy()
        self._action_std: Float32Array = network.action_std.numpy().copy()
        try:
            self._network = network.to(device=device, dtype=_DTYPES[dtype]).eval()
        except (RuntimeError, AssertionError) as error:  # what torch raises for an absent or unknown device
            raise PolicyError(f"device {device!r}: {error}") from error
        if torch.device(device).type == "cpu":
            torch.set_num_threads(1)  # more threads cost more than they bring at this size
        self._dtype = _DTYPES[dtype]
        self._device = torch.device(device)
        self.spec = PolicySpec(
            name=self.config.name,
            revision=self.config.revision,
            fingerprint=hashlib.sha256(weights + config_text).hexdigest()[:16],
            state_names=self.config.state_names,
            action_names=self.config.action_names,
            image_shapes=self.config.image_features,
            chunk_size=self.config.chunk_size,
            trained_fps=self.config.trained_fps,
            serving_mode=ServingMode.SHARED,
            max_batch=_MAX_BATCH,
        )

    def make_processors(self) -> ChunkProcessors:
        return ChunkProcessors(self.config, self._action_mean, self._action_std)

    @torch.inference_mode()
    def predict(self, batch: Sequence[ModelInput]) -> list[Float32Array]:
        """Return one normalised chunk `[chunk_size, action_dim]` per input."""
        if not 0 < len(batch) <= _MAX_BATCH:
            raise PolicyError(f"batch: expected 1 to {_MAX_BATCH} inputs, found {len(batch)}")
        images = [
            torch.from_numpy(np.stack(camera)).to(self._device)
            for camera in zip(*(sample.images for sample in batch), strict=True)
        ]
        state = torch.from_numpy(np.stack([sample.state for sample in batch])).to(self._device, self._dtype)
        chunks: Float32Array = self._network(images, state).float().cpu().numpy()
        return list(chunks)

    def reset(self) -> None:
        """Do nothing: every chunk depends on its observation alone."""

    def close(self) -> None:
        """Free the network's memory."""
        self._network.to("meta")


def save_policy(folder: Path, config: ChunkPolicyConfig, network: ChunkNetwork) -> None:
    """Write `model.safetensors` and `policy.json` into `folder`, which is created when missing."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    (folder / WEIGHTS_FILE).write_bytes(save_tensors(tensors))
    (folder / CONFIG_FILE).write_bytes(config.to_json())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error


def _load_weights(network: ChunkNetwork, weights: bytes, path: Path) -> None:
    try:
        found = load_tensors(weights)
    except (SafetensorError, ValueError) as error:
        raise PolicyError(f"{path}: not a safetensors file: {error}") from error
    expected = network.state_dict()
    for key, tensor in expected.items():
        if key not in found:
            raise PolicyError(f"{path}: {key}: missing")
        if found[key].shape != tensor.shape:
            raise PolicyError(
                f"{path}: {key}: expected shape {tuple(tensor.shape)}, found {tuple(found[key].shape)}"
            )
    if unknown := sorted(found.keys() - expected.keys()):
        raise PolicyError(f"{path}: {unknown[0]}: not part of a {ARCHITECTURE}")
    network.load_state_dict(found)
