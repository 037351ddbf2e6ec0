# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Environments, evaluation, rollouts and live weights, with their nodes."""
