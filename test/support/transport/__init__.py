# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Zenoh sessions, routers and links of real sockets."""
