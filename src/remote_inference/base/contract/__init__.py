# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a contract can say: sections, names, units, command interfaces, and what they come to."""
