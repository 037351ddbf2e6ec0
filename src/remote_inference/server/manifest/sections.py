# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The manifest's sections: `openpi` and `lerobot_async` for others' clients, `weights` for live weights."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from remote_inference.base.documents.document import Document, DocumentError, NameIn
from remote_inference.base.documents.registry import Registry
from remote_inference.base.policy import Policy, PolicySpec


class WeightsSection(Document):
    """Live weights."""

    accept: bool = False
    """let a trainer change the policy's weights while robots use them"""
    socket: str = ""
    """socket at which trainers on this machine connect, which only the server's user can open; relative to
    the manifest's folder"""

    ros: bool = False
    """let trainers on other machines connect, over ROS: whoever may publish in this network may then change
    the policy, unless the fleet's access rules forbid it"""

    @model_validator(mode="after")
    def _consistent(self) -> WeightsSection:
        if self.accept and not (self.socket or self.ros):
            expected = "the path of a socket, or ros: true"
            raise ValueError(f"socket: found nothing with accept: true, expected {expected}")
        return self


Key = Annotated[str, Field(min_length=1, max_length=256)]


@dataclass(frozen=True)
class ObservationKeys:
    """What an observation's entries are called; `a/b` is the entry `a/b`, or `b` of the map `a`.

    state: the entries whose numbers make the state, in order. images: the entry of each camera; in a preset
    by the camera's own word, otherwise by the policy's feature. layout: of the images. prompt: the task's
    entry.
    """

    state: tuple[str, ...]
    images: Mapping[str, str]
    layout: Literal["hwc", "chw"] = "hwc"
    prompt: str = "prompt"


PRESETS = Registry[ObservationKeys]("preset")
PRESETS.add(
    "droid",
    ObservationKeys(
        state=("observation/joint_position", "observation/gripper_position"),
        images={
            name: f"observation/{name}"
            for name in ("exterior_image_1_left", "exterior_image_2_left", "wrist_image_left")
        },
    ),
)
PRESETS.add(
    "libero",
    ObservationKeys(
        state=("observation/state",),
        images={name: f"observation/{name}" for name in ("image", "wrist_image")},
    ),
)
PRESETS.add(
    "aloha",
    ObservationKeys(
        state=("state",),
        images={
            name: f"images/{name}" for name in ("cam_high", "cam_low", "cam_left_wrist", "cam_right_wrist")
        },
        layout="chw",
    ),
)


def _check_path(path: str) -> str:
    if not path.startswith("/") or any(character in path for character in "?# ") or path == "/healthz":
        raise ValueError(f"found {path!r}, expected a path such as '/' or '/v1/policy', without a query")
    return path


GATEWAYS = ("openpi", "lerobot_async")  # the sections that open a port for other programs' clients


class OpenpiSection(Document):
    """An endpoint for programs that use openpi-client."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """address to listen on; beyond this machine it needs api_key_file"""
    port: Annotated[int, Field(ge=1, le=65_535, description="TCP port; openpi's programs expect 8000")] = 8000
    path: Annotated[str, AfterValidator(_check_path), Field(description="path of the URL")] = "/"
    api_key_file: str = ""
    """file whose text clients must send (`Authorization: Api-Key ...`), relative to the manifest's folder;
    empty: none is asked for"""
    preset: Annotated[str, NameIn(PRESETS)] = ""
    """whose names the entries of an observation have; left out: those of the keys below"""
    state: tuple[Key, ...] = ()
    """entries that make the state, in the policy's order; empty: the preset's"""
    images: Mapping[str, Key] = {}
    """entry of each camera, by the policy's feature; a feature left out has the preset's camera of its last
    word"""
    layout: Literal["hwc", "chw"] | None = None
    """order of an image's axes (height, width, channels); left out: the preset's, or hwc"""
    prompt: Annotated[str, Field(description="entry of the task; empty: the preset's, or `prompt`")] = ""
    metadata: Mapping[str, Any] = {}
    """what a client gets when it connects; empty: the policy's name, chunk and fps"""

    @model_validator(mode="after")
    def _consistent(self) -> OpenpiSection:
        if not self.preset and not self.state:
            presets = ", ".join(PRESETS.names)
            raise ValueError(f"found neither preset nor state, expected a preset ({presets}) or the entries")
        if not self.api_key_file and not is_loopback(self.host):
            expected = "a key: whoever reaches the port could use the policy"
            raise ValueError(f"host: found {self.host!r} without api_key_file, expected {expected}")
        return self

    def keys_for(self, spec: PolicySpec) -> ObservationKeys:
        """Return the keys of a policy's observations. Raises DocumentError when they do not fit it."""
        preset = PRESETS.get(self.preset) if self.preset else ObservationKeys((), {})
        if unknown := sorted(set(self.images) - set(spec.image_shapes)):
            features = ", ".join(spec.image_shapes) or "none"
            expected = f"features of the policy: {features}"
            raise DocumentError(f"openpi.images: found {unknown[0]!r}, expected {expected}")
        needs = f"openpi: policy {spec.name} needs"
        if (steps := spec.observation_steps) > 1:
            raise DocumentError(f"{needs} observations of {steps} control ticks, clients send one")
        images = {
            feature: self.images.get(feature) or _camera_of(feature, preset) for feature in spec.image_shapes
        }
        if depth := [feature for feature, shape in spec.image_shapes.items() if shape[2] != 3]:
            raise DocumentError(f"{needs} depth ({depth[0]}), clients send colour")
        return ObservationKeys(
            state=self.state or preset.state,
            images=images,
            layout=self.layout or preset.layout,
            prompt=self.prompt or preset.prompt,
        )


class LerobotAsyncSection(Document):
    """A service for robots that run LeRobot's `robot_client`."""

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """address to listen on; LeRobot's clients have no key: beyond this machine, whoever reaches the port uses
    the policy"""
    port: Annotated[int, Field(ge=1, le=65_535, description="TCP port; LeRobot's clients expect 8080")] = 8080
    fps: Annotated[float, Field(ge=0.0, le=1000.0, allow_inf_nan=False)] = 0.0
    """control rate of the robots, which spaces the actions' times [Hz]; 0: the policy's"""

    def require_servable(self, spec: PolicySpec) -> None:
        """Raise DocumentError for a policy that needs what LeRobot's clients do not send."""
        needs = f"lerobot_async: policy {spec.name} needs"
        if (steps := spec.observation_steps) > 1:
            raise DocumentError(f"{needs} observations of {steps} control ticks, clients send one")
        if depth := [feature for feature, shape in spec.image_shapes.items() if shape[2] != 3]:
            raise DocumentError(f"{needs} depth ({depth[0]}), clients send colour")


def read_api_key(path: Path, key: str) -> str:
    """Return the key in a file, without white space around it. key: of the manifest, for errors.

    Raises DocumentError when the file cannot be read or holds no line of ASCII.
    """
    try:
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise DocumentError(f"{key}: found {path} ({reason}), expected a file with the key") from error
    if not found or not found.isascii() or not found.isprintable():
        raise DocumentError(f"{key}: found {path} with {len(found)} characters, expected a line of ASCII")
    return found


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _camera_of(feature: str, preset: ObservationKeys) -> str:
    camera = feature.rpartition(".")[2]
    if camera not in preset.images:
        cameras = ", ".join(preset.images) or "none"
        found = f"openpi.images: found no entry for {feature} of the policy"
        raise DocumentError(f"{found}, expected one; the preset has {cameras}")
    return preset.images[camera]


# -- The policy back ends that a manifest may name; `policies` adds those that are built in -------------

BackEnd = Callable[[Any], Policy]
"""Loads the policy that the manifest's section `model` describes.

It gets a `ModelSource`, untyped because the manifest imports the names of the back ends from here;
`source.read_options` validates the section's options. Raises PolicyError or DocumentError naming the file and
the key; DeviceError, a PolicyError, when this machine cannot use the device.
"""

GROUP = "remote_inference.policies"  # of the entry points by which other distributions add back ends

# A policy of your own needs no line here: `backend: my_package.my_module:load` names it, or an entry point.
BACK_ENDS = Registry[BackEnd]("policy back end", takes_places=True, group=GROUP)
