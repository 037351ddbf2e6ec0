# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""These tests share `builders` with the core's."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "core"))
