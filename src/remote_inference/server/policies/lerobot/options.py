# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What `model.options` of a LeRobot policy says, and the names and control rate that a checkpoint lacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from remote_inference.base.documents.document import Document, DocumentError, parse_json
from remote_inference.base.documents.problems import show_value
from remote_inference.base.policy import PolicyError
from remote_inference.server.policies.trained_policy import UNITS, Unit


class LeRobotOptions(Document):
    """Keys of `model.options`. Paths are relative to the policy's folder."""

    dataset: Annotated[
        str, Field(description="`meta/info.json` of the training data: names of state and actions, and fps")
    ] = ""
    state_names: Annotated[
        tuple[str, ...], Field(description="state that it was trained with, in this order; before dataset's")
    ] = ()
    action_names: Annotated[
        tuple[str, ...], Field(description="columns of a chunk, in this order; before dataset's")
    ] = ()
    trained_fps: Annotated[
        float | None,
        Field(
            gt=0, allow_inf_nan=False, description="control rate of the training data [Hz]; before dataset's"
        ),
    ] = None
    units: Annotated[Mapping[str, Unit], UNITS] = {}
    language_model: Annotated[
        str,
        Field(
            description="folder of the tokenizer, for smolvla of the whole vision-language model's "
            "configuration; empty: what the checkpoint names must be on this machine"
        ),
    ] = ""
    compile: Annotated[
        bool,
        Field(description="compile what takes the time of a chunk with torch.compile; loading takes longer"),
    ] = False
    execution_horizon: Annotated[
        int | None,
        Field(
            ge=1, description="real-time chunking: most rows of a prefix that count; none: the checkpoint's"
        ),
    ] = None
    max_guidance_weight: Annotated[
        float | None,
        Field(
            gt=0,
            allow_inf_nan=False,
            description="real-time chunking: bound of the correction's factor; none: the checkpoint's",
        ),
    ] = None


@dataclass(frozen=True)
class Names:
    """The names of state and actions, and the recording's rate [Hz]."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    fps: float


def find_names(options: LeRobotOptions, folder: Path, state_dim: int | None, action_dim: int) -> Names:
    """Return names and control rate from the options, or else from the data set that the options name.

    state_dim, action_dim: what the checkpoint says; None for a policy without state. Raises PolicyError or
    DocumentError naming file and key when something is missing or does not fit.
    """
    file = folder / options.dataset if options.dataset else None
    data_set = _read_data_set(file) if file else {"features": {}}
    fps = options.trained_fps or data_set.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not fps > 0:
        where = f"{file}: fps" if file else "model.options: trained_fps"
        raise PolicyError(
            f"{where}: found {show_value(fps)}, expected the control rate of the training data [Hz], which a "
            "checkpoint does not have"
        )

    def find(key: str, stated: tuple[str, ...], feature: str, count: int | None) -> tuple[str, ...]:
        if stated or not file:
            return _check_names(f"model.options: {key}", stated, count)
        recorded = _flatten(data_set["features"].get(feature, {}).get("names"))
        return _check_names(f"{file}: features.{feature}.names", recorded, count)

    return Names(
        find("state_names", options.state_names, "observation.state", state_dim),
        find("action_names", options.action_names, "action", action_dim),
        float(fps),
    )


def find_units(options: LeRobotOptions, folder: Path, names: Names) -> dict[str, str]:
    """Return the units by name that the options say, or else the data set, if this package wrote it."""
    found: dict[str, str] = {}
    if options.dataset:
        features = _read_data_set(folder / options.dataset)["features"]
        for feature, known in (("observation.state", names.state), ("action", names.action)):
            units = features.get(feature, {}).get("units")
            if isinstance(units, list) and len(units) == len(known):
                said = zip(known, units, strict=True)
                found |= {name: unit for name, unit in said if isinstance(unit, str) and unit}
    return found | dict(options.units)


def _check_names(where: str, names: tuple[str, ...], count: int | None) -> tuple[str, ...]:
    """Return names that are different, and as many as the checkpoint says. count: None for any number."""
    if not names or (count is not None and len(names) != count):
        found = f"{len(names)}: {show_value(list(names))}" if names else "none"
        expected = "names" if count is None else f"{count} names"
        raise PolicyError(f"{where}: found {found}, expected {expected}, as the checkpoint has no names")
    if len(set(names)) < len(names):
        raise PolicyError(f"{where}: found {show_value(list(names))}, expected each name once")
    return names


def _read_data_set(file: Path) -> dict[str, Any]:
    try:
        content = parse_json(file.read_bytes(), str(file))
    except OSError as error:
        raise DocumentError(f"{file}: cannot be read: {error.strerror}") from error
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, dict) or not all(isinstance(value, dict) for value in features.values()):
        raise DocumentError(f"{file}: features: found {show_value(features)}, expected a data set's features")
    return dict(content)


def _flatten(names: Any) -> tuple[str, ...]:
    """Return names that a data set lists, or holds in a mapping with one list, such as `motors`."""
    if isinstance(names, dict) and len(names) == 1:
        (names,) = names.values()
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return tuple(names)
    return ()
