# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where installed packages keep their files: configurations, models and message definitions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

PACKAGE = "remote_inference"


def share_path(*parts: str, package: str = PACKAGE) -> Path:
    """Return a path under a package's installed share folder.

    Raises LookupError when it is not installed.
    """
    from ament_index_python.packages import get_package_share_directory  # noqa: PLC0415  bags are read without ROS, too

    os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it
    return Path(get_package_share_directory(package), *parts)
