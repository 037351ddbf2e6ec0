# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which middlewares this machine has, and what a user should know of the one in use.

They are read from ament's index: rcl ends a process that asks for another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ament_index_python.resources import get_resources

from remote_inference.base.errors import UserError
from remote_inference.base.paths import distribution_of_wheels, share_path
from remote_inference.tools.deployment import zenoh_config


def installed_middlewares() -> list[str]:
    share_path()  # where the wheels lie, nobody has set AMENT_PREFIX_PATH
    return sorted(set(get_resources("rmw_typesupport")) - {"rmw_implementation"})


@dataclass(frozen=True)
class Installation:
    """The ROS 2 that this machine has.

    distribution: its name, empty when nothing says it. is_wheels: it is of the Python package index, whose
    wheels have one middleware each.
    """

    middlewares: tuple[str, ...]
    distribution: str = ""
    is_wheels: bool = False

    def describe_missing(self, rmw: str) -> str:
        """Return what was found instead of a middleware."""
        return f"{rmw} is not installed, found {', '.join(self.middlewares) or 'none'}"

    def remedy(self, rmw: str, setting: str = "RMW_IMPLEMENTATION") -> str:
        """Return what to do when `setting` asks for a middleware that is not installed."""
        if self.is_wheels:
            return f"leave out {setting}: the wheels of ROS 2 have no other middleware"
        return f"install {self.package_of(rmw)}, or choose another with {setting}"

    def package_of(self, rmw: str) -> str:
        """Return the Debian package that holds a middleware, or words for it."""
        if self.distribution:
            return f"ros-{self.distribution}-{rmw.replace('_', '-')}"
        return f"{rmw} for this ROS 2 distribution"


def find_installation(variables: Mapping[str, str]) -> Installation:
    """Return the ROS 2 that processes with these environment variables run on."""
    sourced = variables.get("ROS_DISTRO", "")
    wheels = "" if sourced else distribution_of_wheels()
    return Installation(tuple(installed_middlewares()), sourced or wheels, is_wheels=bool(wheels))


def require_middleware() -> None:
    """Raise UserError when RMW_IMPLEMENTATION names a middleware that is not installed."""
    _require(os.environ.get("RMW_IMPLEMENTATION", ""), "middleware: ", "RMW_IMPLEMENTATION")


def middleware_warnings(rmw: str, router: str = "") -> list[str]:
    """Return the warnings for a user whose middleware is not Zenoh.

    rmw: RMW_IMPLEMENTATION, empty for the distribution's default. router: as given to `bringup.environment`.
    Raises UserError when `rmw` is not installed.
    """
    _require(rmw, "rmw:=", "rmw:=")
    has_choice = router or zenoh_config.RMW in installed_middlewares()  # the wheels have none
    if rmw == zenoh_config.RMW or not has_choice:
        return []
    in_use = rmw or "the default of this ROS 2 distribution"
    warnings = [
        f"the middleware in use is {in_use}, not {zenoh_config.RMW}: this package is made for Zenoh, and "
        "robots and servers meet only when all use the same one"
    ]
    if router:
        warnings.append(f"router:={router} has no effect with {in_use}")
    return warnings


def _require(rmw: str, place: str, setting: str) -> None:
    """Raise UserError for a middleware that is not installed; empty: none is named."""
    if rmw and rmw not in installed_middlewares():
        installation = find_installation(os.environ)
        found, remedy = installation.describe_missing(rmw), installation.remedy(rmw, setting)
        raise UserError(f"{place}{found}; {remedy}")
