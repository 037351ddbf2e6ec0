# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays the decisions of a recorded robot: what its engine was told, and whether it says the same again."""
