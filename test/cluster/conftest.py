# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""These tests need Ray: `make test-environments` runs them, and elsewhere nothing here is collected."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

TESTS = Path(__file__).parents[1]

if find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Workers of a cluster find the tests' environments as they would find a user's.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
