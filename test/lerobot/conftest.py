# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""These tests share `builders` and `queue_operations` with the core's."""

import sys
from pathlib import Path

CORE = Path(__file__).parents[1] / "core"
sys.path[:0] = [str(CORE), str(CORE / "robot")]
