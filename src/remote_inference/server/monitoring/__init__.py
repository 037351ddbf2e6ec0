# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a running server shows: health port, metrics, status page, diagnostics."""
