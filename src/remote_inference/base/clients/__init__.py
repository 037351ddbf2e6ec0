# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Clients of the robot's and the server's node, for verbs and nodes."""
