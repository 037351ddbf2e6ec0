# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Asks a policy about recorded requests, and compares its chunks with what was answered and executed then."""
