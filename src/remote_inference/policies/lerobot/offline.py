# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Keeps LeRobot and the libraries below it from looking for files on a hub."""

from __future__ import annotations

import os
import sys

_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def go_offline() -> None:
    """Let this process and its children find models and tokenizers on this machine only."""
    for variable in _VARIABLES:
        os.environ[variable] = "1"
    if hub := sys.modules.get("huggingface_hub.constants"):  # has read the variable when it was imported
        hub.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
