# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The node remote_inference: one robot, driven by a policy that runs on a server."""
