# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Message classes by the names that contracts and command lines give."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from remote_inference.wire.arrays import WireError


def message_class(name: str) -> Any:
    """Return the Python class of `package/msg/Name`. Raises WireError when it is not installed."""
    package, _, kind = name.partition("/msg/")
    try:
        found = getattr(import_module(f"{package}.msg"), kind)
        found.get_fields_and_field_types  # noqa: B018  a class without it is no message
        return found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise WireError(f"message type {name!r} is not installed; expected 'package/msg/Name'") from error
