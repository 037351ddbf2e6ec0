# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract: one YAML per robot type that maps the robot's topics to a policy's features."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from remote_inference.core.document import Document, load_document
from remote_inference.core.exchange import ImageFeature

JOINT_STATE = "sensor_msgs/msg/JointState"
IMAGE = "sensor_msgs/msg/Image"
COMPRESSED_IMAGE = "sensor_msgs/msg/CompressedImage"
FLOAT64_MULTI_ARRAY = "std_msgs/msg/Float64MultiArray"

Name = Annotated[str, Field(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(min_length=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


class StateSource(Document):
    """Joints picked by name from one topic; sources are concatenated in the contract's order."""

    topic: Name
    type: Literal["sensor_msgs/msg/JointState"]
    field: Literal["position", "velocity", "effort"]
    names: Names

    @property
    def state_names(self) -> tuple[str, ...]:
        """State entries: the joint's own name for a position, else `joint.velocity` or `joint.effort`."""
        if self.field == "position":
            return self.names
        return tuple(f"{name}.{self.field}" for name in self.names)


class ImageSource(Document):
    """One camera. `jpeg_quality` 0 sends it unencoded; an image that arrives as JPEG is passed through."""

    topic: Name
    type: Literal["sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"]
    colour: Literal["rgb", "depth"] = "rgb"
    jpeg_quality: Annotated[int, Field(ge=0, le=100)] = 90

    @property
    def encoding(self) -> str:
        """How the image travels: "jpeg", "png" (16-bit depth) or "raw"."""
        if self.type == IMAGE and self.jpeg_quality == 0:
            return "raw"
        return "png" if self.colour == "depth" else "jpeg"


class JointLimit(Document):
    """Bounds of one action dimension, in the unit of the action (rad, m, rad/s, ...)."""

    min: Finite
    max: Finite
    max_velocity: Positive  # [unit/s] bound on the change of the command

    @model_validator(mode="after")
    def _ordered(self) -> JointLimit:
        if self.min >= self.max:
            raise ValueError(f"found min {self.min} and max {self.max}, expected min < max")
        return self


class Actions(Document):
    """The action vector: `[action_dim]` in the order of `names`, which must equal the policy's."""

    kind: Literal["position", "velocity", "effort"]
    names: Names
    limits: Mapping[str, JointLimit]

    @model_validator(mode="after")
    def _limits_cover_names(self) -> Actions:
        _require_unique(self.names, "names")
        if missing := [name for name in self.names if name not in self.limits]:
            raise ValueError(f"limits has no entry for {', '.join(missing)}, expected one for each of names")
        if unknown := [name for name in self.limits if name not in self.names]:
            raise ValueError(f"limits names {', '.join(unknown)}, expected only names of actions.names")
        return self


class CommandSink(Document):
    """A controller's command topic and the actions it takes, in its own order."""

    topic: Name
    type: Literal["std_msgs/msg/Float64MultiArray"]
    names: Names


class Home(Document):
    """Joint targets `[action_dim]` and the time in which to reach them."""

    positions: tuple[Finite, ...]
    duration_s: Positive


class Contract(Document):
    """A robot's topics, names, rates and limits."""

    robot_type: Name
    fps: Positive  # [Hz] control rate
    task: str = ""
    state: Annotated[tuple[StateSource, ...], Field(min_length=1)]
    images: Mapping[str, ImageSource] = {}
    actions: Actions
    commands: Annotated[tuple[CommandSink, ...], Field(min_length=1)]
    rename: Mapping[str, str] = {}
    home: Home | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Contract:
        _require_unique(self.state_names, "state names")
        _require_unique([image.topic for image in self.images.values()], "image topics")
        if both := {source.topic for source in self.state} & {image.topic for image in self.images.values()}:
            raise ValueError(f"topic {', '.join(sorted(both))}: found in state and in images, expected one")
        commanded = [name for sink in self.commands for name in sink.names]
        _require_unique(commanded, "names in commands")
        if set(commanded) != set(self.actions.names):
            raise ValueError(f"commands take {sorted(commanded)}, expected {sorted(self.actions.names)}")
        robot_features = {f"images.{name}" for name in self.images}
        if unknown := sorted(set(self.rename) - robot_features):
            raise ValueError(f"rename has {', '.join(unknown)}, expected keys of {sorted(robot_features)}")
        _require_unique([image.name for image in self.image_features], "image features after rename")
        if self.home and len(self.home.positions) != self.action_dim:
            raise ValueError(
                f"home.positions has {len(self.home.positions)} values, expected {self.action_dim}"
            )
        return self

    @property
    def period_s(self) -> float:
        return 1.0 / self.fps

    @property
    def action_dim(self) -> int:
        return len(self.actions.names)

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names `[state_dim]` in the order in which the sources are concatenated."""
        return tuple(name for source in self.state for name in source.state_names)

    @property
    def image_features(self) -> tuple[ImageFeature, ...]:
        """Cameras in the contract's order, under the policy's names."""
        return tuple(
            ImageFeature(self.rename.get(f"images.{name}", f"images.{name}"), source.encoding)
            for name, source in self.images.items()
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """Sensor topics, each once: state sources, then cameras."""
        joints = [source.topic for source in self.state]
        cameras = [source.topic for source in self.images.values()]
        return tuple(dict.fromkeys(joints + cameras))


def load_contract(path: str | Path) -> Contract:
    """Read a contract. Raises DocumentError naming file, key, what was found and expected."""
    return load_document(path, Contract)


def _require_unique(names: tuple[str, ...] | list[str], what: str) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{what}: {', '.join(twice)} found more than once, expected unique names")
