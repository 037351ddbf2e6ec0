# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a policy and the seed of a request: both equal, equal chunks."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from remote_inference.base.policy import PolicyError

# -- The seed of everything random in a policy's answer: a hash of the request ----------------------------

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


_DIGITS = 16
_BLOCK_BYTES = 1 << 20


def make_fingerprint(files: Iterable[str | Path], settings: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that change with the files' content and order, and with the settings.

    files: weights, configuration and processors, in an order that the back end fixes; their names do not
    count. They are read in blocks, so large weights need no memory. settings: what else decides about the
    chunks, for a back end `ModelSource.settings`: precision and options. Raises PolicyError for a file that
    cannot be read.
    """
    digest = hashlib.sha256()
    digest.update(json.dumps(settings, sort_keys=True, default=str).encode())
    for file in files:
        digest.update(_hash_file(Path(file)))
    return digest.hexdigest()[:_DIGITS]


def _hash_file(path: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.digest()
