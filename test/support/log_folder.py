# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a test's processes write their logs: set by fixtures, which may fail themselves."""

from pathlib import Path

import pytest

LOG_FOLDER = pytest.StashKey[Path]()
