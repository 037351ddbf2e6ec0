# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the graph, their managers and their own parameters tell of the robot's controllers."""
