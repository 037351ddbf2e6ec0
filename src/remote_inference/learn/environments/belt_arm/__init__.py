# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The belt arm: scene, expert and what the demo learns from; its training is in `examples/belt_arm`."""

from __future__ import annotations

EPISODE_LIMIT_S = 5.0  # the belt has carried the cube out of reach by then
