# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which distribution of ROS 2 Python has, and how a ROS package is installed that it lacks."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

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
