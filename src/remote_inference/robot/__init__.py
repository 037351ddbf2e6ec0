# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's computer: action queue, safety state machine, motion, and the nodes that publish commands."""
