# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Converts contracts from and to HUD's: the JSON by which its environments describe a robot (`hud` 0.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote_inference.base.contract import generated
from remote_inference.base.contract.contract import Contract
from remote_inference.base.contract.fields import Finite, Positive
from remote_inference.base.contract.generated import GeneratedContract
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.documents.document import (
    DocumentError,
    ForeignDocument,
    mark,
    parse_document,
    parse_json,
)
from remote_inference.base.errors import UserError
from remote_inference.base.lerobot_format import state_sources

IMAGES = "observation.images."  # before a camera's key, in the data sets that HUD writes
OBSERVATION, ACTION = "observation", "action"
STATE_KEY, ACTION_KEY = "state", "action"
COLOURS = {"rgb": "rgb", "bgr": "rgb", "gray": "rgb", "depth": "depth"}  # by HUD's type of an image
JOINT_POSITIONS = {"type": "joint_pos", "state_type": "JOINT_ABS_POS"}
NOTES = (
    "Names, rate and bounds are those of the HUD contract. It has neither topics nor velocities nor units:",
    "a contract's bounds are in radians and metres, and `scale` is for policies with other units.",
)


class Bounds(ForeignDocument):
    """A lowest and a highest value for each name."""

    min: tuple[Finite, ...]
    max: tuple[Finite, ...]


class Feature(ForeignDocument):
    """One feature of an observation, or the action."""

    role: str
    type: str | None = None
    state_type: str | None = None
    dtype: str | None = None
    names: tuple[str, ...] | None = None
    limits: Bounds | None = None

    @property
    def is_image(self) -> bool:
        return self.dtype == "image" or self.type in COLOURS

    @property
    def joints(self) -> tuple[str, ...]:
        names = self.names or ()
        return names if all(names) and len(set(names)) == len(names) else ()


class HudContract(ForeignDocument):
    """The keys of a HUD contract that ours needs."""

    robot_type: str | None = None
    control_rate: Positive | None = None
    """rate of the actions [Hz]"""
    features: Mapping[str, Feature]
    """what is observed, and the action"""

    @property
    def action(self) -> Feature:
        return next(feature for feature in self.features.values() if feature.role == ACTION)


def _read(text: str | bytes, source: str) -> HudContract:
    contract = parse_document(parse_json(text, source), HudContract, source)
    actions = [name for name, feature in contract.features.items() if feature.role == ACTION]
    if len(actions) != 1:
        raise DocumentError(f"{source}: features: found {len(actions)} with role action, expected one")
    where, action = f"{source}: features.{actions[0]}", contract.action
    if action.limits is not None and action.joints:
        found = len(action.limits.min), len(action.limits.max)
        if found != (len(action.joints),) * 2:
            raise DocumentError(
                f"{where}.limits: found {found[0]} min and {found[1]} max, expected {len(action.joints)} each"
            )
    kinds = {kind for kind in (action.type, action.state_type) if kind}
    if alien := sorted(kinds - set(JOINT_POSITIONS.values())):
        expected = " or ".join(sorted(JOINT_POSITIONS.values()))
        raise DocumentError(
            f"{where}: found {alien[0]!r}, expected {expected}, or none: a contract commands joints"
        )
    return contract


def import_contract(text: str | bytes, source: str) -> GeneratedContract:
    """Return a contract of HUD's, topics and velocities marked. source: of the text. Raises DocumentError."""
    hud, notes = _read(text, source), [*NOTES]
    content: dict[str, Any] = {
        "robot_type": hud.robot_type or generated.UNKNOWN_ROBOT_TYPE,
        "fps": float(hud.control_rate) if hud.control_rate else mark(generated.UNKNOWN_FPS),
    }
    sources: list[dict[str, Any]] = []
    for key, feature in hud.features.items():
        if feature.role != OBSERVATION:
            continue
        if feature.is_image:
            colour = COLOURS.get(feature.type or "", mark("rgb or depth"))
            generated.add_camera(content, IMAGES + key.replace("/", "_").removeprefix(IMAGES), colour)
        elif feature.dtype == "string":
            notes.append(f"{key}: left out, a text is the contract's task")
        else:
            unknown = mark(f"a list of the joints of {key}, which the HUD contract does not name")
            sources += state_sources(feature.joints, unknown)
    content["state"] = sources or mark(f"a list of topics of type {JOINT_STATE} with their joints")
    action = hud.action
    names: Any = list(action.joints) or mark("a list of the actions, which the HUD contract does not name")
    kind = "position" if action.type or action.state_type else ""
    content["actions"] = {
        "kind": kind or generated.UNKNOWN_KIND,
        "names": names,
        "limits": _limits(action, kind) or generated.UNKNOWN_LIMITS,
    }
    content["commands"] = generated.unknown_commands(names)
    return GeneratedContract(content, tuple(notes))


def _limits(action: Feature, kind: str) -> dict[str, Any]:
    limits = {name: generated.unknown_limit(kind, "the HUD contract has none") for name in action.joints}
    if action.limits is not None and limits:
        for name, low, high in zip(limits, action.limits.min, action.limits.max, strict=True):
            limits[name] |= {"min": low, "max": high}
    return generated.leave_grippers_unwatched(limits, kind)


def to_hud(contract: Contract) -> dict[str, Any]:
    """Return the HUD contract of a robot. Topics, velocities, home and stops have no place there.

    Names and limits are the policy's, limits in its units, which a HUD contract has no place for either.

    Raises UserError when a camera has the name of the state, of the action or of another camera.
    """
    actions = contract.actions
    limits = [actions.limit_of(name) for name in actions.names]
    own = zip(limits, contract.action_units.lines, strict=True)
    ends = contract.action_units.lay_out(
        [sorted((limit.min * by + more, limit.max * by + more)) for limit, (by, more) in own],
        lambda turned: (
            [[-turned.rotation.shape.most, turned.rotation.shape.most]] * turned.rotation.shape.width
        ),
    )
    features: dict[str, Any] = {}
    for image, source in zip(contract.image_features, contract.images.values(), strict=True):
        key = image.name.removeprefix("observation.").removeprefix("images.")
        if key in (STATE_KEY, ACTION_KEY, *features):
            raise UserError(
                f"rename: found {image.name!r} for a camera, expected another name: {key} is taken"
            )
        features[key] = {"role": OBSERVATION, "type": source.colour, "dtype": "image"}
    features[STATE_KEY] = describe_vector(OBSERVATION, contract.policy_state_names)
    features[ACTION_KEY] = describe_vector(ACTION, contract.policy_action_names) | {
        "limits": {"min": [low for low, _ in ends], "max": [high for _, high in ends]}
    }
    if len(actions.positions) == len(actions.names):
        features[ACTION_KEY] |= JOINT_POSITIONS
    return {"robot_type": contract.robot_type, "control_rate": contract.row_fps, "features": features}


def describe_vector(role: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return a feature of named numbers."""
    return {"role": role, "dtype": "float32", "shape": [len(names)], "names": list(names)}
