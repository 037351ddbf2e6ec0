# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves any of the chunk policies from a folder.

The folder holds `model.safetensors` (weights and normalisation) and `policy.json` (names, shapes and
architecture). To serve another weights file of the folder, give the path of that file. Model space is
normalised actions; robot space is absolute joint targets.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from remote_inference.core.device_loss import naming_loss
from remote_inference.core.documents.document import Document
from remote_inference.core.fingerprint import make_fingerprint
from remote_inference.core.policy import (
    DeviceError,
    Float32Array,
    PolicyError,
    PolicySpec,
    ServingMode,
)
from remote_inference.core.server.manifest.manifest import ModelSource
from remote_inference.policies.file_content import Content, explain_damage
from remote_inference.policies.model_input import ModelInput
from remote_inference.policies.networks.chunk_config import ChunkPolicyConfig
from remote_inference.policies.networks.chunk_network import ObservationNetwork
from remote_inference.policies.processors import ChunkProcessors

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "policy.json"

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_MAX_BATCH = 16


class ChunkNetworkOptions(Document):
    """Keys of `model.options`."""

    compile: Annotated[
        bool, Field(description="compile the network with torch.compile; the warm-up takes longer")
    ] = False


_NO_OPTIONS = ChunkNetworkOptions()


def load(source: ModelSource) -> TorchChunkPolicy:
    """Load the policy of a manifest. Raises what TorchChunkPolicy raises, DocumentError also for options."""
    options = source.read_options(ChunkNetworkOptions)
    return TorchChunkPolicy(source.require_path(), source.device, source.precision, options)


class TorchChunkPolicy:
    """Serves the policy at `path`, a folder or a weights file, on `device` (as torch names it) in `dtype`.

    Equal paths in other precision, or with other options, have another fingerprint.

    Raises PolicyError or DocumentError naming file and key when the policy cannot be loaded, and DeviceError,
    a PolicyError, when this machine cannot use the device.
    """

    def __init__(
        self,
        path: str | Path,
        device: str = "cpu",
        dtype: str = "float32",
        options: ChunkNetworkOptions = _NO_OPTIONS,
    ) -> None:
        if dtype not in _DTYPES:
            raise PolicyError(f"dtype: expected one of {', '.join(_DTYPES)}, found {dtype!r}")
        weights_file = Path(path) if Path(path).is_file() else Path(path) / WEIGHTS_FILE
        config_file = weights_file.with_name(CONFIG_FILE)
        config_text = _read(config_file)
        weights = _read(weights_file)
        self.config = ChunkPolicyConfig.parse(config_text, config_file)
        network = self.config.make_network().requires_grad_(False)
        _load_weights(network, weights, weights_file, self.config.architecture)
        self._action_mean: Float32Array = network.action_mean.numpy().copy()
        self._action_std: Float32Array = network.action_std.numpy().copy()
        self._dtype = _DTYPES[dtype]
        try:
            self._device = torch.device(device)
        except RuntimeError as error:  # torch raises it for an unknown device
            raise PolicyError(
                f"model.device: found {device!r}, expected a device of torch: {error}"
            ) from error
        try:
            self._network = network.to(device=self._device, dtype=self._dtype).eval()
        except (RuntimeError, AssertionError) as error:  # torch raises them for an absent device
            reason = str(error).splitlines()[0]
            raise DeviceError(
                f"model.device: found {device!r}, expected a device of this machine: {reason}"
            ) from error
        if options.compile:
            _compile(self._network)
        if self._device.type == "cpu":
            torch.set_num_threads(1)  # more threads are slower for a network of this size
        self.spec = PolicySpec(
            name=self.config.name,
            revision=self.config.revision,
            fingerprint=make_fingerprint(
                [weights_file, config_file],
                {"dtype": dtype, **options.model_dump(exclude_defaults=True)},
            ),
            state_names=self.config.state_names,
            action_names=self.config.action_names,
            image_shapes=self.config.image_features,
            chunk_size=self.config.chunk_size,
            trained_fps=self.config.trained_fps,
            continuation=network.continuation,
            serving_mode=ServingMode.SHARED,
            max_batch=_MAX_BATCH,
            samples=network.samples,
            units=self.config.units,
            dtype=dtype,
        )

    @property
    def network(self) -> ObservationNetwork:
        """The network in use, whose encoders another may be trained with."""
        return self._network

    def weights(self) -> Mapping[str, torch.Tensor]:
        return self._network.state_dict()

    def check_weights(self) -> None:
        for name, copied in (("action_mean", self._action_mean), ("action_std", self._action_std)):
            served = getattr(self._network, name)
            if not torch.equal(served, torch.from_numpy(copied).to(served)):
                raise PolicyError(
                    f"{name}: found another normalisation of actions than the policy was loaded with, which "
                    "sessions use; expected the same, or a policy that is loaded anew"
                )

    def make_processors(self) -> ChunkProcessors:
        return ChunkProcessors(self.config, self._action_mean, self._action_std)

    def predict(self, batch: Sequence[ModelInput]) -> list[Float32Array]:
        """Return one normalised chunk `[chunk_size, action_dim]` per input."""
        if not 0 < len(batch) <= _MAX_BATCH:
            raise PolicyError(f"batch: expected 1 to {_MAX_BATCH} inputs, found {len(batch)}")
        with naming_loss():
            return self._answer(batch)

    @torch.no_grad()
    def _answer(self, batch: Sequence[ModelInput]) -> list[Float32Array]:
        images = [
            torch.from_numpy(np.stack(camera)).to(self._device)
            for camera in zip(*(sample.images for sample in batch), strict=True)
        ]
        state = torch.from_numpy(np.stack([sample.state for sample in batch])).to(self._device, self._dtype)
        return list(self._network.answer(images, state, batch).float().cpu().numpy())

    def reset(self) -> None:
        """Do nothing: every chunk depends only on its own request."""

    def close(self) -> None:
        """Free the network's memory, on a GPU also the memory that torch caches."""
        self._network.to("meta")
        if self._device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()


def _compile(network: ObservationNetwork) -> None:
    """Let torch compile what computes, when it is first used: for single requests, and for all batches."""
    for encoder in network.encoders:  # `forward` of most networks begins behind them
        encoder.compile()
    network.compile()


def save_policy(folder: Path, config: ChunkPolicyConfig, network: ObservationNetwork) -> None:
    """Write `model.safetensors` and `policy.json` into `folder`; create the folder if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in network.state_dict().items()}
    (folder / WEIGHTS_FILE).write_bytes(save_tensors(tensors))
    (folder / CONFIG_FILE).write_bytes(config.to_json())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from error


def _load_weights(network: ObservationNetwork, weights: bytes, path: Path, architecture: str) -> None:
    try:
        found = load_tensors(weights)
    except (SafetensorError, ValueError) as error:
        raise PolicyError(f"{path}: {explain_damage(weights, Content.SAFETENSORS, error)}") from error
    expected = network.state_dict()
    for key, tensor in expected.items():
        if key not in found:
            raise PolicyError(f"{path}: {key}: missing")
        if found[key].shape != tensor.shape:
            raise PolicyError(
                f"{path}: {key}: expected shape {tuple(tensor.shape)}, found {tuple(found[key].shape)}"
            )
    if unknown := sorted(found.keys() - expected.keys()):
        raise PolicyError(f"{path}: {unknown[0]}: not part of a {architecture}")
    network.load_state_dict(found)
