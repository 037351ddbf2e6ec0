# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays recorded requests to a policy, and compares its chunks with the recorded and executed ones."""
