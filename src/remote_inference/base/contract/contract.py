# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract: one YAML per robot type that maps the robot's topics to a policy's features."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from remote_inference.base.contract.action_kinds import Kind
from remote_inference.base.contract.actions import Actions, Home
from remote_inference.base.contract.commands.sink import CommandSink, ControllerSwitch
from remote_inference.base.contract.fields import Name, Rate, require_unique
from remote_inference.base.contract.image_source import ImageSource, check_cameras
from remote_inference.base.contract.operator_inputs import (
    InstructionInput,
    OperatorInput,
    StopInput,
    TakeoverInput,
)
from remote_inference.base.contract.policy_units import ConvertedQuaternion, UnitMap
from remote_inference.base.contract.sources_and_commands import (
    MEASURED,
    Measurement,
    Measurements,
    check_command_fields,
    check_command_kinds,
    check_pose_sources,
    check_scales_agree,
)
from remote_inference.base.contract.state_source import OneOrSeveral, StateSource
from remote_inference.base.documents.document import Document, load_document, parse_document, parse_yaml
from remote_inference.base.exchange import ImageFeature, in_namespace
from remote_inference.base.limits import MAX_TASK_LENGTH


class Contract(Document):
    """A robot's topics, names, rates and limits."""

    robot_type: Name
    """name of this kind of robot, for logs and status"""
    fps: Rate
    """control rate; without policy_fps also the policy's training rate, and that of the ticks it sees [Hz]"""
    policy_fps: Rate | None = None
    """the policy's rate where control is faster: fps divided by a whole number [Hz]"""
    interpolation: Literal["linear", "none"] = "linear"
    """commands between the policy's actions, with policy_fps; linear: in even steps to the next one; none:
    the action again"""
    task: Annotated[str, Field(max_length=MAX_TASK_LENGTH)] = ""
    """first instruction; empty: the server's default_task"""
    state: Annotated[tuple[StateSource, ...], Field(min_length=1)]
    """what the policy sees of joints and other sensors, in this order"""
    images: Mapping[str, ImageSource] = {}
    """cameras, by the robot's name for each; only those that the policy uses are sent"""
    actions: Actions
    """what the policy commands, and its bounds"""
    commands: Annotated[tuple[CommandSink, ...], Field(min_length=1)]
    """controllers; together they take each action once"""
    rename: Mapping[str, Name] = {}
    """`images.` and the camera's name -> the policy's feature; `joints.` and the name of a state entry or an
    action -> the policy's name for it"""
    measured: Annotated[tuple[StateSource, ...], BeforeValidator(OneOrSeveral.read), OneOrSeveral()] = ()
    """one source or several, where state does not hold these by name: a joint position for each position
    action, in this order, and the seven numbers of a pose, by the actions' names"""
    home: Home | None = None
    """where to go when the robot gives up; left out: it stays"""
    watchdog_switch: ControllerSwitch | None = None
    """what the command watchdog asks the controller manager when it has stopped the controllers; left out:
    nothing"""
    stops: Mapping[str, StopInput] = {}
    """inputs that stop the robot, by the name that its state gives each"""
    takeover: TakeoverInput | None = None
    """a person's commands, executed between `takeover` and `release`"""
    instruction: InstructionInput | None = None
    """who says the task while the robot runs; until a text arrives it is `task`"""

    @model_validator(mode="after")
    def _consistent(self) -> Contract:
        require_unique(self.state_names, "state names")
        self._check_policy_fps()
        self._check_topics()
        check_command_fields(self.commands, self.actions)
        check_pose_sources(self.state_sources, self.actions)
        self._check_rename()
        Measurements(self.state_sources, self.actions).check()
        check_scales_agree(self.state, self.actions)
        if self.home is not None:
            self.home.check(self.actions)
        self._check_operator_inputs()
        return self

    def _check_policy_fps(self) -> None:
        if self.policy_fps is None:
            return
        if self.ticks_per_row < 1 or abs(self.row_fps - self.policy_fps) > 1e-3 * self.policy_fps:
            near = sorted({self.fps / max(1, int(self.fps / self.policy_fps) + more) for more in (0, 1)})
            found = f"policy_fps: found {self.policy_fps:g} with fps {self.fps:g}"
            rates = " or ".join(f"{rate:.6g}" for rate in near)
            raise ValueError(f"{found}, expected fps divided by a whole number, such as {rates}")

    def _check_topics(self) -> None:
        check_cameras(self.images)
        self._check_joints()
        types: dict[str, str] = {}
        for where, source in self.state_sources.items():
            _require_one_type(types, where, source)
        if both := types.keys() & {image.topic for image in self.images.values()}:
            raise ValueError(f"topic {', '.join(sorted(both))}: found in state and in images, expected one")
        require_unique([sink.destination for sink in self.commands], "command topics")
        if both := {sink.topic for sink in self.topic_commands} & set(self.topics):
            raise ValueError(f"topic {', '.join(sorted(both))}: found as command and sensor, expected one")
        commanded = [name for sink in self.commands for name in sink.names]
        require_unique(commanded, "names in commands")
        if set(commanded) != set(self.actions.names):
            raise ValueError(f"commands take {sorted(commanded)}, expected {sorted(self.actions.names)}")
        check_command_kinds(self.commands, self.actions)

    def _check_joints(self) -> None:
        """Refuse a joint of a topic that has two names: the topics of two arms may have been confused."""
        seen: dict[tuple[str, str | None, str], str] = {}
        for place, source in enumerate(self.state):
            for joint, name in zip(source.joints, source.names, strict=True) if source.is_joints else ():
                if (other := seen.setdefault((source.topic, source.field, joint), name)) != name:
                    found = f"found {joint} of {source.topic} as {name}, which is {other} already"
                    expected = "one name for each joint, or another topic"
                    raise ValueError(f"state.{place}: {found}, expected {expected}")

    def _check_rename(self) -> None:
        known = {f"images.{name}" for name in self.images}
        plain = self.state_units.lay_out(self.state_names, lambda _: ())
        plain += self.action_units.lay_out(self.actions.names, lambda _: ())
        known |= {f"joints.{name}" for name in plain}
        if unknown := sorted(set(self.rename) - known):
            raise ValueError(f"rename has {', '.join(unknown)}, expected keys of {sorted(known)}")
        require_unique([image.name for image in self.image_features], "image features after rename")
        require_unique(self.policy_state_names, "state names after rename")
        require_unique(self.policy_action_names, "action names after rename")

    def _check_operator_inputs(self) -> None:
        if self.takeover is not None:
            self.takeover.share(self.actions.names)
        known = self.sensor_types | {sink.topic: sink.type for sink in self.topic_commands}
        commanded = {sink.topic for sink in self.topic_commands}
        for where, source in self.operator_inputs.items():
            if source.topic in commanded:
                found = f"{where}: found the topic of a command, {source.topic}"
                raise ValueError(f"{found}, expected one that others publish")
            _require_one_type(known, where, source)

    @property
    def operator_inputs(self) -> dict[str, OperatorInput]:
        """The stop inputs, the takeover topics and that of instructions, by their place in the contract."""
        inputs: dict[str, OperatorInput] = {f"stops.{name}": stop for name, stop in self.stops.items()}
        inputs |= self.takeover.by_place if self.takeover else {}
        return inputs | ({"instruction": self.instruction} if self.instruction else {})

    @property
    def period_s(self) -> float:
        """Time between two control ticks."""
        return 1.0 / self.fps

    @property
    def ticks_per_row(self) -> int:
        """Control ticks that an action of the policy lasts."""
        return 1 if self.policy_fps is None else round(self.fps / self.policy_fps)

    @property
    def row_fps(self) -> float:
        """Rate of the policy's actions: delays, prefixes, horizons and data sets count in them."""
        return self.fps / self.ticks_per_row

    @property
    def row_period_s(self) -> float:
        return 1.0 / self.row_fps

    @property
    def action_dim(self) -> int:
        return len(self.actions.names)

    @property
    def topic_commands(self) -> tuple[CommandSink, ...]:
        """The commands that are messages on a topic."""
        return tuple(sink for sink in self.commands if sink.action is None)

    @property
    def action_commands(self) -> tuple[CommandSink, ...]:
        """The commands that are goals of an action server."""
        return tuple(sink for sink in self.commands if sink.action is not None)

    def kind_of(self, sink: CommandSink) -> Kind:
        """Return the kind of the actions that a controller takes."""
        return self.actions.kind_of(sink.names[0])

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names `[state_dim]` in the order in which the sources are concatenated."""
        return tuple(name for source in self.state for name in source.state_names)

    @property
    def policy_state_names(self) -> tuple[str, ...]:
        """Names that the policy has for the state, of each of its entries."""
        return self.state_units.lay_out(self._renamed(self.state_names), lambda turned: turned.rotation.names)

    @property
    def policy_action_names(self) -> tuple[str, ...]:
        """Names that the policy has for the actions, of each column of a chunk."""
        return self.action_units.lay_out(
            self._renamed(self.actions.names), lambda turned: turned.rotation.names
        )

    def _renamed(self, names: Sequence[str]) -> list[str]:
        return [self.rename.get(f"joints.{name}", name) for name in names]

    @property
    def policy_state_units(self) -> tuple[str, ...]:
        """Unit that the policy has for each of its state entries; empty where nobody says it."""
        kinds = dict(zip(self.actions.names, self.actions.kinds, strict=True))
        own = [
            self.actions.unit(name) if kinds.get(name, "") in (source.field, "pose") else ""
            for source in self.state
            for name in source.entries
        ]
        return self.state_units.units_beside(own)

    @property
    def policy_action_units(self) -> tuple[str, ...]:
        """Unit that the policy has for each column of a chunk."""
        return self.action_units.units_beside(map(self.actions.unit, self.actions.names))

    @property
    def policy_action_kinds(self) -> tuple[str, ...]:
        """What each column of a chunk commands, and whether it says how far and not where to."""
        kinds = self.actions.said_kinds
        return self.action_units.lay_out(
            kinds, lambda turned: [kinds[turned.columns[0]]] * turned.rotation.shape.width
        )

    @property
    def state_units(self) -> UnitMap:
        """Conversion of the state `[state_dim]` to the policy's units and forms."""
        scales = [scale for source in self.state for scale in source.scales]
        # Entries have one name in a source; several sources may have the same, of velocities for example.
        begins = accumulate((len(source.entries) for source in self.state), initial=0)
        turned = [
            ConvertedQuaternion(
                rotation, tuple(begin + source.entries.index(name) for name in rotation.quaternion)
            )
            for begin, source in zip(begins, self.state, strict=False)
            for rotation in source.rotations
        ]
        return UnitMap(scales, turned)

    @property
    def action_units(self) -> UnitMap:
        """Conversion of actions `[action_dim]` from the policy's units and forms."""
        return self.actions.unit_map

    @property
    def image_features(self) -> tuple[ImageFeature, ...]:
        """Cameras in the contract's order, under the policy's names."""
        return tuple(
            ImageFeature(self.rename.get(f"images.{name}", f"images.{name}"), source.travels_as)
            for name, source in self.images.items()
        )

    @property
    def topics(self) -> tuple[str, ...]:
        """Sensor topics, each once: the state's, then cameras."""
        return self.topics_with(self.camera_topics)

    def topics_with(self, features: Collection[str]) -> tuple[str, ...]:
        """Return the sensor topics, each once: the state's, then the cameras of some policy's features."""
        state = [source.topic for source in self.state_sources.values()]
        cameras = [topic for feature, topic in self.camera_topics.items() if feature in features]
        return tuple(dict.fromkeys(state + cameras))

    @property
    def camera_topics(self) -> dict[str, str]:
        """Camera topics in the contract's order, by the policy's names."""
        sources = zip(self.image_features, self.images.values(), strict=True)
        return {feature.name: source.topic for feature, source in sources}

    @property
    def state_sources(self) -> dict[str, StateSource]:
        """Sources of the state and of separately measured positions, by place in the contract."""
        sources = {f"state.{place}": source for place, source in enumerate(self.state)}
        if len(self.measured) == 1:
            return sources | {MEASURED: self.measured[0]}
        return sources | {f"{MEASURED}.{place}": source for place, source in enumerate(self.measured)}

    @property
    def joint_sources(self) -> tuple[StateSource, ...]:
        """Sources that are read from JointState topics, by joint name."""
        return tuple(source for source in self.state_sources.values() if source.is_joints)

    @property
    def sensor_types(self) -> dict[str, str]:
        """Message type of each sensor topic: those of the state, then the cameras."""
        state: dict[str, str] = {source.topic: source.type for source in self.state_sources.values()}
        return state | {image.topic: image.type for image in self.images.values()}

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Sources of positions and poses of what is commanded, and the action of each of their entries."""
        return Measurements(self.state_sources, self.actions).find()

    @property
    def measured_actions(self) -> tuple[str, ...]:
        """Actions whose positions are measured: those of positions and poses, or without any all."""
        return Measurements(self.state_sources, self.actions).wanted

    @property
    def measured_topics(self) -> tuple[str, ...]:
        """Topics of the positions of what is commanded: no other sensor's silence makes these old."""
        return tuple(dict.fromkeys(measurement.source.topic for measurement in self.measurements))


def _require_one_type(types: dict[str, str], where: str, source: StateSource | OperatorInput) -> None:
    """Note the message type of a source's topic. Raises ValueError when it has another one elsewhere."""
    if (other := types.setdefault(source.topic, source.type)) != source.type:
        expected = f"{other} as elsewhere"
        raise ValueError(f"{where}.type: found {source.type} for {source.topic}, expected {expected}")


def find_name_clash(contract: Contract, namespace: str) -> str:
    """Return which two topics of a contract are one in a robot's namespace, or an empty string.

    A contract distinguishes topics by their names, which are relative to the namespace or absolute.
    """
    topics = [*contract.topics, *(sink.topic for sink in contract.topic_commands)]
    topics += [source.topic for source in contract.operator_inputs.values()]
    names: dict[str, str] = {}
    for topic in dict.fromkeys(topics):
        full = in_namespace(namespace, topic)
        if (other := names.setdefault(full, topic)) != topic:
            return f"found {other} and {topic}, which are one topic in {namespace}, expected one spelling"
    return ""


def load_contract(path: str | Path) -> Contract:
    """Read a contract. Raises DocumentError naming file, key, what was found and expected."""
    return load_document(path, Contract)


def parse_contract(text: str, source: str) -> Contract:
    """Return the contract that a text holds; `source` names the text in errors. Raises DocumentError."""
    return parse_document(parse_yaml(text, source), Contract, source)
