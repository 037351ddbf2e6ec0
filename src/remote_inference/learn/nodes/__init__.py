# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulators as nodes, and clients that evaluate, train and play through nodes."""
