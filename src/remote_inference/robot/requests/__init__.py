# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""With whom and when a chunk is asked for."""
