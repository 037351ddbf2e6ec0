# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said of every trained policy, whatever its file: names, shapes and the training's control rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from remote_inference.core.documents.document import Document

Positive = Annotated[int, Field(ge=1)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
ImageShape = tuple[Positive, Positive, Literal[3]]  # height, width, channels
ImageResize = Literal["stretch", "letterbox", "crop"]
Unit = Annotated[str, Field(min_length=1)]
UNITS = Field(
    description="unit of a state entry or action, by name, as a contract's `scale` or limits call it: "
    "degrees, percent, rad, m; a robot that says another is refused; left out: not known"
)


class TrainedPolicy(Document):
    """Keys that `policy.json` of a chunk network and the description in an ONNX file share."""

    name: Annotated[str, Field(min_length=1, description="name, for logs and status")]
    revision: Annotated[
        str, Field(min_length=1, description="version, as `model.revision` of a manifest may ask for it")
    ]
    state_names: Annotated[Names, Field(description="state that it was trained with, in this order")]
    action_names: Annotated[Names, Field(description="columns of a chunk, in this order")]
    image_features: Annotated[
        Mapping[str, ImageShape],
        Field(description="cameras by feature: height, width and 3 channels of the training [px]"),
    ] = {}
    image_resize: Annotated[
        ImageResize,
        Field(
            description="how the training brought images to their size; letterbox: the image keeps its "
            "proportions, in the middle of black; crop: what sticks out of the trained proportions is cut "
            "off on both sides"
        ),
    ] = "stretch"
    chunk_size: Annotated[Positive, Field(description="rows of a chunk")]
    trained_fps: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="control rate of the training data [Hz]")
    ]
    units: Annotated[Mapping[str, Unit], UNITS] = {}
