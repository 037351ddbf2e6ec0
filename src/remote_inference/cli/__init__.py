# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference`: the package's verbs for people without ros2cli."""

from remote_inference.cli.parser import make_parser
from remote_inference.cli.program import main

__all__ = ["main", "make_parser"]
