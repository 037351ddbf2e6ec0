# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Thin rclpy shells around the pure cores; one executable each."""
