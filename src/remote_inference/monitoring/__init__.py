# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a running server and robot show to people and tools: health port, metrics, diagnostics."""
