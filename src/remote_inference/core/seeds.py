# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The seed of everything random in a policy's answer: a hash of what the request shows and asks."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable
from typing import Any

_PART = struct.Struct("<QI")
_BITS = 63  # numpy, torch and int64 fields take it


def make_seed(parts: Iterable[Any]) -> int:
    """Return a seed below 2**63 that depends on the bytes of all parts, their lengths and their order.

    parts: contiguous buffers, for example bytes or arrays. A checksum of each part is enough and ten times as
    fast as a cryptographic hash: two requests in four billion share a seed, which does no harm.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(_PART.pack(memoryview(part).nbytes, zlib.crc32(part)))
    return int.from_bytes(digest.digest(), "little") >> 64 - _BITS
