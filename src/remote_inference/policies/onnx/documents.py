# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What people write for the back end `onnx`: a manifest's options, and the description in an ONNX file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.core.documents.document import Document
from remote_inference.core.limits import MAX_OBSERVATION_STEPS
from remote_inference.policies.trained_policy import TrainedPolicy

METADATA_KEY = "remote_inference"  # in `metadata_props`
# Tensors of the graph; images have their feature's name.
STATE, NOISE, ACTIONS = "state", "noise", "actions"
PREFIX, EXECUTED, DELAY = "prefix", "executed_steps", "delay_steps"  # all three, or none
WAIT = (PREFIX, EXECUTED, DELAY)
TASK = "task"

Provider = Literal["tensorrt", "cuda", "cpu"]
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


class OnnxDescription(TrainedPolicy):
    """The JSON text under `remote_inference` in the `metadata_props` of an ONNX file."""

    format: Annotated[Literal[1], Field(description="version of this table")]
    observation_steps: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_OBSERVATION_STEPS,
            description="control ticks that one observation shows, a row of a chunk apart; more than 1: "
            "state and images have them as second dimension",
        ),
    ] = 1
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
        if taken := sorted({STATE, NOISE, ACTIONS, TASK, *WAIT} & self.image_features.keys()):
            raise ValueError(f"image_features: found {taken[0]!r}, the name of another tensor")
        return self
