# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Message and action classes by the names that contracts and command lines give."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from remote_inference.base.paths import how_to_install
from remote_inference.base.wire.arrays import WireError


def message_class(name: str) -> Any:
    """Return the Python class of `package/msg/Name`. Raises WireError when it is not installed."""
    return _find_class(name, "msg", "message", "get_fields_and_field_types")


def action_class(name: str) -> Any:
    """Return the Python class of `package/action/Name`. Raises WireError when it is not installed."""
    return _find_class(name, "action", "action", "Goal")


def command_class(name: str) -> Any:
    """Return the class of a command: the message, or an action's goal. Raises WireError."""
    return action_class(name).Goal if "/action/" in name else message_class(name)


def _find_class(name: str, kind: str, what: str, attribute: str) -> Any:
    """Import a class and require an attribute that classes of another kind lack. Raises WireError."""
    package, _, leaf = name.partition(f"/{kind}/")
    try:
        found = getattr(import_module(f"{package}.{kind}"), leaf)
        getattr(found, attribute)
        return found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        expected = find_remedy(name) or f"expected 'package/{kind}/Name'"
        raise WireError(f"{what} type {name!r} is not installed; {expected}") from error


def find_remedy(name: str) -> str:
    """Return what installs the package of a type's name; empty where the package is installed."""
    package = name.partition("/")[0]
    if not package.isidentifier() or package in sys.modules or find_spec(package) is not None:
        return ""
    return how_to_install(package)
