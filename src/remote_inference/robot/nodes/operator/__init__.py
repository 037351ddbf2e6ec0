# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What people, planners and behaviour trees ask of a robot's node."""
