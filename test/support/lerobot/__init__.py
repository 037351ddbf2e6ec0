# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies of LeRobot's with random weights, and LeRobot's own answers."""
