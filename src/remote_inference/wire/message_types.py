# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Message and action classes by the names that contracts and command lines give."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from remote_inference.wire.arrays import WireError


def action_class(name: str) -> Any:
    """Return the Python class of `package/action/Name`. Raises WireError when it is not installed."""
    package, _, kind = name.partition("/action/")
    try:
        found = getattr(import_module(f"{package}.action"), kind)
        found.Goal.get_fields_and_field_types  # noqa: B018  a class without it is no action
        return found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise WireError(f"action type {name!r} is not installed; expected 'package/action/Name'") from error


def command_class(name: str) -> Any:
    """Return the class of what a type's name sends: messages, or goals. Raises WireError as the others do."""
    return action_class(name).Goal if "/action/" in name else message_class(name)


def message_class(name: str) -> Any:
    """Return the Python class of `package/msg/Name`. Raises WireError when it is not installed."""
    package, _, kind = name.partition("/msg/")
    try:
        found = getattr(import_module(f"{package}.msg"), kind)
        found.get_fields_and_field_types  # noqa: B018  a class without it is no message
        return found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise WireError(f"message type {name!r} is not installed; expected 'package/msg/Name'") from error
