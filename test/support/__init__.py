# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tests share: each module is imported by its full name, from every folder."""
