# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`policy.json`: a chunk policy's architecture, and the names and shapes that it was trained for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.base.documents.document import parse_document, parse_json
from remote_inference.server.policies.networks.chunk_network import (
    CHANNELS,
    HIDDEN_UNITS,
    ChunkNetwork,
    NetworkSettings,
    ObservationNetwork,
)
from remote_inference.server.policies.networks.flow_network import FlowNetwork
from remote_inference.server.policies.networks.prefix_network import PrefixChunkNetwork, PrefixFlowNetwork
from remote_inference.server.policies.trained_policy import ImageShape, Positive, TrainedPolicy


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
    ] = CHANNELS
    hidden_units: Annotated[Positive, Field(description="width of the layers behind the cameras")] = (
        HIDDEN_UNITS
    )

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
        Positive, Field(description="most rows of a prefix that count; their weights reach 0 there")
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
            raise ValueError(
                f"max_delay_steps: found {self.max_delay_steps}, "
                f"expected less than chunk_size, which is {self.chunk_size}"
            )
        if missing := [name for name in self.action_names if name not in self.state_names]:
            raise ValueError(
                f"action_names: found {missing[0]!r}, expected names of state_names: "
                "where nothing is executed, the measured position stands for the newest action"
            )
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
    "chunk_network": RegressionConfig,
    "flow_network": FlowConfig,
    "prefix_chunk_network": PrefixRegressionConfig,
    "prefix_flow_network": PrefixFlowConfig,
}
