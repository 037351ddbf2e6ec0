# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Walks a motion back: command, row, chunk, request, observation, sensors, and why nothing was commanded."""
