# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The GPU machine: policies, sessions, scheduling, gateways, and the node that serves action chunks."""
