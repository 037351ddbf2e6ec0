# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML and JSON documents: read, checked, and precise about what is wrong."""
