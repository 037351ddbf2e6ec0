# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Run policies on a GPU server and drive robots with them over a network."""

__version__ = "0.1.0"
