# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy without weights: nothing moves. For commissioning a robot, tests and benchmarks.

A position stays where it is measured. A velocity or an effort is 0: what is measured would go on, and a base
that is pushed would drive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from remote_inference.base.contract.action_kinds import ANY_KIND, GOING_ON
from remote_inference.base.contract.actions import RELATIVE
from remote_inference.base.documents.document import Document, load_document
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.trained_policy import UNITS, Names, Unit

CONFIG_FILE = "policy.json"
MEASURED_KINDS = tuple(kind for kind in ANY_KIND if kind not in GOING_ON)  # at what is measured they stay
ZERO_KINDS = (*GOING_ON, f"{RELATIVE}position")  # that rest at 0


class HoldConfig(Document):
    """`policy.json` of a hold policy; `image_features` maps each camera to `[height, width, 3]`."""

    name: Annotated[str, Field(description="name, for logs and status")]
    revision: Annotated[str, Field(description="version, as `model.revision` of a manifest may ask for it")]
    state_names: Names
    """state of the robots: the contract's names, in its order"""
    action_names: Names
    """actions, in the contract's order: names of the state, and of `zeros`"""
    zeros: tuple[str, ...] = ()
    """velocities, efforts and relative positions among the actions, which are answered with 0 instead of what
    is measured; a robot on which another action is one is refused"""
    image_features: Mapping[str, tuple[int, int, int]] = {}
    """cameras that robots must send: height, width and 3 channels [px]"""
    chunk_size: Annotated[int, Field(ge=1, description="actions of a chunk")]
    trained_fps: Annotated[float, Field(gt=0, description="control rate of the robots [Hz]")]
    units: Annotated[Mapping[str, Unit], UNITS] = {}


def load(source: ModelSource) -> HoldPolicy:
    """Load the policy of a manifest. Nothing is computed: whatever device and dtype are named will do."""
    source.read_options(Document)  # it has none
    return HoldPolicy(source.require_path())


class HoldProcessors:
    """Makes each action of the measured state, or 0."""

    def __init__(self, indices: Sequence[int | None], features: Sequence[str]) -> None:
        """Store the place of each action in the state, None for 0."""
        self._indices = tuple(indices)
        self._features = tuple(features)

    def pre(self, observation: PolicyObservation) -> Float32Array:
        if missing := [feature for feature in self._features if feature not in observation.images]:
            raise PolicyError(f"{', '.join(missing)}: missing; found {sorted(observation.images)}")
        state = observation.state
        return np.array([0.0 if index is None else state[index] for index in self._indices], np.float32)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: there is no state."""


class HoldPolicy:
    """Answers with measured positions and zeros, `chunk_size` times; `path` is a folder or its `policy.json`.

    Raises DocumentError when the configuration is invalid, PolicyError when an action is neither in the state
    nor in `zeros`, or one of `zeros` is no action.
    """

    def __init__(self, path: str | Path) -> None:
        file = Path(path) if Path(path).is_file() else Path(path) / CONFIG_FILE
        config = load_document(file, HoldConfig)
        known = (*config.state_names, *config.zeros)
        if missing := [name for name in config.action_names if name not in known]:
            expected = f"names of state_names or of zeros: {', '.join(known)}"
            raise PolicyError(f"{file}: action_names: found {missing[0]!r}, expected {expected}")
        if alien := [name for name in config.zeros if name not in config.action_names]:
            expected = f"names of action_names: {', '.join(config.action_names)}"
            raise PolicyError(f"{file}: zeros: found {alien[0]!r}, expected {expected}")
        self._indices = [
            None if name in config.zeros else config.state_names.index(name) for name in config.action_names
        ]
        self.spec = PolicySpec(
            name=config.name,
            revision=config.revision,
            fingerprint=make_fingerprint([file], {}),
            state_names=config.state_names,
            action_names=config.action_names,
            image_shapes=config.image_features,
            chunk_size=config.chunk_size,
            trained_fps=config.trained_fps,
            max_batch=64,
            samples=False,
            units=config.units,
            kinds={
                name: ZERO_KINDS if name in config.zeros else MEASURED_KINDS for name in config.action_names
            },
        )

    def make_processors(self) -> HoldProcessors:
        return HoldProcessors(self._indices, tuple(self.spec.image_shapes))

    def predict(self, batch: Sequence[Float32Array]) -> list[Float32Array]:
        return [np.tile(state, (self.spec.chunk_size, 1)) for state in batch]

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def close(self) -> None:
        """Do nothing: there is no device."""
