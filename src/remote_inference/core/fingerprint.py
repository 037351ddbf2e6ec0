# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a policy: equal fingerprints give equal chunks for equal observations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from remote_inference.core.policy import PolicyError

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
