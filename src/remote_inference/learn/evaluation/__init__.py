# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Evaluation: policies play the same episodes of the same tasks, and are compared in numbers."""
