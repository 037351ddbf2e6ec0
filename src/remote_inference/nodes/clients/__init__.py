# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Callers of the nodes: of a robot, a policy server, a pool of environments."""
