# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`policy.json`: what a chunk network was trained for, and its architecture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from remote_inference.core.document import Document, DocumentError, parse_document
from remote_inference.policies.chunk_network import CHANNELS, HIDDEN_UNITS, ChunkNetwork

ARCHITECTURE: Final = "chunk_network"

Positive = Annotated[int, Field(ge=1)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class ChunkPolicyConfig(Document):
    """The contents of `policy.json`; `image_features` maps each feature to its `(height, width, 3)`."""

    architecture: Literal["chunk_network"]
    name: Annotated[str, Field(min_length=1)]
    revision: Annotated[str, Field(min_length=1)]
    state_names: Names
    action_names: Names
    image_features: Annotated[Mapping[str, tuple[Positive, Positive, Literal[3]]], Field(min_length=1)]
    chunk_size: Positive
    trained_fps: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    channels: tuple[Positive, Positive, Positive] = CHANNELS
    hidden_units: Positive = HIDDEN_UNITS

    @classmethod
    def parse(cls, text: bytes, path: Path) -> ChunkPolicyConfig:
        """Parse the bytes of the file at `path`. Raises DocumentError naming file and key."""
        try:
            content = json.loads(text)
        except ValueError as error:
            raise DocumentError(f"{path}: is not JSON: {error}") from error
        return parse_document(content, cls, str(path))

    def to_json(self) -> bytes:
        """Return the text of `policy.json`, which `parse` reads back."""
        return (json.dumps(self.model_dump(), indent=2) + "\n").encode()

    def make_network(self) -> ChunkNetwork:
        """Return an untrained network of this architecture."""
        return ChunkNetwork(
            image_sizes=[(height, width) for height, width, _ in self.image_features.values()],
            state_dim=len(self.state_names),
            action_dim=len(self.action_names),
            chunk_size=self.chunk_size,
            channels=self.channels,
            hidden_units=self.hidden_units,
        )
