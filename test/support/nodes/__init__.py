# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Real nodes as processes: rigs, fleets, tapes, and policies for their servers."""
