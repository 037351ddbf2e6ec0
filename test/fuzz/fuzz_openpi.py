# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Frames of openpi's wire: bytes, and arrays of other types and shapes than their data."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgpack
import numpy as np
from fuzz_target import Target
from mutation import MAX_INPUT_BYTES, NUMBERS, spoil_bytes

import remote_inference.server.policies  # noqa: F401  names the back ends
from remote_inference.base.exchange import ImageFeature, Request
from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.openpi import pack, unpack_map
from remote_inference.server.gateways.connection import ObservationReader
from remote_inference.server.manifest.manifest import Manifest, ModelSource
from remote_inference.server.manifest.sections import OpenpiSection
from remote_inference.server.requests.request_decoder import RequestDecoder
from support.builders import make_offer, make_spec

REQUEST = Request(
    session_id="s",
    session_epoch=0,
    seq_id=1,
    episode_id=0,
    episode_start=False,
    client_mono_ns=0,
    task="",
    inference_delay_steps=0,
)
_SPEC = make_spec()
_OFFER = make_offer(images=tuple(ImageFeature(feature, "raw") for feature in _SPEC.image_shapes))
_SECTION = OpenpiSection(state=("state",), images=dict.fromkeys(_SPEC.image_shapes, "image"))
_MANIFEST = Manifest(model=ModelSource(backend="hold", path="policy.json"), openpi=_SECTION)
_DECODER = RequestDecoder(_MANIFEST, _SPEC)
_READER = ObservationReader(_SECTION.keys_for(_SPEC), _SPEC, "")
DTYPES = (
    "|O",
    "O",
    "<f4",
    ">f4",
    "<f8",
    "|u1",
    "<U9",
    "|S4",
    "|V8",
    "<M8[ns]",
    "<c8",
    "f4,f4",
    "",
    b"<f4",
    4,
)


def _frames() -> list[bytes]:
    observation = {
        "observation/image": np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3),
        "observation/state": np.linspace(0.0, 1.0, 8),
        "images": {"cam_high": np.zeros((3, 4, 6), np.uint8)},
        "gripper": np.float32(0.5),
        "steps": [1, 2.5, None, True],
        "prompt": "wave",
    }
    return [
        pack(observation),
        pack({"actions": np.zeros((5, 7), np.float32), "server_timing": {"infer_ms": 1.0}}),
    ]


def _spoil(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the frame with a field of an array exchanged or a value wrapped, or spoiled as bytes."""
    if random.random() < 0.5:
        return spoil_bytes(random, data, others)
    try:
        tree = msgpack.unpackb(data, strict_map_key=False)
        return msgpack.packb(_spoil_value(random, tree))[:MAX_INPUT_BYTES]
    except Exception:  # it was spoiled before
        return spoil_bytes(random, random.choice(others), others)


def _spoil_value(random: Random, value: Any) -> Any:
    if isinstance(value, dict) and b"dtype" in value and random.random() < 0.8:
        return _spoil_array(random, value)
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        return {**value, key: _spoil_value(random, value[key])}
    for _ in range(random.choice((1, 2, 7, 20, 2000))):
        value = [value] if random.random() < 0.7 else {"a": value}
    return value


def _spoil_array(random: Random, fields: dict[Any, Any]) -> dict[Any, Any]:
    match random.randrange(5):
        case 0:
            return {**fields, b"dtype": random.choice(DTYPES)}
        case 1:
            shape = [random.choice((*NUMBERS, -7, 0, 1, 2, 3)) for _ in range(random.randrange(12))]
            return {**fields, b"shape": shape}
        case 2:
            return {**fields, b"data": random.choice((b"", bytes(64), "text", 1.5, None, [], 2**63, -1))}
        case 3:
            return {key: value for key, value in fields.items() if random.random() < 0.7}
        case _:
            return {**fields, random.choice((b"__ndarray__", b"__npgeneric__")): random.choice((True, 0, []))}


def _observations() -> list[bytes]:
    return [pack({"state": np.zeros(2), "image": np.zeros((4, 6, 3), np.uint8), "prompt": "wave"})]


def _read_observation(data: bytes) -> None:
    _, message = _DECODER.request(_READER.read(unpack_map(data), REQUEST))
    _DECODER.observation(message, _OFFER)


TARGETS = (
    Target("openpi_frame", unpack_map, _frames, _spoil, (WireError,), 6),
    Target("openpi_observation", _read_observation, _observations, _spoil, (WireError,), 6),
)
