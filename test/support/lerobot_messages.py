# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The pickles of LeRobot's asynchronous clients, made without LeRobot: of classes that have its names."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

HELPERS = "lerobot.async_inference.helpers"
TRANSFER_BEGIN, TRANSFER_END = 1, 3


def _class(name: str) -> type:
    return type(name, (), {"__module__": HELPERS})


CLASSES = {name: _class(name) for name in ("RemotePolicyConfig", "TimedObservation", "TimedAction")}


@contextmanager
def lerobot_in_place() -> Iterator[None]:
    """Let pickles find the classes by their names, as where LeRobot is installed."""
    module = ModuleType(HELPERS)
    vars(module).update(CLASSES)
    packages = {HELPERS.rpartition(".")[0]: ModuleType("async_inference"), "lerobot": ModuleType("lerobot")}
    before = {name: sys.modules.get(name) for name in (*packages, HELPERS)}
    sys.modules.update({**packages, HELPERS: module})
    try:
        yield
    finally:
        for name, found in before.items():
            if found is None:
                del sys.modules[name]
            else:
                sys.modules[name] = found


def pickle_of(name: str, protocol: int = 4, **fields: Any) -> bytes:
    made = CLASSES[name]()
    vars(made).update(fields)
    with lerobot_in_place():
        return pickle.dumps(made, protocol)


def unpickle(data: bytes) -> Any:
    with lerobot_in_place():
        return pickle.loads(data)


def wish_pickle(
    policy: str = "hold",
    joints: tuple[str, ...] = ("shoulder", "elbow"),
    cameras: Mapping[str, tuple[int, ...]] | None = None,
    protocol: int = 4,
    **changes: Any,
) -> bytes:
    features: dict[str, Any] = {
        "observation.state": {
            "dtype": "float32",
            "shape": (len(joints),),
            "names": [f"{name}.pos" for name in joints],
        }
    }
    for camera, shape in ({"camera": (12, 16, 3)} if cameras is None else cameras).items():
        names = ["height", "width", "channels"]
        features[f"observation.images.{camera}"] = {"dtype": "image", "shape": shape, "names": names}
    fields = {
        "policy_type": "act",
        "pretrained_name_or_path": policy,
        "lerobot_features": features,
        "actions_per_chunk": 10,
        "device": "cpu",
        "rename_map": {},
    }
    return pickle_of("RemotePolicyConfig", protocol, **{**fields, **changes})


def observation_pickle(
    values: Mapping[str, Any] | None = None, timestep: int = 0, protocol: int = 4, *, must_go: bool = True
) -> bytes:
    return pickle_of(
        "TimedObservation",
        protocol,
        timestamp=100.0 + timestep,
        timestep=timestep,
        observation=dict(VALUES if values is None else values),
        must_go=must_go,
    )


def picture(height: int = 12, width: int = 16) -> NDArray[np.uint8]:
    return np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)


VALUES = {"shoulder.pos": 0.5, "elbow.pos": np.float32(-0.25), "camera": picture(), "task": "hold still"}


def field(number: int, content: bytes) -> bytes:
    """Return a field of bytes as protocol buffers write it."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def part(content: bytes, state: int = TRANSFER_END) -> bytes:
    """Return a part of an observation."""
    return bytes([1 << 3, state]) + field(2, content)


def _varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
