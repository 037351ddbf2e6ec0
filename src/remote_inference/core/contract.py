# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract: one YAML per robot type that maps the robot's topics to a policy's features."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from remote_inference.core.contract_fields import Name, Positive, require_unique
from remote_inference.core.contract_sections import Actions, CommandSink, Home, ImageSource, StateSource
from remote_inference.core.controller_switch import ControllerSwitch
from remote_inference.core.document import Document, load_document, parse_document, parse_yaml
from remote_inference.core.exchange import ImageFeature
from remote_inference.core.limits import MAX_TASK_LENGTH
from remote_inference.core.operator_inputs import StopInput, TakeoverInput


class Contract(Document):
    """A robot's topics, names, rates and limits."""

    robot_type: Annotated[Name, Field(description="name of this kind of robot, for logs and status")]
    fps: Annotated[
        Positive,
        Field(description="control rate; the policy's training rate, also that of the ticks it sees [Hz]"),
    ]
    task: Annotated[
        str,
        Field(max_length=MAX_TASK_LENGTH, description="first instruction; empty: the server's default_task"),
    ] = ""
    state: Annotated[
        tuple[StateSource, ...],
        Field(min_length=1, description="joints that the policy sees, concatenated in this order"),
    ]
    images: Annotated[
        Mapping[str, ImageSource],
        Field(description="cameras, by the robot's name for each; only those that the policy uses are sent"),
    ] = {}
    actions: Annotated[Actions, Field(description="what the policy commands, and its bounds")]
    commands: Annotated[
        tuple[CommandSink, ...],
        Field(min_length=1, description="controllers; together they take each action once"),
    ]
    rename: Annotated[
        Mapping[str, str], Field(description="`images.` and the camera's name -> the policy's feature")
    ] = {}
    measured: Annotated[
        StateSource | None,
        Field(description="joint position for each action, where state does not hold them by name"),
    ] = None
    home: Annotated[
        Home | None, Field(description="where to go when the robot gives up; left out: it stays")
    ] = None
    watchdog_switch: Annotated[
        ControllerSwitch | None,
        Field(
            description="what the command watchdog asks the controller manager when it has stopped the "
            "controllers; left out: nothing"
        ),
    ] = None
    stops: Annotated[
        Mapping[str, StopInput],
        Field(description="inputs that stop the robot, by the name that its state gives each"),
    ] = {}
    takeover: Annotated[
        TakeoverInput | None,
        Field(description="a person's commands, executed between `takeover` and `release`"),
    ] = None

    @model_validator(mode="after")
    def _consistent(self) -> Contract:
        require_unique(self.state_names, "state names")
        self._check_topics()
        self._check_measured()
        self._check_home()
        self._check_operator_inputs()
        return self

    def _check_topics(self) -> None:
        require_unique([image.topic for image in self.images.values()], "image topics")
        joints = {source.topic for source in self.joint_sources}
        if both := joints & {image.topic for image in self.images.values()}:
            raise ValueError(f"topic {', '.join(sorted(both))}: found in state and in images, expected one")
        require_unique([sink.topic for sink in self.commands], "command topics")
        if both := {sink.topic for sink in self.commands} & set(self.topics):
            raise ValueError(f"topic {', '.join(sorted(both))}: found as command and sensor, expected one")
        commanded = [name for sink in self.commands for name in sink.names]
        require_unique(commanded, "names in commands")
        if set(commanded) != set(self.actions.names):
            raise ValueError(f"commands take {sorted(commanded)}, expected {sorted(self.actions.names)}")
        robot_features = {f"images.{name}" for name in self.images}
        if unknown := sorted(set(self.rename) - robot_features):
            raise ValueError(f"rename has {', '.join(unknown)}, expected keys of {sorted(robot_features)}")
        require_unique([image.name for image in self.image_features], "image features after rename")
        for sink in self.commands:
            if self.actions.kind not in sink.interface.kinds:
                raise ValueError(
                    f"commands: {sink.topic} takes a {sink.type.split('/')[-1]}, expected actions.kind "
                    f"{' or '.join(sink.interface.kinds)}, found {self.actions.kind}"
                )

    def _check_measured(self) -> None:
        """Require joint positions: the first step of a position robot can be bounded only from these."""
        if self.measured is not None:
            if self.measured.field != "position" or len(self.measured.names) != self.action_dim:
                raise ValueError(
                    f"measured: found {len(self.measured.names)} names of field {self.measured.field}, "
                    f"expected one of field position for each of the {self.action_dim} actions"
                )
            return
        missing = [name for name in self.actions.names if name not in self.state_names]
        if self.actions.kind == "position" and missing:
            raise ValueError(
                f"state holds no position of {', '.join(missing)}, from which the first step is bounded; "
                "expected the names of the actions, or `measured` with a joint for each of them"
            )

    def _check_home(self) -> None:
        if self.home is None:
            return
        if self.actions.kind != "position":
            raise ValueError(f"home: found with {self.actions.kind} actions, expected position actions")
        if len(self.home.positions) != self.action_dim:
            raise ValueError(
                f"home.positions has {len(self.home.positions)} values, expected {self.action_dim}"
            )
        for name, position in zip(self.actions.names, self.home.positions, strict=True):
            limit = self.actions.limits[name]
            if not limit.min <= position <= limit.max:
                raise ValueError(
                    f"home.positions: found {position} for {name}, expected {limit.min} to {limit.max}"
                )

    def _check_operator_inputs(self) -> None:
        known = self.sensor_types | {sink.topic: sink.type for sink in self.commands}
        commanded = {sink.topic for sink in self.commands}
        for where, source in self.operator_inputs.items():
            if source.topic in commanded:
                raise ValueError(
                    f"{where}: found the topic of a command, {source.topic}, expected one that others publish"
                )
            other = known.setdefault(source.topic, source.type)
            if other != source.type:
                raise ValueError(
                    f"{where}.type: found {source.type} for {source.topic}, expected {other} as elsewhere"
                )

    @property
    def operator_inputs(self) -> dict[str, StopInput | TakeoverInput]:
        """The stop inputs and the takeover topic, by their place in the contract."""
        inputs: dict[str, StopInput | TakeoverInput] = {
            f"stops.{name}": stop for name, stop in self.stops.items()
        }
        return inputs | ({"takeover": self.takeover} if self.takeover else {})

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
        """Sensor topics, each once: joints, then cameras."""
        return self.topics_with(self.camera_topics)

    def topics_with(self, features: Collection[str]) -> tuple[str, ...]:
        """Return the sensor topics, each once: joints, then the cameras of some of the policy's features."""
        joints = [source.topic for source in self.joint_sources]
        cameras = [topic for feature, topic in self.camera_topics.items() if feature in features]
        return tuple(dict.fromkeys(joints + cameras))

    @property
    def camera_topics(self) -> dict[str, str]:
        """Camera topics in the contract's order, by the policy's names."""
        sources = zip(self.image_features, self.images.values(), strict=True)
        return {feature.name: source.topic for feature, source in sources}

    @property
    def joint_sources(self) -> tuple[StateSource, ...]:
        """Sources read from JointState topics: the state, and the measured positions if they are separate."""
        return (*self.state, *([self.measured] if self.measured else []))

    @property
    def sensor_types(self) -> dict[str, str]:
        """Message type of each sensor topic: those of the joints, then the cameras."""
        joints: dict[str, str] = {source.topic: source.type for source in self.joint_sources}
        return joints | {image.topic: image.type for image in self.images.values()}

    @property
    def measured_topics(self) -> tuple[str, ...]:
        """Topics from which the robot's joint positions are read."""
        return tuple(dict.fromkeys(s.topic for s in ([self.measured] if self.measured else self.state)))


def load_contract(path: str | Path) -> Contract:
    """Read a contract. Raises DocumentError naming file, key, what was found and expected."""
    return load_document(path, Contract)


def parse_contract(text: str, source: str) -> Contract:
    """Return the contract that a text holds; `source` names the text in errors. Raises DocumentError."""
    return parse_document(parse_yaml(text, source), Contract, source)
