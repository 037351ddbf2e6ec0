# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""An environment that never comes to be."""

from __future__ import annotations

import time


class Hung:
    def __init__(self) -> None:
        time.sleep(600)
