# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot: action queue, latency window, guard, playback and the engine that requests chunks."""
