# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What people write for the back end `onnx`: a manifest's options, and the description in an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.core.document import Document

METADATA_KEY = "remote_inference"  # in `metadata_props`
STATE, NOISE, ACTIONS = "state", "noise", "actions"  # tensors of the graph; images have their feature's name

Provider = Literal["tensorrt", "cuda", "cpu"]
Positive = Annotated[int, Field(ge=1)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
AboveZero = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class OnnxOptions(Document):
    """Keys of `model.options`."""

    providers: Annotated[
        tuple[Provider, ...],
        Field(
            description="what computes, the preferred one first; what it cannot compute goes to the next, "
            "in the end to the CPU; none: cuda or cpu, as `model.device` says"
        ),
    ] = ()


class OnnxDescription(Document):
    """The JSON text under `remote_inference` in the `metadata_props` of an ONNX file."""

    format: Annotated[Literal[1], Field(description="version of this table")]
    name: Annotated[str, Field(min_length=1, description="name, for logs and status")]
    revision: Annotated[
        str, Field(min_length=1, description="version, as `model.revision` of a manifest may ask for it")
    ]
    state_names: Annotated[Names, Field(description="columns of the input `state`, in this order")]
    action_names: Annotated[Names, Field(description="columns of the output `actions`, in this order")]
    image_features: Annotated[
        Mapping[str, tuple[Positive, Positive, Literal[3]]],
        Field(description="images by input: height, width and 3 channels of the training [px]"),
    ] = {}
    chunk_size: Annotated[Positive, Field(description="rows of `actions`")]
    trained_fps: Annotated[AboveZero, Field(description="control rate of the training data [Hz]")]
    action_mean: Annotated[
        tuple[Finite, ...],
        Field(description="added to each column of `actions` after `action_std`; none: 0"),
    ] = ()
    action_std: Annotated[
        tuple[AboveZero, ...],
        Field(description="factor of each column of `actions`; none: 1, `actions` are joint targets"),
    ] = ()

    @model_validator(mode="after")
    def _consistent(self) -> OnnxDescription:
        for key in ("action_mean", "action_std"):
            found, expected = len(getattr(self, key)), len(self.action_names)
            if found not in {0, expected}:
                raise ValueError(f"{key}: found {found} numbers, expected {expected}, one per action")
        if taken := sorted({STATE, NOISE, ACTIONS} & self.image_features.keys()):
            raise ValueError(f"image_features: found {taken[0]!r}, the name of another tensor")
        return self
