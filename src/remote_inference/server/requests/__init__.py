# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A request's way from its arrival to its answer."""
