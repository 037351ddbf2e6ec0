# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Replays the recorded inputs of a robot's engine, and compares its outputs with the recorded ones."""
