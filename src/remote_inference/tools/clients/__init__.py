# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Clients of nodes that only a verb needs."""
