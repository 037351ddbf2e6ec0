# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The folder's own modules; `eclipse-zenoh` is the engine that rmw_zenoh carries."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
