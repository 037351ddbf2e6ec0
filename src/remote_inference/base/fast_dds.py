# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environment variables of Fast DDS, the default middleware of ROS 2.

Who discovers a process of the same machine opens its shared memory port, and may hold all that it publishes
itself meanwhile: for a third of the port's `healthy_check_timeout_ms`, 333 ms by default (eProsima/Fast-DDS,
issue 6535). A robot's commands then stop for so long, and its watchdog trips after 200 ms. So a process with
little traffic has no such port, and delays no robot. With ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST every
process has one nevertheless, of rmw_fastrtps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata

# By Fast DDS 2 and 3. Version 3 reads the first, too, and warns that it is deprecated.
PROFILES = ("FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE")
FAST_DDS_3_RCLPY = 9  # Kilted's: the first with Fast DDS 3
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
CHOICES = (*PROFILES, TRANSPORTS)
"""Each of them chooses the transports of a process."""


def is_configured(environment: Mapping[str, str]) -> bool:
    """Return whether the user has chosen the transports himself."""
    return any(name in environment for name in CHOICES)


def profile_variable() -> str:
    """Return the variable that names a profile's file to the Fast DDS that is installed."""
    major = int(metadata.version("rclpy").partition(".")[0])  # ROS_DISTRO need not be set
    return PROFILES[major >= FAST_DDS_3_RCLPY]


def shared_memory_off(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that turn shared memory off; none where the user has chosen himself."""
    return {} if is_configured(environment) else {TRANSPORTS: "UDPv4"}


@contextmanager
def without_shared_memory() -> Iterator[None]:
    """Start the middleware within the block with the variables of `shared_memory_off`."""
    added = shared_memory_off(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
