# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where installed packages keep their files: configurations, models and message definitions."""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# -- Which distribution of ROS 2 Python has, and how a ROS package is installed that it lacks ------------

WHEEL_DISTRIBUTIONS = ("jazzy", "kilted", "lyrical")


def distribution_of_wheels() -> str:
    """Return the ROS 2 distribution whose wheels Python has; empty when it has none."""
    for distribution in WHEEL_DISTRIBUTIONS:
        try:
            version(f"ros-{distribution}-rclpy")
        except PackageNotFoundError:
            continue
        return distribution
    return ""


def how_to_install(package: str) -> str:
    """Return what installs a ROS package such as `nav_msgs` here."""
    name = package.replace("_", "-")
    if distribution := os.environ.get("ROS_DISTRO", ""):  # set where ROS 2 is sourced
        return f"sudo apt install ros-{distribution}-{name}, or build {package} in the workspace"
    if distribution := distribution_of_wheels():
        wheel = f"pip install ros-{distribution}-{name}"
        return f"{wheel}; a package without a wheel, such as control_msgs, needs a ROS 2 installation"
    return f"install the ROS package {package}"


PACKAGE = "remote_inference"


def share_path(*parts: str, package: str = PACKAGE) -> Path:
    """Return a path under a package's installed share folder.

    Raises LookupError when it is not installed.
    """
    from ament_index_python.packages import get_package_share_directory  # noqa: PLC0415  bags are read without ROS, too

    os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it
    return Path(get_package_share_directory(package), *parts)
