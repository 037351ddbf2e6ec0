# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a client's observation by the keys that the manifest names, and makes a robot's request of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from numpy.typing import NDArray
from rclpy.serialization import serialize_message

from remote_inference.base.documents.problems import show_value
from remote_inference.base.exchange import Request
from remote_inference.base.limits import MAX_REMARK_LENGTH, shorten
from remote_inference.base.policy import Float32Array, PolicySpec
from remote_inference.base.wire import WireError, image_to_message, observation_to_message
from remote_inference.server.manifest.sections import ObservationKeys

MOST_NAMED = 100  # keys of an observation that lacks one
_AXES = {"hwc": "height, width, 3", "chw": "3, height, width"}


class ObservationReader:
    """Turns observations into serialized requests, as a robot that offers the policy's features sends them.

    Nothing is guessed: openpi's own policies take images of either layout and of any number type.
    """

    def __init__(self, keys: ObservationKeys, spec: PolicySpec, default_task: str) -> None:
        """keys: as `OpenpiSection.keys_for` returns them for the policy."""
        self._keys = keys
        self._state_names = spec.state_names
        self._default_task = default_task

    def read(self, observation: Mapping[str, Any], request: Request) -> bytes:
        """Return the request with the observation's task, state and images, serialized.

        Raises WireError naming the key, what was found and expected. Keys that are not mapped are ignored.
        """
        entries = dict(_flatten(observation))
        task = self._read_task(entries)
        state = self._read_state(entries)
        images = [image_to_message(self._read_image(entries, key)) for key in self._keys.images.values()]
        message = observation_to_message(replace(request, task=task), state, images, Time())
        data: bytes = serialize_message(message)
        return data

    def _read_task(self, entries: Mapping[str, Any]) -> str:
        key = self._keys.prompt
        if key not in entries and self._default_task:
            return ""
        prompt = _get(entries, key, "the task, for which the server has no default")
        if isinstance(prompt, bytes):
            prompt = prompt.decode("utf-8", "replace")
        if not isinstance(prompt, str):
            raise WireError(f"{key}: found {_describe(prompt)}, expected a text")
        return prompt

    def _read_state(self, entries: Mapping[str, Any]) -> Float32Array:
        keys = self._keys.state
        parts = [_read_numbers(key, _get(entries, key, "a part of the state")) for key in keys]
        state = np.concatenate(parts)
        if len(state) != len(self._state_names):
            found = ", ".join(f"{len(part)} in {key}" for part, key in zip(parts, keys, strict=True))
            raise WireError(f"state: found {found}, expected {len(self._state_names)} values in all")
        return state

    def _read_image(self, entries: Mapping[str, Any], key: str) -> NDArray[np.uint8]:
        """Return uint8 `[height, width, 3]`, not necessarily contiguous."""
        image, layout = _get(entries, key, "an image"), self._keys.layout
        expected = f"a uint8 array of shape [{_AXES[layout]}] ({layout})"
        if not isinstance(image, np.ndarray) or image.dtype != np.uint8:
            raise WireError(f"{key}: found {_describe(image)}, expected {expected}")
        if image.ndim != 3 or image.shape[layout.index("c")] != 3 or not image.size:
            raise WireError(f"{key}: found {_describe(image)}, expected {expected}")
        return image if layout == "hwc" else image.transpose(1, 2, 0)


def _flatten(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of nested maps, with their whole keys, `a/b`."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{name}/")
        else:
            yield name, value


def _get(entries: Mapping[str, Any], key: str, what: str) -> Any:
    if key in entries:
        return entries[key]
    names = list(islice(entries, MOST_NAMED))
    near = get_close_matches(key, names, n=1)
    found = shorten(", ".join(names) or "no entry", MAX_REMARK_LENGTH // 2)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise WireError(f"{key}: found no such key, expected {what}; keys of the observation: {found}{hint}")


def _read_numbers(key: str, value: Any) -> Float32Array:
    """Return float32 `[n]` of an array of at most one dimension, a number or a list of numbers."""
    numbers = value if isinstance(value, np.ndarray) else _as_array(value)
    if numbers is None or numbers.dtype.kind not in "fiu" or numbers.ndim > 1:
        raise WireError(f"{key}: found {_describe(value)}, expected numbers in one dimension")
    with np.errstate(over="ignore"):  # infinite values are refused by their joint's name
        return numbers.astype(np.float32).reshape(-1)


def _as_array(value: Any) -> NDArray[Any] | None:
    numbers = value if isinstance(value, list) else [value]
    plain = all(isinstance(n, (int, float, np.generic)) and not isinstance(n, bool) for n in numbers)
    return np.asarray(numbers, np.float64) if plain else None


def _describe(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} of shape {list(value.shape)}"
    return show_value(value)
