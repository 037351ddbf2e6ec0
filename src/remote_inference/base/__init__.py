# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every machine needs: contract, messages and their conversion, the runtime of nodes, errors."""

from importlib.metadata import version

if version("pydantic").startswith("1."):
    raise ImportError(
        f"pydantic {version('pydantic')} found, expected 2 or newer: install requirements/ros.txt with pip"
    )
