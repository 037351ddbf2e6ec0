# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Updates: what has changed, from which snapshot, and how it is applied."""
