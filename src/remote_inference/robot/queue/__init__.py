# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the future and the past: queued rows, latency, observations."""
