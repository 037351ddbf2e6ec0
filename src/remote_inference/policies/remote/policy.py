# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy on somebody else's server, as the scheduler sees it: one request at a time, checked answers."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.logging import get_logger

from remote_inference.core.fingerprint import make_fingerprint
from remote_inference.core.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.core.server.manifest.manifest import ModelSource
from remote_inference.policies.box_resize import letterbox_resize
from remote_inference.policies.remote.connection import Connection, Server
from remote_inference.policies.remote.options import RemoteOptions, require_distinct


@dataclass(frozen=True)
class RemoteInput:
    """One request: state `[state_dim]`, images uint8 `[height, width, 3]` by the server's key."""

    state: Float32Array
    images: Mapping[str, NDArray[np.uint8]]
    task: str


class RemoteProcessors:
    """Scales the images; actions come as the robot executes them."""

    def __init__(self, options: RemoteOptions) -> None:
        self._options = options

    def pre(self, observation: PolicyObservation) -> RemoteInput:
        dim = len(self._options.state_names)
        if observation.state.shape != (dim,):
            raise PolicyError(f"state: found shape {list(observation.state.shape)}, expected [{dim}]")
        images = {}
        for feature, image in self._options.images.items():
            found = observation.images.get(feature)
            if found is None:
                raise PolicyError(f"{feature}: missing; found {sorted(observation.images)}")
            if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
                shape = f"{found.dtype} of shape {list(found.shape)}"
                raise PolicyError(f"{feature}: found {shape}, expected uint8 of shape [height, width, 3]")
            planes = letterbox_resize(found, *image.size)
            images[image.key] = np.ascontiguousarray(planes.transpose(1, 2, 0))
        return RemoteInput(np.asarray(observation.state, np.float32), images, observation.task)

    def post(self, chunk_model: Float32Array) -> Float32Array:
        return chunk_model

    def reset(self) -> None:
        """Do nothing: there is no state."""


class RemotePolicy:
    """Asks a server for each chunk. It connects when it is made; raises PolicyError when that fails."""

    def __init__(
        self, server: Server, source: ModelSource, options: RemoteOptions, action_names: Sequence[str]
    ) -> None:
        require_distinct("state", options.state_names)
        require_distinct("actions", action_names)
        require_distinct("state", (entry.key for entry in options.state))
        require_distinct("images", (image.key for image in options.images.values()))
        self._options = options
        self._connection = Connection(server, time.monotonic, get_logger(source.backend).info)
        self._has_answered = False
        self._connection.open(options.timeout_s)
        greeting = hashlib.sha256(self._connection.greeting or b"").hexdigest()
        self.spec = PolicySpec(
            name=options.name,
            revision=source.revision or "remote",
            fingerprint=make_fingerprint([], {"options": dict(source.options), "server": greeting}),
            state_names=options.state_names,
            action_names=tuple(action_names),
            image_shapes={feature: (*image.size, 3) for feature, image in options.images.items()},
            chunk_size=options.chunk_size,
            trained_fps=options.trained_fps,
            samples=False,  # the other server draws
            units=options.units,
            kinds=server.kinds,
            reads_task=True,
        )

    def make_processors(self) -> RemoteProcessors:
        return RemoteProcessors(self._options)

    def predict(self, batch: Sequence[RemoteInput]) -> list[Float32Array]:
        options = self._options
        chunks = []
        for model_input in batch:
            timeout_s = options.timeout_s if self._has_answered else options.first_timeout_s
            chunks.append(self._connection.infer(model_input, timeout_s))
            self._has_answered = True
        return chunks

    def reset(self) -> None:
        """Have the server forget the episode before the next inference."""
        self._connection.reset()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def require_rows(where: str, found: Any, shape: tuple[int, ...]) -> Float32Array:
    """Return an answer as float32. Raises PolicyError for another shape or type, and for NaN."""
    if not isinstance(found, np.ndarray):
        raise PolicyError(f"{where}: found {_describe(found)}, expected an array of shape {list(shape)}")
    if found.shape != shape:
        raise PolicyError(f"{where}: found shape {list(found.shape)}, expected {list(shape)}")
    if found.dtype.kind != "f":
        raise PolicyError(f"{where}: found {found.dtype}, expected floating-point numbers")
    with np.errstate(over="ignore"):
        rows: Float32Array = found.astype(np.float32)
    if not np.isfinite(rows).all():
        place = [int(index) for index in np.argwhere(~np.isfinite(rows))[0]]
        raise PolicyError(f"{where}: found {found[tuple(place)]} at {place}, expected finite numbers")
    return rows


def _describe(found: Any) -> str:
    if isinstance(found, dict):
        return f"a map with {', '.join(map(repr, sorted(map(str, found))))}" if found else "an empty map"
    return "nothing" if found is None else f"a value of type {type(found).__name__}"


def one_line(text: Any, longest: int = 300) -> str:
    """Return a server's text for an error: on one line, its end if it is too long (of a traceback)."""
    line = " ".join(str(text).split())
    return line if len(line) <= longest else f"... {line[-longest:]}"
