# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The schema version that every message carries."""

from __future__ import annotations

from remote_inference.core.exchange import SCHEMA_VERSION_MAX, SCHEMA_VERSION_MIN
from remote_inference.wire.arrays import WireError


def require_schema_version(version: int, what: str) -> None:
    """Raise WireError when this code does not understand the version of the message called `what`."""
    if not SCHEMA_VERSION_MIN <= version <= SCHEMA_VERSION_MAX:
        raise WireError(
            f"{what}: found schema_version {version}, expected {SCHEMA_VERSION_MIN} to {SCHEMA_VERSION_MAX}"
        )
