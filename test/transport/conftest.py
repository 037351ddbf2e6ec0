# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The folder's own modules; `eclipse-zenoh` is the engine of rmw_zenoh in another version (zenoh.md)."""

from importlib.util import find_spec

if find_spec("zenoh") is None:  # an installed ROS 2 has no Python binding of it
    collect_ignore_glob = ["test_*.py"]
