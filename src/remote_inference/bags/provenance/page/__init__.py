# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The page on which a run is walked back."""
