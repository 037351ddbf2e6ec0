# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Where tests let policies compute."""

from __future__ import annotations

import os

DEVICE = os.environ.get("TEST_DEVICE", "cpu")
"""As torch names it. Another than the processor is for a machine that has it: TEST_DEVICE=cuda."""

BATCH_ROUNDING = 1e-5 if DEVICE == "cpu" else 1e-4
"""By which a chunk in a batch may differ from the same alone: a GPU sums a batch in another order.

Convolutions are in TF32 there, unless torch is told otherwise, with 10 bits of a float32's 23.
"""
