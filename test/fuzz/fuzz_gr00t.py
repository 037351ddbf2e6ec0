# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages of GR00T's servers: bytes, and arrays whose npy header says something else than their data."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgpack
import numpy as np
from fuzz_target import Target
from mutation import MAX_INPUT_BYTES, NUMBERS, spoil_bytes

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.policies.remote.gr00t import pack, unpack

DESCRIPTIONS = ("<f4", "|O", "|u1", "<U9", "|V8", "", [("a", "<f4")], 4, None, "<f4" * 900)


def _messages() -> list[bytes]:
    return [
        pack([{"single_arm": np.zeros((1, 4, 5), np.float32), "gripper": np.ones((1, 4, 1))}, {}]),
        msgpack.packb({"video": {"__ModalityConfig_class__": True, "as_json": {"delta_indices": [0]}}}),
        msgpack.packb({"error": "Unauthorized: Invalid API token"}),
    ]


def _spoil(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the message with another header before an array's data, or spoiled as bytes."""
    if random.random() < 0.4:
        return spoil_bytes(random, data, others)
    shape = tuple(
        random.choice((*NUMBERS, -7, 0, 1, 2, 3)) for _ in range(random.choice((0, 1, 2, 3, 40, 900)))
    )
    header = {"descr": random.choice(DESCRIPTIONS), "fortran_order": random.choice((True, 0)), "shape": shape}
    text = repr(header).encode()
    if random.random() < 0.3:
        text = spoil_bytes(random, text, [text])[:60_000]
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00"))
    length = len(text).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    npy = b"\x93NUMPY" + version + length + text + bytes(random.choice((0, 4, 64)))
    return msgpack.packb([{"arm": {"__ndarray_class__": True, "as_npy": npy}}, {}])[:MAX_INPUT_BYTES]


TARGETS = (Target("gr00t_message", unpack, _messages, _spoil, (WireError,), 3),)
