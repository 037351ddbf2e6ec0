# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""openpi's wire: programs that use openpi-client are served beside ROS robots."""
