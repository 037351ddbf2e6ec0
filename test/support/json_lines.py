# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of one JSON value on each line, which another process is writing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_json_lines(path: Path) -> list[Any]:
    """Return the values of a file's lines, without a last one that is not whole yet."""
    whole = path.read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]
