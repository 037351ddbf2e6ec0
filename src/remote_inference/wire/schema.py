# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The schema version that every message carries."""

from __future__ import annotations

from remote_inference.core.exchange import find_schema_problem
from remote_inference.wire.arrays import WireError


def require_schema_version(version: int, what: str) -> None:
    """Raise WireError when this code does not understand the version of the message called `what`."""
    if problem := find_schema_problem(version):
        raise WireError(f"{what}: {problem}")
