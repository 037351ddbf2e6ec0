# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Arms that are broken on purpose, and the judge of what they were commanded."""
