# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves any of the chunk policies from a folder.

The folder holds `model.safetensors` (weights and normalisation) and `policy.json` (the architecture, and the
names and shapes that it was trained for). To serve another weights file of the folder, give the path of that
file. Model space is normalised actions; robot space is absolute joint targets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors, save as save_tensors

from remote_inference.base.documents.document import Document, parse_document, parse_json
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import Float32Array, PolicyError, ServingMode
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.file_content import Content, explain_damage, read_file
from remote_inference.server.policies.networks.chunk_network import (
    ChunkNetwork,
    NetworkSettings,
    ObservationNetwork,
)
from remote_inference.server.policies.networks.rtc_network import (
    FlowNetwork,
    PrefixChunkNetwork,
    PrefixFlowNetwork,
)
from remote_inference.server.policies.torch_device import free_network, parse_device, using_device
from remote_inference.server.policies.trained_policy import (
    ChunkProcessors,
    ImageShape,
    ModelInput,
    Positive,
    TrainedPolicy,
    ranges_of,
    require_batch,
)
from remote_inference.server.policy_error import raise_device_loss

WEIGHTS_FILE = "model.safetensors"
CONFIG_FILE = "policy.json"

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_MAX_BATCH = 16


class ChunkPolicyConfig(TrainedPolicy):
    """The keys of every chunk policy. `image_features` maps each feature to its `(height, width, 3)`."""

    architecture: Annotated[
        Literal["chunk_network", "flow_network", "prefix_chunk_network", "prefix_flow_network"],
        Field(description="kind of network that the weights are for"),
    ]
    image_features: Annotated[
        Mapping[str, ImageShape],
        Field(min_length=1, description=TrainedPolicy.model_fields["image_features"].description),
    ]
    channels: Annotated[
        tuple[Positive, Positive, Positive], Field(description="channels of a camera's three convolutions")
    ] = (16, 32, 32)
    hidden_units: Annotated[Positive, Field(description="width of the layers behind the cameras")] = 256

    @classmethod
    def parse(cls, text: bytes, path: Path) -> ChunkPolicyConfig:
        """Return the configuration in `text`, the content of `path`, in the class of its architecture.

        Raises DocumentError naming file and key.
        """
        content = parse_json(text, str(path))
        architecture = content.get("architecture") if isinstance(content, dict) else None
        document = _ARCHITECTURES.get(str(architecture), ChunkPolicyConfig)
        return parse_document(content, document, str(path))

    def to_json(self) -> bytes:
        """Return the text of `policy.json`, which `parse` reads back."""
        content = {"architecture": self.architecture, **self.model_dump()}
        if content["image_resize"] == "stretch":  # policies from before the key keep their fingerprints
            del content["image_resize"]
        if not content["units"]:
            del content["units"]
        return (json.dumps(content, indent=2) + "\n").encode()

    def make_network(self) -> ObservationNetwork:
        """Return an untrained network of this architecture."""
        raise NotImplementedError

    def _settings(self) -> NetworkSettings:
        own = {field.name for field in fields(NetworkSettings)} & type(self).model_fields.keys()
        state, actions = self.state_names, self.action_names
        return NetworkSettings(
            image_sizes=[(height, width) for height, width, _ in self.image_features.values()],
            state_dim=len(state),
            action_dim=len(actions),
            position_columns=[state.index(name) for name in actions if name in state],
            **{name: getattr(self, name) for name in own},
        )


class RegressionConfig(ChunkPolicyConfig):
    """`policy.json` of a policy that predicts the mean chunk."""

    architecture: Literal["chunk_network"] = "chunk_network"

    def make_network(self) -> ChunkNetwork:
        return ChunkNetwork(self._settings())


class FlowConfig(ChunkPolicyConfig):
    """`policy.json` of a policy that draws a chunk by flow matching and can continue a prefix."""

    architecture: Literal["flow_network"] = "flow_network"
    denoising_steps: Annotated[Positive, Field(description="steps from noise to a chunk")] = 10
    execution_horizon: Annotated[
        Positive, Field(description="most actions of a prefix that count; their weights reach 0 there")
    ] = 30
    max_guidance_weight: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="bound of the correction's factor")
    ] = 10.0

    def make_network(self) -> FlowNetwork:
        return FlowNetwork(self._settings())


class PrefixConfig(ChunkPolicyConfig):
    """`policy.json` of a policy that was trained with the actions executed until its answer arrives."""

    max_delay_steps: Annotated[
        Positive,
        Field(description="longest delay of the training, less than chunk_size; a longer one counts as this"),
    ]

    @model_validator(mode="after")
    def _consistent(self) -> PrefixConfig:
        if self.max_delay_steps >= self.chunk_size:
            expected = f"less than chunk_size, which is {self.chunk_size}"
            raise ValueError(f"max_delay_steps: found {self.max_delay_steps}, expected {expected}")
        if missing := [name for name in self.action_names if name not in self.state_names]:
            why = "where nothing is executed, the measured position stands for the newest action"
            raise ValueError(f"action_names: found {missing[0]!r}, expected names of state_names: {why}")
        return self


class PrefixRegressionConfig(PrefixConfig):
    """`policy.json` of a policy that predicts the mean of the actions from the arrival on."""

    architecture: Literal["prefix_chunk_network"] = "prefix_chunk_network"

    def make_network(self) -> PrefixChunkNetwork:
        return PrefixChunkNetwork(self._settings())


class PrefixFlowConfig(PrefixConfig):
    """`policy.json` of a policy that draws the actions from the arrival on by flow matching."""

    architecture: Literal["prefix_flow_network"] = "prefix_flow_network"
    denoising_steps: Annotated[Positive, Field(description="steps from noise to a chunk")] = 10

    def make_network(self) -> PrefixFlowNetwork:
        return PrefixFlowNetwork(self._settings())


_ARCHITECTURES: Mapping[str, type[ChunkPolicyConfig]] = {
    kind.model_fields["architecture"].default: kind
    for kind in (RegressionConfig, FlowConfig, PrefixRegressionConfig, PrefixFlowConfig)
}


class ChunkNetworkOptions(Document):
    """Keys of `model.options`."""

    compile: bool = False
    """compile the network with torch.compile; the warm-up takes longer"""


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
        options: ChunkNetworkOptions | None = None,
    ) -> None:
        options = options or ChunkNetworkOptions()
        if dtype not in _DTYPES:
            raise PolicyError(f"dtype: expected one of {', '.join(_DTYPES)}, found {dtype!r}")
        weights_file = Path(path) if Path(path).is_file() else Path(path) / WEIGHTS_FILE
        config_file = weights_file.with_name(CONFIG_FILE)
        config_text = read_file(config_file)
        weights = read_file(weights_file)
        self.config = ChunkPolicyConfig.parse(config_text, config_file)
        network = self.config.make_network().requires_grad_(False)
        _load_weights(network, weights, weights_file, self.config.architecture)
        self._action_mean: Float32Array = network.action_mean.numpy().copy()
        self._action_std: Float32Array = network.action_std.numpy().copy()
        state_ranges = ranges_of(
            self.config.state_names, network.state_mean.numpy(), network.state_std.numpy()
        )
        self._dtype = _DTYPES[dtype]
        self._device = parse_device(device)
        with using_device(device):
            # In use; another may be trained with its encoders.
            self.network: ObservationNetwork = network.to(device=self._device, dtype=self._dtype).eval()
        if options.compile:
            _compile(self.network)
        if self._device.type == "cpu":
            torch.set_num_threads(1)  # more threads are slower for a network of this size
        settings = {"dtype": dtype, **options.model_dump(exclude_defaults=True)}
        self.spec = self.config.make_spec(
            fingerprint=make_fingerprint([weights_file, config_file], settings),
            continuation=network.continuation,
            serving_mode=ServingMode.SHARED,
            max_batch=_MAX_BATCH,
            samples=network.samples,
            dtype=dtype,
            state_ranges=state_ranges,
            action_ranges=ranges_of(self.config.action_names, self._action_mean, self._action_std),
        )

    def weights(self) -> Mapping[str, torch.Tensor]:
        return self.network.state_dict()

    def check_weights(self) -> None:
        for name, copied in (("action_mean", self._action_mean), ("action_std", self._action_std)):
            served = getattr(self.network, name)
            if not torch.equal(served, torch.from_numpy(copied).to(served)):
                raise PolicyError(
                    f"{name}: found another normalisation of actions than the policy was loaded with, which "
                    "sessions use; expected the same, or a policy that is loaded anew"
                )

    def make_processors(self) -> ChunkProcessors:
        return ChunkProcessors(self.config, self._action_mean, self._action_std)

    def predict(self, batch: Sequence[ModelInput]) -> list[Float32Array]:
        """Return one normalised chunk `[chunk_size, action_dim]` per input."""
        require_batch(batch, _MAX_BATCH)
        with raise_device_loss(), torch.no_grad():
            images = [
                torch.from_numpy(np.stack(camera)).to(self._device)
                for camera in zip(*(sample.images for sample in batch), strict=True)
            ]
            states = np.stack([sample.state for sample in batch])
            state = torch.from_numpy(states).to(self._device, self._dtype)
            return list(self.network.answer(images, state, batch).float().cpu().numpy())

    def reset(self) -> None:
        """Do nothing: every chunk depends only on its own request."""

    def close(self) -> None:
        free_network(self.network, self._device)


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
            shapes = f"expected shape {tuple(tensor.shape)}, found {tuple(found[key].shape)}"
            raise PolicyError(f"{path}: {key}: {shapes}")
    if unknown := sorted(found.keys() - expected.keys()):
        raise PolicyError(f"{path}: {unknown[0]}: not part of a {architecture}")
    network.load_state_dict(found)
