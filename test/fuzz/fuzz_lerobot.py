# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages of LeRobot's asynchronous clients: pickles with other instructions and functions in them."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Sequence
from random import Random

from fuzz_target import Target
from mutation import MAX_INPUT_BYTES, spoil_bytes

from remote_inference.base.wire.arrays import WireError
from remote_inference.server.frameworks.lerobot_async import (
    read_image,
    read_observation,
    read_policy_wish,
    read_state,
)
from support.lerobot_messages import field, observation_pickle, wish_pickle

CODES = [instruction.code.encode("latin-1") for instruction in pickletools.opcodes]
GLOBALS = [pickle.dumps(function)[2:-1] for function in (eval, exec, open, print)] + [b"cos\nsystem\n"]


def _observations() -> list[bytes]:
    return [observation_pickle(protocol=protocol) for protocol in (3, 4, 5)]


def _wishes() -> list[bytes]:
    return [field(1, wish_pickle(protocol=protocol)) for protocol in (3, 4, 5)]


def _spoil(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return the message with other instructions or functions in it, or spoiled as bytes."""
    if random.random() < 0.5:
        return spoil_bytes(random, data, others)
    place = random.randrange(len(data))
    put = random.choice(random.choice((CODES, GLOBALS)))
    return (data[:place] + put + data[place + random.choice((0, len(put))) :])[:MAX_INPUT_BYTES]


def _read(data: bytes) -> object:
    values = read_observation(data).values
    return read_state(values, ("shoulder.pos", "elbow.pos")), read_image(values, "camera", (12, 16, 3))


TARGETS = (
    Target("lerobot_observation", _read, _observations, _spoil, (WireError,), 3),
    Target("lerobot_policy", read_policy_wish, _wishes, _spoil, (WireError,)),
)
