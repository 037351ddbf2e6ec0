# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A policy on another framework's server: options, connection and checked answers, one request at a time."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from rclpy.logging import get_logger

from remote_inference.base.documents.document import Document
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import Float32Array, PolicyError, PolicyObservation, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource, Side
from remote_inference.server.manifest.sections import read_api_key
from remote_inference.server.policies.trained_policy import UNITS, Fps, Names, Unit, read_image, read_state


class Entry(Document):
    """One entry of a state or of a chunk on another server."""

    key: Annotated[str, Field(min_length=1, description="what that server calls the entry")]
    names: Annotated[Names, Field(description="the contract's names of its numbers, in their order")]


class RemoteImage(Document):
    """One camera of a policy on another server."""

    key: Annotated[str, Field(min_length=1, description="what that server calls the camera")]
    size: tuple[Side, Side]
    """height and width that it gets: robots' images are scaled to fit, with black borders [px]"""


class RemoteOptions(Document):
    """Keys of `model.options` that all servers share."""

    name: Annotated[str, Field(min_length=1, description="name of the policy, for logs and status")]
    api_key_file: str = ""
    """file whose text is the server's key, in the folder `model.path`; empty: no key is sent"""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """an inference without an answer has failed after this [s]"""
    first_timeout_s: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """the same for the first inference, in which servers may compile [s]"""
    state: Annotated[tuple[Entry, ...], Field(min_length=1)]
    """entries that make the state, in the order of the contract's names"""
    images: Mapping[str, RemoteImage] = {}
    """cameras, by the feature that the robots send"""
    chunk_size: Annotated[int, Field(ge=1, le=10_000, description="actions of a chunk; checked in answers")]
    trained_fps: Fps
    units: Annotated[Mapping[str, Unit], UNITS] = {}

    @property
    def state_names(self) -> tuple[str, ...]:
        """The names of the whole state, in the order of its entries."""
        return names_of(self.state)

    def find_api_key(self, source: ModelSource) -> str:
        """Return the key in `api_key_file`, an empty string without one. Raises DocumentError."""
        path = Path(source.path) / self.api_key_file
        return read_api_key(path, "model.options: api_key_file") if self.api_key_file else ""


def names_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the names of all numbers, in the order of the entries."""
    return tuple(name for entry in entries for name in entry.names)


def require_distinct(key: str, names: Iterable[str]) -> None:
    """Raise PolicyError when a name occurs twice."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise PolicyError(f"model.options: {key}: found {twice[0]!r} twice, expected each name once")


FIRST_PAUSE_S = 0.5  # after the first failure; doubled after each one that follows
LONGEST_PAUSE_S = 5.0


class LinkError(PolicyError):
    """The connection has failed: only a new one may work."""


class Server(ABC):
    """The wire of another framework's server. Every call ends within its timeout."""

    def __init__(self, place: str, options: RemoteOptions) -> None:
        """place: kind and address, for logs and errors."""
        self.place = place
        self.kinds: Mapping[str, tuple[str, ...]] = {}  # as `PolicySpec.kinds`, where the wire says them
        self._state = options.state

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known without asking."""

    @abstractmethod
    def open(self, timeout_s: float) -> bytes:
        """Connect; return what the server says of its policy.

        Raises LinkError when nobody answers as such a server does, PolicyError when the policy does not fit.
        """

    @abstractmethod
    def infer(self, model_input: RemoteInput, timeout_s: float) -> Float32Array:
        """Return a chunk. Raises LinkError, or PolicyError for an answer that does not fit."""

    @abstractmethod
    def reset(self, timeout_s: float) -> None:
        """End the episode, if the server's wire can. Raises LinkError or PolicyError."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, if there is one."""

    def split_state(self, state: Float32Array) -> dict[str, Float32Array]:
        """Return the entries of a state `[state_dim]` by the server's keys, each `[names]`."""
        ends = np.cumsum([len(entry.names) for entry in self._state])
        return dict(zip((entry.key for entry in self._state), np.split(state, ends[:-1]), strict=True))


class Connection:
    """Calls a server, and reconnects after a pause when it has failed; calls fail at once meanwhile."""

    def __init__(self, server: Server, clock_s: Callable[[], float], log: Callable[[str], object]) -> None:
        """clock_s: monotonic [s]. log: called with news for the operator."""
        self._server = server
        self._clock_s = clock_s
        self._log = log
        self._problem = ""  # why there is no connection
        self._pause_s = FIRST_PAUSE_S
        self._next_s = 0.0  # no attempt before
        self._reset_due = False
        self.greeting: bytes | None = None  # what the server said of its policy when it was loaded

    def open(self, timeout_s: float) -> None:
        """Connect. Raises PolicyError when that fails, or when the server now says something else."""
        if (wait_s := self._next_s - self._clock_s()) > 0:
            raise PolicyError(f"{self._problem}; the next attempt is in {wait_s:.1f} s")
        try:
            greeting = self._server.open(timeout_s)
            if self.greeting not in {None, greeting}:
                found = f"{self._server.place} describes another policy than when this server was configured"
                raise PolicyError(f"{found}; configure it again")
        except PolicyError as error:
            self._fail(error)
            raise
        self.greeting = greeting
        self._log(f"{self._server.place}: connected")

    def infer(self, model_input: Any, timeout_s: float) -> Float32Array:
        """Return a chunk within a time. Raises PolicyError when the server gives none."""
        deadline_s = self._clock_s() + timeout_s
        if not self._server.is_open:
            self.open(timeout_s)
        try:
            if self._reset_due:
                self._server.reset(self._left(deadline_s))
                self._reset_due = False
            rows = self._server.infer(model_input, self._left(deadline_s))
        except LinkError as error:
            self._fail(error)
            raise
        self._pause_s = FIRST_PAUSE_S
        return rows

    def reset(self) -> None:
        """Reset the server before the next inference, even if it is away now."""
        self._reset_due = True

    def close(self) -> None:
        self._server.close()

    def _left(self, deadline_s: float) -> float:
        return max(0.0, deadline_s - self._clock_s())

    def _fail(self, error: PolicyError) -> None:
        self._server.close()
        self._problem = str(error)
        self._next_s = self._clock_s() + self._pause_s
        self._log(f"{error}; the next attempt is in {self._pause_s:.1f} s")
        self._pause_s = min(2.0 * self._pause_s, LONGEST_PAUSE_S)


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
        state = read_state(observation.state, len(self._options.state_names))
        images = {}
        for feature, image in self._options.images.items():
            planes = read_image(observation.images, feature, *image.size, "letterbox")
            images[image.key] = np.ascontiguousarray(planes.transpose(1, 2, 0))
        return RemoteInput(state, images, observation.task)

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
        """Reset the server before the next inference."""
        self._connection.reset()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def require_actions(where: str, found: Any, shape: tuple[int, ...]) -> Float32Array:
    """Return an answer, an array or lists, as float32.

    Raises PolicyError for another shape or type, and for NaN.
    """
    if isinstance(found, list):
        found = _read_lists(found)
    if not isinstance(found, np.ndarray):
        raise PolicyError(f"{where}: found {describe(found)}, expected an array of shape {list(shape)}")
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


def _read_lists(rows: list[Any]) -> Any:
    """Return the array of lists within each other that hold numbers of one kind; else what was found."""
    if not all(isinstance(leaf, (int, float, np.generic, np.ndarray)) for leaf in _leaves(rows)):
        return rows  # text, of which numpy would make an array as wide as the longest
    try:
        array = np.array(rows)
    except (ValueError, OverflowError):  # of several lengths
        return rows
    is_whole = array.dtype.kind in "iu"  # a peer in another language writes 0.0 as 0
    return array.astype(np.float64) if is_whole else array


def _leaves(rows: list[Any]) -> Iterator[Any]:
    for row in rows:
        yield from _leaves(row) if isinstance(row, list) else (row,)


def describe(found: Any) -> str:
    """Return what was found in the place of an array, in words."""
    if isinstance(found, list):
        return "lists of several lengths, or of what is no number"
    if isinstance(found, dict):
        return f"a map with {', '.join(map(repr, sorted(map(str, found))))}" if found else "an empty map"
    return "nothing" if found is None else f"a value of type {type(found).__name__}"


def one_line(text: Any, longest: int = 300) -> str:
    """Return a server's text for an error on one line, its end where it is long, as of a traceback."""
    line = " ".join(str(text).split())
    return line if len(line) <= longest else f"... {line[-longest:]}"
