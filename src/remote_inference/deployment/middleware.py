# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which middlewares this machine has, read from ament's index: rcl ends a process that asks for another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ament_index_python.resources import get_resources

from remote_inference.errors import UserError
from remote_inference.paths import share_path


def installed_middlewares() -> list[str]:
    """Return the middlewares that this machine has."""
    share_path()  # where the wheels lie, nobody has set AMENT_PREFIX_PATH
    return sorted(set(get_resources("rmw_typesupport")) - {"rmw_implementation"})


def debian_package(rmw: str, variables: Mapping[str, str]) -> str:
    """Return the name of the Debian package that holds a middleware. variables: the environment's."""
    return f"ros-{variables.get('ROS_DISTRO', '<distro>')}-{rmw.replace('_', '-')}"


def describe_missing(rmw: str, installed: Sequence[str]) -> str:
    """Return what was found instead of a middleware."""
    return f"{rmw} is not installed, found {', '.join(installed) or 'none'}"


def require_middleware() -> None:
    """Raise UserError when RMW_IMPLEMENTATION names a middleware that is not installed."""
    wanted = os.environ.get("RMW_IMPLEMENTATION", "")
    installed = installed_middlewares()
    if wanted and wanted not in installed:
        raise UserError(
            f"middleware: {describe_missing(wanted, installed)}; install {debian_package(wanted, os.environ)}"
        )
