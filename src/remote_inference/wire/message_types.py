# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Message and action classes by the names that contracts and command lines give."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from remote_inference.ros_packages import how_to_install
from remote_inference.wire.arrays import WireError


def action_class(name: str) -> Any:
    """Return the Python class of `package/action/Name`. Raises WireError when it is not installed."""
    package, _, kind = name.partition("/action/")
    try:
        found = getattr(import_module(f"{package}.action"), kind)
        found.Goal.get_fields_and_field_types  # noqa: B018  a class without it is no action
        return found
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise WireError(f"action type {name!r} is not installed; {_expected(name, 'action')}") from error


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
        raise WireError(f"message type {name!r} is not installed; {_expected(name, 'msg')}") from error


def find_remedy(name: str) -> str:
    """Return what installs the package of a type's name; empty where the package is installed."""
    package = name.partition("/")[0]
    if not package.isidentifier() or package in sys.modules or find_spec(package) is not None:
        return ""
    return how_to_install(package)


def _expected(name: str, kind: str) -> str:
    return find_remedy(name) or f"expected 'package/{kind}/Name'"
